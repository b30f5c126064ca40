// The page: which view is shown, and when it is drawn anew.

import { become, h, plain } from "/page/dom.js";
import { hub } from "/page/hub.js";
import { breakers } from "/page/breakers.js";
import { command, commands } from "/page/commands.js";
import { devices } from "/page/devices.js";
import { health } from "/page/health.js";
import { letters } from "/page/letters.js";
import { queues } from "/page/queues.js";
import { troubles, venue } from "/page/venue.js";
import { long } from "/page/words.js";

const VIEWS = [
  { name: "", title: "Venue", draw: venue },
  { name: "devices", title: "Devices", draw: devices },
  { name: "commands", title: "Commands", draw: commands },
  { name: "queues", title: "Queues", draw: queues },
  { name: "dead-letters", title: "Dead letters", draw: letters },
  { name: "breakers", title: "Breakers", draw: breakers },
  { name: "health", title: "Health", draw: health },
];
const main = document.getElementById("main");
let shown = null;
let isDue = false;

/** The view that the address names, and what of it. */
function place() {
  const [name, what] = location.hash.replace(/^#\/?/, "").split("/");
  if (name === "commands" && what) {
    return { ...VIEWS[2], title: "Command", draw: () => command(what), key: location.hash };
  }
  const view = VIEWS.find((each) => each.name === name) ?? VIEWS[0];
  return { ...view, key: view.name };
}

function draw() {
  isDue = false;
  const view = place();
  const isOther = shown !== view.key;
  const status = hub.get("status");
  document.getElementById("hub").textContent = status ? plain(status.hub) : "edgeagent";
  document.title = `${view.title} · ${status ? plain(status.hub) : "edgeagent"}`;
  drawTop(status, view);
  const content = h("div", { "data-key": view.key, class: "view" },
    h("h1", { tabindex: "-1" }, view.title),
    status === null && view.key !== "health"
      ? h("p", { class: "soft" }, "Waiting for the hub to tell how it stands.")
      : drawn(view));
  become(main, h("div", {}, content));
  if (isOther && shown !== null) {
    main.querySelector("h1").focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  shown = view.key;
}

/** What a view consists of. One that fails costs no other, and comes again with the next report. */
function drawn(view) {
  try {
    return view.draw();
  } catch (why) {
    reportError(why);
    return h("p", {}, `This view cannot be drawn: ${why.message}`);
  }
}

function drawTop(status, view) {
  const wrong = troubles().length;
  const links = VIEWS.map((each) => h("a", {
    href: `#/${each.name}`,
    "aria-current": each.name === view.name ? "page" : null,
  }, each.title, each.name === "health" && wrong > 0
    ? [" ", h("span", { class: "many", "aria-label": `${wrong} to look at` }, wrong)] : null));
  become(document.getElementById("views"), h("div", {}, links));
  // Read aloud when it changes, and only then.
  const news = document.getElementById("news");
  const told = wrong === 0 ? "Nothing to look at" : `${wrong} to look at`;
  if (hub.get("health") !== null && news.textContent !== told) news.textContent = told;
  const link = document.getElementById("link");
  const failing = hub.get("look")?.failing;
  const [kind, word] = hub.isLive
    ? (failing ? ["warn", `live, but not all can be read: ${failing}`] : ["good", "live"])
    : hub.isRefused ? ["bad", "the hub does not let this page listen: too many do already; trying again"]
      : ["bad", status ? "the hub does not answer; trying again" : "connecting"];
  if (link.textContent !== plain(word)) link.textContent = plain(word);
  link.className = `link ${kind}`;
  const now = hub.now();
  document.getElementById("clock").textContent = now === null ? (status ? "the time is not proven" : "")
    : new Date(now).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
  document.getElementById("foot").textContent = status
    ? `edgeagent ${plain(status.version)} · up for ${long(status.uptime + hub.age("status"))} · this page only looks`
    : "";
}

/** Draw anew before the next frame, once for all that has come by then. */
function later() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(draw);
}

// A link within the page would take the place of the view in the address.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", later);
hub.start(later);
setInterval(() => { if (!document.hidden) later(); }, 1000); // ages grow
draw();
