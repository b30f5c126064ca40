// Times, lengths and numbers as people read them; the same as the command line prints.

import { h } from "/page/dom.js";
import { hub } from "/page/hub.js";

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];

/** A length of time, in one unit. */
export function length(seconds) {
  for (const [size, unit] of UNITS) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  if (seconds >= 10 || seconds === 0) return `${Math.floor(seconds)} s`;
  return seconds >= 1 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds * 1000)} ms`;
}

/** A length of time, in whole seconds at least. */
export function long(seconds) {
  const whole = Math.floor(Math.max(0, seconds));
  return whole < 10 ? `${whole} s` : length(whole);
}

export function ago(seconds) {
  return seconds === null || seconds === undefined ? "never" : `${long(seconds)} ago`;
}

/** A moment as how long ago or how soon it is; as it is while the hub does not know the time. */
export function when(moment) {
  if (!moment) return "–";
  const exact = moment.replace(/\.\d+/, "");
  const now = hub.now();
  if (now === null) return h("time", { datetime: moment }, exact);
  const left = (Date.parse(moment) - now) / 1000;
  const told = left > 2 ? `in ${long(left)}` : ago(-left);
  return h("time", { datetime: moment, title: exact }, told);
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

export function bytes(number) {
  if (number < 1024) return `${number} B`;
  const units = ["KiB", "MiB", "GiB"];
  let value = number / 1024;
  let unit = 0;
  while (value >= 1024 && unit < 2) [value, unit] = [value / 1024, unit + 1];
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

/** A value of a reading or argument. */
export function value(it, unit = "") {
  let told = it;
  if (it === true) told = "on";
  else if (it === false) told = "off";
  else if (typeof it === "number" && !Number.isInteger(it)) told = String(Number(it.toPrecision(6)));
  return unit ? `${told}\u00a0${unit}` : String(told);
}

/** An id as short as it is readable; whole where one looks closer. */
export function short(id) {
  const text = String(id);
  return h("code", { title: text.length > 14 ? text : null }, text.length > 14 ? `${text.slice(0, 12)}…` : text);
}

/** What a command asks: its action with its arguments. */
export function asked(action, values = {}) {
  const words = Object.entries(values ?? {}).map(([name, it]) => {
    const told = it === null || typeof it === "object" ? JSON.stringify(it) : String(it);
    return `${name}=${told.length > 24 ? `${told.slice(0, 12)}…` : told}`;
  });
  return h("bdi", { class: "asked" }, [action, ...words].join(" "));
}

const KINDS = {
  ok: "good", succeeded: "good", connected: "good", online: "good", closed: "good",
  warning: "warn", held: "warn", waiting: "warn", expired: "warn", half_open: "warn", unknown: "odd",
  critical: "bad", failed: "bad", rolled_back: "bad", rollback_failed: "bad", stopped: "bad", open: "bad",
  refused: "warn", offline: "bad", running: "busy", queued: "busy",
};

/** A word for how something stands; its colour says no more than the word. */
export function standing(word, kind = KINDS[word] ?? "calm") {
  return h("span", { class: `standing ${kind}` }, word.replace("_", " "));
}

const chosen = new Map();

/** Buttons of which one is chosen; `chosenOf` tells which, the first until a person says otherwise. */
export function choice(name, label, titles) {
  return h("div", { class: "choice", role: "group", "aria-label": label }, titles.map((title, index) => h("button", {
    type: "button", "aria-pressed": String(index === chosenOf(name)), "data-key": title, "data-choice": name, "data-index": index,
  }, title)));
}

export function chosenOf(name) {
  return chosen.get(name) ?? 0;
}

// One listener for buttons that are drawn again and again.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-choice]");
  if (button === null) return;
  chosen.set(button.dataset.choice, Number(button.dataset.index));
  hub.changed("choice");
});

/** A table that becomes a list where there is no room for columns. */
export function table(caption, heads, rows) {
  // The roles are said, since what is no longer laid out as a table is not taken for one.
  return h("table", { role: "table" },
    h("caption", {}, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" },
      heads.map((head) => h("th", { scope: "col", role: "columnheader" }, head)))),
    h("tbody", { role: "rowgroup" }, rows.map(({ key, cells }) => h("tr", { role: "row", "data-key": key },
      cells.map((cell, index) => h("td", { role: "cell", "data-head": heads[index] }, cell))))));
}

/** A section with a heading. */
export function section(title, ...children) {
  return h("section", { class: "panel", "data-key": title }, h("h2", {}, title), ...children);
}

/** Names and what they are. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, ...what]) =>
    h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, ...what))));
}

export function nothing(text) {
  return h("p", { class: "soft" }, text);
}
