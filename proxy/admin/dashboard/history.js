// What /api/history told, kept and extended: the columns of the steps and the nodes' letters, in the chosen range.
// Always: the columns are of equal length and in order of time; a restart of the proxy (another origin) begins anew.

import { ask } from "./api.js";

export const RANGES = { "15min": 900, "1h": 3600, "24h": 86400 };
const LEAST_SECS = 300;
const KEPT_STEPS = 720;

export class History {
  constructor() {
    this.secs = RANGES["1h"];
    this.clear();
  }

  clear() {
    this.origin = null;
    this.stepSecs = 5;
    this.bounds = [];
    this.columns = { end_secs: [] };
    this.nodes = new Map(); // by number: { number, name, firstStep, states }
    this.begin = 0;
    this.offset = 0; // of our clock against the proxy's, in ms
  }

  choose(secs) {
    this.secs = secs;
    this.clear();
  }

  // What is shown begins here: the range, or what there is of it, but 5 minutes at least.
  get from() {
    return this.now - Math.min(this.secs, Math.max(this.now, LEAST_SECS));
  }

  // Seconds after the origin, by the proxy's clock.
  get now() {
    return this.origin === null ? 0 : (Date.now() + this.offset - this.origin) / 1000;
  }

  // Of an RFC 3339 time of the proxy.
  secsOf(time) {
    return (Date.parse(time) - this.origin) / 1000;
  }

  timeOf(secs) {
    return this.origin + secs * 1000 - this.offset;
  }

  async refresh() {
    const { secs } = this;
    const since = this.columns.end_secs.at(-1) ?? -secs;
    const told = await ask(`history?since=${since}&step=${secs > 3600 ? "coarse" : "fine"}`);
    if (secs !== this.secs) return; // another range was chosen meanwhile
    const origin = Date.parse(told.origin);
    if (this.origin !== null && Math.abs(origin - this.origin) > 2000) {
      this.clear(); // asked for whole next time
      return;
    }
    this.origin = origin;
    this.offset = origin + told.now_secs * 1000 - Date.now();
    this.stepSecs = told.step_secs;
    this.bounds = told.bounds;
    const last = this.columns.end_secs.at(-1) ?? -Infinity;
    const fresh = told.steps.end_secs.filter((end) => end > last).length; // two questions may be under way at once
    for (const [name, column] of Object.entries(told.steps)) {
      this.columns[name] = [...(this.columns[name] ?? []), ...column.slice(column.length - fresh)].slice(
        -KEPT_STEPS,
      );
    }
    for (const band of told.nodes) this.#extend(band);
    const first = Math.floor((this.now - secs) / this.stepSecs);
    for (const [number, band] of this.nodes) {
      if (band.firstStep + band.states.length <= first) this.nodes.delete(number);
    }
  }

  #extend({ number, name, first_step: firstStep, states }) {
    const band = this.nodes.get(number);
    if (!band) this.nodes.set(number, { number, name, firstStep, states });
    else {
      band.name = name;
      const known = band.states.slice(0, Math.max(firstStep - band.firstStep, 0));
      band.states = (known + states).slice(-KEPT_STEPS);
      band.firstStep = firstStep + states.length - band.states.length;
    }
  }

  // The band of the node of this name that there is now: the latest.
  bandOf(name) {
    return [...this.nodes.values()].findLast((band) => band.name === name);
  }

  // The columns within the range, the first of them cut off where it is older.
  shown() {
    const { from } = this;
    const first = this.columns.end_secs.findIndex((end) => end > from);
    const cut = ([name, column]) => [name, first < 0 ? [] : column.slice(first)];
    return Object.fromEntries(Object.entries(this.columns).map(cut));
  }
}

// The value below which `share` of what was counted lies, by straight lines between the bounds; null of nothing.
export function quantile(counts, bounds, share) {
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (all === 0) return null;
  let below = 0;
  for (const [at, count] of counts.entries()) {
    if (below + count >= share * all && count > 0) {
      const [low, high] = [bounds[at - 1] ?? 0, bounds[at] ?? bounds.at(-1)];
      return low + ((high - low) * (share * all - below)) / count;
    }
    below += count;
  }
  return bounds.at(-1);
}

export function total(columns) {
  const sums = [];
  for (const counts of columns) {
    for (const [at, count] of counts.entries()) sums[at] = (sums[at] ?? 0) + count;
  }
  return sums;
}

export const sum = (values = []) => values.reduce((all, value) => all + value, 0);
