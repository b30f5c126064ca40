// What the hub has told: one stream of server-sent events, each a part of it whole.

const PARTS = [
  "status", "devices", "locks", "commands", "dead-letters", "stops", "breakers", "health", "look",
];
const HOUR = 720;
const AGAIN = 3000;
const UNWATCHED = 20000;

class Hub {
  constructor() {
    /** The last of each part, with when it came by this browser's own clock. */
    this.parts = new Map();
    this.history = null;
    this.isLive = false;
    this.isRefused = false;
    this.changed = () => {};
    this.source = null;
    this.timer = 0;
  }

  /** Begin to listen; stop while nobody looks at the page. */
  start(changed) {
    this.changed = changed;
    this.open();
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.timer);
      if (document.hidden) this.timer = setTimeout(() => this.shut(), UNWATCHED);
      else if (this.source === null) this.open();
    });
  }

  open() {
    const source = new EventSource("/api/stream");
    this.source = source;
    source.onopen = () => {
      [this.isLive, this.isRefused] = [true, false];
      this.remember();
      this.changed("link");
    };
    source.onerror = () => {
      this.isLive = false;
      this.changed("link");
      // A stream that was refused is not tried again by the browser.
      if (source.readyState === EventSource.CLOSED && this.source === source) {
        [this.source, this.isRefused] = [null, true];
        this.timer = setTimeout(() => { if (this.source === null) this.open(); }, AGAIN);
      }
    };
    for (const part of PARTS) {
      source.addEventListener(part, (event) => this.take(part, JSON.parse(event.data)));
    }
    source.addEventListener("sample", (event) => this.note(JSON.parse(event.data)));
  }

  shut() {
    this.source?.close();
    this.source = null;
    this.isLive = false;
  }

  take(part, report) {
    const before = this.get("status");
    // Another version has other files.
    if (part === "status" && before && before.version !== report.version) location.reload();
    this.parts.set(part, { report, came: performance.now() });
    this.changed(part);
  }

  get(part) {
    return this.parts.get(part)?.report ?? null;
  }

  /** Seconds since a part came. */
  age(part) {
    const held = this.parts.get(part);
    return held ? (performance.now() - held.came) / 1000 : 0;
  }

  /** The hub's time in milliseconds since 1970; null while it does not know. */
  now() {
    const status = this.get("status");
    if (!status || status.clock.source === "none") return null;
    return Date.parse(status.clock.best) + this.age("status") * 1000;
  }

  /** What people call a device. */
  label(device) {
    return this.get("devices")?.devices.find((each) => each.device === device)?.label ?? null;
  }

  lock(device) {
    return this.get("locks")?.locks.find((each) => each.device === device) ?? null;
  }

  async remember() {
    try {
      this.history = await answerOf("/api/history");
    } catch {
      return; // The stream is opened again, and so is this.
    }
    this.changed("history");
  }

  /** Add a sample to what is remembered, as the hub does. */
  note(sample) {
    if (this.history === null) return;
    this.history.now = Math.max(this.history.now, sample.at);
    for (const span of this.history.spans) {
      const last = span.at.at(-1) ?? -Infinity;
      if (sample.at < last + span.every - 3) continue;
      span.at.push(sample.at);
      span.stored.push(sample.stored);
      for (const stream of Object.keys(span.outbox)) span.outbox[stream].push(sample.outbox[stream] ?? 0);
      for (const lane of Object.keys(span.lanes)) span.lanes[lane].push(sample.lanes[lane] ?? 0);
      if (span.at.length > HOUR) {
        for (const column of [span.at, span.stored, ...Object.values(span.outbox), ...Object.values(span.lanes)]) {
          column.shift();
        }
      }
    }
    this.changed("sample");
  }
}

/** The one hub. */
export const hub = new Hub();

/** A report that is not in the stream; where there is none, the error has the kind of the refusal. */
export async function answerOf(path) {
  const response = await fetch(path, { headers: { Accept: "application/json" } });
  const report = await response.json();
  if (!response.ok) {
    throw Object.assign(new Error(report.error ?? `the hub answers ${response.status}`), { kind: report.kind });
  }
  return report;
}
