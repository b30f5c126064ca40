// Making elements out of values, and putting them in the place of others. Text only ever becomes text.

const MOST = 300;
// What is not printable: controls, bidirectional marks, half characters, unassigned ones, line separators.
// The joiner of emoji is let through.
const HIDDEN = /[^\P{C}\u200d]|[\p{Zl}\p{Zp}]/gu;

/** Text as it is shown: nothing hidden acts, and nothing is without end. */
export function plain(value) {
  const text = String(value);
  const shown = text.length > MOST ? `${text.slice(0, MOST).replace(/[\ud800-\udbff]$/, "")}…` : text;
  return shown.replace(HIDDEN, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

/** An element with attributes and children: elements, texts, or nothing. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(key, value === true ? "" : plain(value));
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : plain(child));
  }
  return element;
}

/** What somebody else has named: set apart, so that its direction of writing ends with it. */
export function said(value) {
  return h("bdi", {}, value);
}

/** Make the children of one element those of another, and leave alone what is the same already: what has
 * the focus keeps it, and what is read aloud is not begun anew. Children with a key are known by it. */
export function become(place, wanted) {
  const keyed = new Map([...place.children].filter((old) => old.dataset.key !== undefined).map((old) => [old.dataset.key, old]));
  let next = place.firstChild;
  for (const node of [...wanted.childNodes]) {
    const key = node.dataset?.key;
    const old = key === undefined ? next : keyed.get(key);
    keyed.delete(key); // two of one key are two all the same
    if (old && isAlike(old, node)) {
      if (old === next) next = next.nextSibling;
      else place.insertBefore(old, next);
      adapt(old, node);
    } else if (key === undefined && next !== null && next.dataset?.key === undefined) {
      const stale = next;
      next = next.nextSibling;
      stale.replaceWith(node);
    } else place.insertBefore(node, next);
  }
  while (next !== null) {
    const stale = next;
    next = next.nextSibling;
    stale.remove();
  }
}

function isAlike(old, node) {
  if (old.nodeType !== node.nodeType || old.nodeName !== node.nodeName) return false;
  return old.nodeType !== Node.ELEMENT_NODE || old.dataset.key === node.dataset.key;
}

function adapt(old, node) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    // What is placed by a script stays where it is until it is placed anew.
    if (!node.hasAttribute(name) && name !== "style") old.removeAttribute(name);
  }
  for (const { name, value } of [...node.attributes]) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (node.dataset.share !== undefined) place(old);
  if (node.dataset.kept === undefined) become(old, node);
}

/** A stretch of a bar: from and to are shares of the whole. */
export function stretch(from, to, kind) {
  const share = `${from.toFixed(4)} ${to.toFixed(4)}`;
  const bar = h("span", { class: `bar ${kind}`, "data-share": share });
  place(bar);
  return bar;
}

function place(bar) {
  const [from, to] = bar.dataset.share.split(" ").map(Number);
  bar.style.setProperty("left", `${from * 100}%`);
  bar.style.setProperty("width", `max(2px, ${(to - from) * 100}%)`);
}
