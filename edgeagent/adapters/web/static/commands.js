// Commands: those that came last, and one of them with its timeline.

import { h, said, stretch } from "/page/dom.js";
import { answerOf, hub } from "/page/hub.js";
import { asked, choice, chosenOf, count, facts, length, nothing, section, short, standing, table, when } from "/page/words.js";

const OPEN = new Set(["held", "queued", "waiting", "running"]);
const FILTERS = [
  { title: "All", fits: () => true },
  { title: "Open", fits: (each) => OPEN.has(each.state) },
  { title: "Ended badly", fits: (each) => !OPEN.has(each.state) && !["succeeded", "superseded", "cancelled"].includes(each.state) },
];

export function commands() {
  const report = hub.get("commands");
  if (report === null) return nothing("Being looked at.");
  if (report.commands.length === 0) return nothing("No command has come.");
  const chosen = FILTERS[chosenOf("commands")];
  const fitting = report.commands.filter(chosen.fits);
  return [
    choice("commands", "Which commands", FILTERS.map((each) => each.title)),
    fitting.length === 0 ? nothing("None of the last ones is so.") : list(fitting),
  ];
}

function list(found) {
  return table("The commands that came last, the newest first",
    ["Command", "Device", "Asks", "State", "Why", "Sent", "Came"],
    found.map((each) => ({
      key: `${each.command} ${each.device} ${each.run}`,
      cells: [
        h("a", { href: `#/commands/${each.command}`, "aria-label": `Command ${each.command}` }, short(each.command)),
        device(each.device), asked(each.action, each.arguments), standing(each.state),
        each.reason ? h("span", { title: each.meaning }, each.reason.replaceAll("_", " ")) : "–",
        String(each.attempts), when(each.received_at),
      ],
    })));
}

function device(id) {
  const label = hub.label(id);
  return label === null ? short(id) : said(label);
}

// Milliseconds until what could not be fetched is asked for again.
const AGAIN = 10000;

// What was fetched of the command that is shown; or why nothing was, and when that was.
const nothingOf = (name) => ({ name, mark: "", found: null, trace: null, error: null, failed: 0, isAsked: false });
let held = nothingOf("");

/** One command on each of its devices. */
export function command(name) {
  if (held.name !== name) held = nothingOf(name);
  const mark = markOf(name);
  if (hub.isLive && !held.isAsked && isDue(mark)) fetchOf(name, mark);
  if (held.error) return untold(held.error);
  if (held.found === null) return nothing("Being looked at.");
  return held.found.commands.map((each, index) => {
    const way = held.trace?.ways[index]; // both are told run by run, in the same order
    return [about(each), way === undefined ? null : timeline(way, each)];
  });
}

/** Whether to ask for it: each answer draws the page anew, and what is refused is not to be asked for at once. */
function isDue(mark) {
  if (held.mark !== mark) return true;
  return held.error ? performance.now() - held.failed >= AGAIN : held.found === null;
}

function untold(why) {
  return [
    h("p", {}, standing("not shown", "warn"), " ", said(why.message)),
    why.kind === "unknown"
      ? nothing("The hub does not know this command, or no longer: what is long over is forgotten.")
      : null,
  ];
}

/** What of the stream tells that the command has gone on. */
function markOf(name) {
  const listed = (hub.get("commands")?.commands ?? []).filter((each) => each.command === name);
  return listed.map((each) => [each.device, each.run, each.state, each.reason, each.attempts].join(" ")).join("\n");
}

async function fetchOf(name, mark) {
  const mine = held;
  mine.isAsked = true;
  try {
    const path = `/api/commands/${encodeURIComponent(name)}`; // whatever the address holds, it is one name
    [mine.found, mine.trace] = await Promise.all([answerOf(path), answerOf(`${path}/trace`)]);
    mine.error = null;
  } catch (why) {
    [mine.error, mine.failed] = [why, performance.now()];
  }
  mine.mark = mark;
  mine.isAsked = false;
  hub.changed("command");
}

function about(each) {
  const { receipt, update } = each;
  return section(hub.label(each.device) ?? each.device,
    h("p", { class: "lead" }, asked(each.action, each.arguments), " ", standing(each.state),
      each.reason ? ` ${each.reason.replaceAll("_", " ")}: ${each.meaning}` : ""),
    facts([
      ["Command", h("code", {}, each.command), each.run > 1 ? `, run ${each.run}` : ""],
      ["Device", h("code", {}, each.device)],
      ["Issuer", short(each.issuer)],
      each.actor === each.issuer ? null : ["On record", said(each.actor)],
      ["Lane", each.lane],
      ["Came", when(each.received_at)],
      receipt ? ["Ended", when(receipt.finished_at)] : ["Good until", when(each.expires_at)],
      receipt?.level ? ["Confirmed", receipt.level] : null,
      ["Sent", count(each.attempts, "time")],
      receipt?.detail ? ["Device said", said(receipt.detail)] : null,
      each.last_error && each.last_error !== receipt?.detail ? ["Last error", said(each.last_error)] : null,
      update ? ["Update", `${update.stage}: `, said(update.earlier), " to ", said(update.wanted),
        update.percent === undefined ? "" : `, ${update.percent} %`] : null,
      receipt ? ["Receipt", `${receipt.outcome}, audit row ${receipt.audit.number}, fence ${receipt.fence}`] : null,
    ]));
}

function timeline(way, each) {
  const [whole, ...parts] = way.spans;
  const begin = Date.parse(whole.start);
  const now = hub.now() ?? Math.max(...way.spans.map((span) => Date.parse(span.end ?? span.start)));
  const end = Math.max(begin + 1, whole.end ? Date.parse(whole.end) : now,
    ...parts.map((span) => Date.parse(span.end ?? span.start)));
  const share = (moment) => Math.min(1, Math.max(0, (moment - begin) / (end - begin)));
  return section(`Its way, ${length((end - begin) / 1000)}`,
    h("ol", { class: "way" }, parts.map((span) => {
      const from = Date.parse(span.start);
      const to = span.end ? Date.parse(span.end) : now;
      const kind = span.name === "receipt" ? (each.receipt?.outcome === "succeeded" ? "good" : "bad") : span.end ? "calm" : "busy";
      return h("li", { "data-key": span.span },
        h("span", { class: "stage" }, span.name.replaceAll("_", " ")),
        h("span", { class: "track", "aria-hidden": "true" }, stretch(share(from), share(to), kind)),
        h("span", { class: "took" }, !span.end ? "goes on" : to > from ? length((to - from) / 1000) : ""),
        h("span", { class: "soft says" }, h("time", { datetime: span.start }, span.start.slice(11, 23)),
          Object.entries(span.says).map(([name, it]) => [" · ", name, " ", said(it)])));
    })));
}
