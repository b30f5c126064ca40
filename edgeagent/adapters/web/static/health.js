// Health: every check, the worst first, each with what to do.

import { h, said } from "/page/dom.js";
import { hub } from "/page/hub.js";
import { nothing, section, standing, table, when } from "/page/words.js";

/** One check as an entry of a list. */
export function checkLine(check) {
  return h("li", { class: "check", "data-key": check.name },
    standing(check.level), h("div", {},
      h("p", {}, h("strong", {}, check.name), " ", said(check.summary)),
      check.advice ? h("p", { class: "advice" }, "→ ", said(check.advice)) : null));
}

export function health() {
  const report = hub.get("health");
  if (report === null) return nothing("Being looked at.");
  return [
    section("Checks", h("ul", { class: "checks" }, report.checks.map(checkLine)),
      h("p", { class: "soft" }, "Looked ", when(report.at), ". The same as edgeagent health.")),
    report.drills?.length ? section("Drills", drills(report.drills)) : null,
  ];
}

function drills(list) {
  return table("The last drill of each kind", ["Drill", "Ended", "When", "Passed last", "Why"], list.map((each) => ({
    key: each.kind,
    cells: [each.kind, standing(each.passed ? "passed" : "failed", each.passed ? "good" : "bad"),
      when(each.at), when(each.good_at), said(each.why || "–")],
  })));
}
