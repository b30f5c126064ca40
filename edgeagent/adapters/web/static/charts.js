// Charts over time, drawn by uPlot on a canvas that outlives the drawing of the view around it.

/* global uPlot */
import { h } from "/page/dom.js";

const HEIGHT = 170;
const COLOURS = ["--line-1", "--line-2", "--line-3"];
const drawn = new Map();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A chart: its title, moments in seconds since 1970, the range of them, and named columns. */
export function chart(title, times, range, columns) {
  const frame = h("figure", { class: "chart", "data-key": title, "data-kept": true, role: "group", "aria-label": summary(title, columns) },
    h("figcaption", {}, title));
  queueMicrotask(() => show(title, times, range, columns));
  return frame;
}

/** What the lines show, for who does not see them. */
function summary(title, columns) {
  const told = columns.map(([name, values]) => {
    const known = values.filter((it) => it !== null);
    return `${name} ${known.at(-1) ?? 0}, at most ${known.reduce((most, it) => Math.max(most, it), 0)}`;
  });
  return `${title}. Now: ${told.join("; ")}.`;
}

function show(title, times, range, columns) {
  const frame = [...document.querySelectorAll("figure.chart")].find((each) => each.dataset.key === title);
  if (frame === undefined) return;
  let held = drawn.get(title);
  if (held === undefined || held.frame !== frame) {
    held?.plot.destroy();
    held = { frame, range, plot: new uPlot(options(frame.clientWidth, columns, () => held?.range ?? range), null, frame) };
    drawn.set(title, held);
  }
  held.range = range;
  held.plot.setData([times, ...columns.map(([, values]) => values)]);
  if (frame.clientWidth && held.plot.width !== frame.clientWidth) held.plot.setSize({ width: frame.clientWidth, height: HEIGHT });
}

function options(width, columns, range) {
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--edge"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  return {
    width: width || 300,
    height: HEIGHT,
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { x: { range: () => range() }, y: { range: (_, __, most) => [0, Math.max(4, Math.ceil((most ?? 0) * 1.1))] } },
    axes: [{ ...axis, size: 30, incrs: [60, 120, 300, 600, 1800, 3600, 7200, 14400], values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 46, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6] }],
    series: [{ label: "time", value: (_, moment) => (moment === null || moment === undefined ? "now" : clock(moment, true)) }, ...columns.map(([name], index) => ({
      label: name,
      stroke: colour(COLOURS[index]),
      width: 2,
      dash: index === 2 ? [6, 4] : index === 1 ? [2, 3] : undefined,
      points: { show: false },
      value: (plot, it, line) => (it ?? plot.data[line].at(-1) ?? 0).toLocaleString("en"),
    }))],
  };
}

function clock(moment, isExact = false) {
  const form = { hour: "2-digit", minute: "2-digit", hour12: false, ...(isExact === true ? { second: "2-digit" } : {}) };
  return new Date(moment * 1000).toLocaleTimeString([], form);
}

// Colours are those of the scheme at the time of drawing.
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const { frame, plot } of drawn.values()) {
    plot.destroy();
    frame.dataset.key += " ";
  }
  drawn.clear();
});
