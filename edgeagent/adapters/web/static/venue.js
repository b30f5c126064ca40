// The venue at a glance: what is wrong first, then the hub's links, then its devices.

import { h, said } from "/page/dom.js";
import { byNeed, deviceCard } from "/page/devices.js";
import { checkLine } from "/page/health.js";
import { hub } from "/page/hub.js";
import { ago, bytes, count, facts, long, nothing, section, standing, when } from "/page/words.js";

/** Everything that somebody should look at, the worst first. */
export function troubles() {
  return (hub.get("health")?.checks ?? []).filter((check) => check.level !== "ok");
}

export function venue() {
  const devices = hub.get("devices");
  const proposals = devices?.proposals.length ?? 0;
  return [
    wrong(),
    section("Hub", glance(hub.get("status"))),
    h("section", { "data-key": "devices" },
      h("h2", {}, "Devices"),
      devices === null ? null : devices.devices.length === 0
        ? nothing("No device is admitted: edgeagent devices list, edgeagent devices admit ID.")
        : h("ul", { class: "cards" }, byNeed(devices.devices).map((device) => deviceCard(device))),
      proposals ? h("p", {}, h("a", { href: "#/devices" }, `${count(proposals, "device")} wait for admission`)) : null),
  ];
}

function wrong() {
  if (hub.get("health") === null) return section("What is wrong", nothing("Being looked at."));
  const found = troubles();
  if (found.length === 0) {
    return section("What is wrong", h("p", { class: "well" }, standing("ok"), " Nothing is wrong."));
  }
  return section("What is wrong", h("ul", { class: "checks" }, found.map(checkLine)));
}

function glance(status) {
  const { clock, broker, cloud, policy, outbox } = status;
  const age = hub.age("status");
  const waiting = Object.values(outbox.streams).reduce((sum, stream) => sum + stream.events, 0);
  const size = Object.values(outbox.streams).reduce((sum, stream) => sum + stream.bytes, 0);
  return facts([
    ["Clock", clock.source === "none" ? standing("not proven", "warn")
      : `from ${clock.source}, within ${clock.error < 1 ? `${Math.ceil(clock.error * 1000)} ms` : long(clock.error)}`],
    ["Broker", Object.entries(broker).map(([name, link], index) => [index ? ", " : "", link.connected
      ? [standing("connected"), ` ${name}`]
      : [standing("away", "bad"), ` ${name} for ${long(link.since + age)}`]])],
    ["Cloud", !cloud.configured ? "none: the hub works alone"
      : cloud.failing_for === undefined ? cloud.last_success === undefined ? "not asked yet"
        : [standing("connected"), `, answered ${ago(cloud.last_success + age)}`]
        : [standing("away", "bad"), ` for ${long(cloud.failing_for + age)}`]],
    ["Outbox", h("a", { href: "#/queues" }, waiting === 0 ? "empty" : `${count(waiting, "event")}, ${bytes(size)}`)],
    ["Policy", policy.version === undefined ? standing("none", "warn")
      : [`version ${policy.version}`, policy.expires_at ? [", ends ", when(policy.expires_at)] : ""],
    policy.problem ? [" ", policy.version === undefined ? null : standing("warning"), " ", said(policy.problem)] : null],
    ["Epoch", h("code", {}, status.epoch), `, start ${status.incarnation}`],
  ]);
}
