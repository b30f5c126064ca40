// The queues: what waits for the cloud and what the lanes have before them, now and over time.

import { h } from "/page/dom.js";
import { hub } from "/page/hub.js";
import { bytes, choice, chosenOf, nothing, section, table, when } from "/page/words.js";
import { chart } from "/page/charts.js";

const STREAMS = ["record", "state", "telemetry"];
const LANES = ["low", "medium", "high"];
const SPANS = [["The last hour", 3600], ["The last day", 86400]];

export function queues() {
  const status = hub.get("status");
  const { streams } = status.outbox;
  return [
    section("Outbox", table("What waits for the cloud, by stream",
      ["Stream", "Waits", "Size", "The oldest", "Refused for good", "Stored ever"],
      STREAMS.filter((name) => streams[name]).map((name) => ({
        key: name,
        cells: [name, streams[name].events.toLocaleString("en"), bytes(streams[name].bytes), when(streams[name].oldest),
          String(streams[name].refused), (streams[name].next - 1).toLocaleString("en")],
      })))),
    section("Over time", choice("span", "Length of time", SPANS.map(([title]) => title)), ...charts()),
  ];
}

function charts() {
  const chosen = chosenOf("span");
  const span = hub.history?.spans[chosen];
  if (span === undefined || span.at.length === 0) return [nothing("Nothing is remembered yet: a sample is taken every five seconds.")];
  const seconds = SPANS[chosen][1];
  const present = Math.floor((hub.now() ?? Date.now()) / 1000);
  const times = span.at.map((at) => present - (hub.history.now - at));
  // Young as the memory may be, ten minutes are shown.
  const range = [Math.max(present - seconds, Math.min(times[0], present - 600)), present];
  return [
    chart("Events that wait for the cloud", times, range, STREAMS.map((name) => [name, span.outbox[name]])),
    chart("Events a minute, stored and taken by the cloud", times, range, rates(span)),
    chart("Commands that are not over, by lane", times, range, LANES.map((name) => [name, span.lanes[name]])),
  ];
}

/** How many events a minute came and went between a sample and the one before it. */
function rates(span) {
  const waiting = span.at.map((_, index) => STREAMS.reduce((sum, name) => sum + span.outbox[name][index], 0));
  const each = (of) => span.at.map((at, index) => {
    const passed = index === 0 ? 0 : at - span.at[index - 1];
    return passed <= 0 ? null : Math.max(0, Math.round((of(index) - of(index - 1)) * 60 / passed));
  });
  return [["stored", each((index) => span.stored[index])], ["taken", each((index) => span.stored[index] - waiting[index])]];
}
