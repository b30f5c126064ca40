// The devices: each with its availability, its readings, when it was heard, and who works it.

import { h, said } from "/page/dom.js";
import { hub } from "/page/hub.js";
import { ago, facts, long, nothing, section, standing, table, value, when } from "/page/words.js";

const FEW = 4;
// Shown elsewhere on a card, or of no interest at a glance.
const BESIDE = new Set(["availability", "model", "firmware", "address"]);

export function devices() {
  const report = hub.get("devices");
  if (report === null) return nothing("Being looked at.");
  return [
    report.devices.length === 0 ? nothing("No device is admitted.")
      : h("ul", { class: "cards wide" }, byNeed(report.devices).map((device) => deviceCard(device, true))),
    report.proposals.length === 0 ? null : section("Wait for admission",
      table("Devices that have shown themselves", ["Device", "Calls itself", "Model", "Firmware", "Profile"],
        report.proposals.map((each) => ({
          key: each.device,
          cells: [h("code", {}, each.device), said(each.label), said(each.model || "–"), said(each.firmware || "–"),
            each.profile],
        }))),
      h("p", { class: "soft" }, "edgeagent devices admit ID takes one in.")),
  ];
}

/** Whoever is away first, then by name. */
export function byNeed(devices) {
  const rank = (device) => (device.online === false ? 0 : 1);
  return [...devices].sort((a, b) => rank(a) - rank(b) || a.label.localeCompare(b.label));
}

/** A device as a card; whole where there is room for all that it tells. */
export function deviceCard(device, isWhole = false) {
  const names = Object.keys(device.readings).filter((name) => name !== "availability" && (isWhole || !BESIDE.has(name)));
  // State comes first: that is what commands set.
  names.sort((a, b) => Number(device.readings[b].version !== undefined) - Number(device.readings[a].version !== undefined));
  const few = isWhole ? names : names.slice(0, FEW);
  const heard = device.heard === undefined ? null : device.heard + hub.age("devices");
  const lock = hub.lock(device.device);
  const word = device.online === true ? standing("online") : device.online === false ? standing("offline") : standing("not known", "odd");
  return h("li", { class: "card", "data-key": device.device },
    h("div", { class: "cardhead" }, h("h3", {}, said(device.label)), word),
    h("p", { class: "soft id" }, h("code", {}, device.device), isWhole ? ` · ${device.profile}` : ""),
    few.length === 0 ? nothing("It has told nothing yet.")
      : facts(few.map((name) => [name.replaceAll("_", " "), reading(device.readings[name], isWhole && !BESIDE.has(name))])),
    names.length > few.length ? h("p", { class: "soft" }, `and ${names.length - few.length} more`) : null,
    lock === null ? null : h("p", {}, standing("locked", "busy"), " for ",
      h("a", { href: `#/commands/${lock.command}` }, lock.action),
      ` by ${lock.holder}, ${long(lock.held + hub.age("locks"))}`),
    h("p", { class: "soft" }, `heard ${ago(heard)}`,
      device.unsafe_messages > 0 ? " · reports with QoS 0" : ""));
}

function reading(it, isWhole) {
  const told = h("bdi", {}, value(it.value, it.unit));
  if (!isWhole || it.at === undefined) return told;
  return [told, h("span", { class: "soft" }, " since ", when(it.at), it.live === false ? ", last known" : "")];
}
