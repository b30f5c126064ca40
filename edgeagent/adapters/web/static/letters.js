// Dead letters: commands that ended badly, kept for somebody to look at. What is in them is not shown here.

import { h, said } from "/page/dom.js";
import { hub } from "/page/hub.js";
import { nothing, section, short, standing, table, when } from "/page/words.js";

export function letters() {
  const report = hub.get("dead-letters");
  if (report === null) return nothing("Being looked at.");
  if (report.letters.length === 0) return nothing("No dead letter waits.");
  return [
    h("p", { class: "soft" }, "The oldest hundred that nobody has dealt with. edgeagent dead-letters show NUMBER tells what is in one; replay or discard deals with it."),
    table("Dead letters, the oldest first", ["Number", "Device", "Asked", "Ended", "Why", "Kind", "Sent", "When"],
      report.letters.map((each) => ({
        key: String(each.number),
        cells: [
          h("a", { href: `#/commands/${each.command}`, "aria-label": `Command of dead letter ${each.number}` }, String(each.number)),
          hub.label(each.device) === null ? short(each.device) : said(hub.label(each.device)),
          each.action, standing(each.outcome),
          each.reason ? h("span", {}, each.reason.replaceAll("_", " "), each.meaning ? h("span", { class: "soft" }, ` ${each.meaning}`) : null) : "–",
          each.blame, String(each.attempts), when(each.buried_at),
        ],
      }))),
  ];
}
