// What is stopped: by itself (breakers), or by somebody (the kill switch); and who works which device.

import { h, said } from "/page/dom.js";
import { hub } from "/page/hub.js";
import { long, nothing, section, short, standing, table, when } from "/page/words.js";

export function breakers() {
  const report = hub.get("breakers");
  const stops = hub.get("stops");
  const locks = hub.get("locks");
  return [
    report === null ? null : section("Breakers", report.breakers.length === 0
      ? nothing("All are closed, and nothing is counted towards one.")
      : table("Breakers that there is something to say of", ["Action", "Of", "Stands", "Why", "Since", "Next try"],
        report.breakers.map((each) => ({
          key: `${each.action} ${each.origin}`,
          cells: [each.action, each.name ? said(each.name) : short(each.origin), standing(each.phase),
            why(each), when(each.opened_at), next(each)],
        }))),
    report.breakers.length === 0 ? null : h("p", { class: "soft" }, `While one is open, of its commands: ${report.when_open}. edgeagent breakers reset ACTION@ORIGIN closes one.`)),
    stops === null ? null : section("Stops", stops.stops.length === 0
      ? nothing("Nothing was ever stopped.")
      : table("The last word on each kind of command", ["Kind", "Stands", "Since", "By", "Why"],
        stops.stops.map((each) => ({
          key: each.kind,
          cells: [h("code", {}, each.kind), standing(each.stopped ? "stopped" : "resumed", each.stopped ? "bad" : "good"),
            when(each.at), said(each.by), said(each.why || "–")],
        })))),
    locks === null ? null : section("Locks", locks.locks.length === 0
      ? nothing("Nobody works a device.")
      : table("Who works which device", ["Device", "Command", "Action", "Lane", "Holder", "Held", "Lease"],
        locks.locks.map((each) => ({
          key: each.device,
          cells: [said(hub.label(each.device) ?? each.device),
            h("a", { href: `#/commands/${each.command}` }, short(each.command)), each.action, each.lane,
            each.holder, long(each.held + hub.age("locks")), `${long(each.left - hub.age("locks"))} left`],
        })))),
  ];
}

function why(each) {
  const counted = Object.entries(each.counted ?? {}).map(([signal, number]) => `${signal.replaceAll("_", " ")} ${number}`);
  return said([each.why, each.signal.replaceAll("_", " "), ...counted].filter(Boolean).join(" · ") || "–");
}

function next(each) {
  if (each.phase === "closed") return "–";
  if (each.probe !== undefined) return `run ${each.probe} tries`;
  if (each.left === undefined) return "when it is reset";
  return `in ${long(each.left - hub.age("breakers"))}`;
}
