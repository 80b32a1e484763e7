// One chart over time, in SVG: lines, an area, or areas on top of each other; marks at instants; a line to read values
// along, moved with the pointer or the arrow keys. What is read stands in the chart's head, so that a finger hides nothing.

import { draw, make, write } from "./dom.js";
import { hour } from "./format.js";

const HEIGHT = 150;
const LEFT = 46;
const RIGHT = 8;
const TOP = 12;
const BOTTOM = 20;

// The smallest round number at or above `value` that makes 2 to 4 even steps.
function roundUp(value, isTime) {
  const nice = isTime
    ? [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400]
    : [];
  const size = 10 ** Math.floor(Math.log10(value));
  return (
    nice.find((one) => one >= value) ?? size * [1, 2, 4, 5, 10].find((one) => one * size >= value * 0.9999)
  );
}

const timeSteps = [60, 180, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600];

export class Chart {
  // `series`: [{ name, kind, shape: "line" | "area" | "stack" }]; `format(value)` makes the text of a value.
  constructor({ title, series, format, least = 1, most = Infinity, isTime = false, empty = "" }) {
    Object.assign(this, { title, series, format, least, most, isTime, empty });
    this.svg = draw("svg", { height: HEIGHT, role: "img", tabindex: 0 });
    this.read = make("p", { kind: "read" });
    const key =
      series.length > 1
        ? series.map(({ name, kind }) => make("span", { text: name, kind: `key ${kind}` }))
        : [];
    this.element = make(
      "figure",
      { kind: "card chart" },
      make("figcaption", {}, make("strong", { text: title }), this.read),
      this.svg,
      make("p", { kind: "keys" }, ...key),
    );
    this.at = null;
    this.svg.onpointermove = (event) => this.#point(event.offsetX);
    this.svg.onpointerdown = this.svg.onpointermove;
    this.svg.onpointerleave = () => this.#leave();
    this.svg.onblur = () => this.#leave();
    this.svg.onkeydown = (event) => this.#key(event);
  }

  // `times`: seconds, ascending; `values`: a list per series, null where there is nothing; `from`, `to`: what is shown;
  // `marks`: [{ at, kind: "up" | "down", text }]; `limit`: { value, text } is drawn across; `told`: said when not reading.
  show({ times, values, from, to, timeOf, marks = [], limit = null, told = "" }) {
    this.shown = { times, values, from, to, timeOf, marks, limit, told };
    const width = Math.max(this.svg.clientWidth, 200);
    const stacked = this.series[0].shape === "stack";
    const tops = stacked
      ? times.map((_, at) => values.reduce((all, one) => all + (one[at] ?? 0), 0))
      : values.flat();
    const highest = Math.max(
      this.least,
      limit && limit.value < 4 * Math.max(...tops, this.least) ? limit.value : 0,
      ...tops,
    );
    const top = Math.min(roundUp(highest, this.isTime), this.most);
    this.x = (secs) => LEFT + ((secs - from) / (to - from)) * (width - LEFT - RIGHT);
    this.y = (value) => TOP + (1 - Math.min(value / top, 1)) * (HEIGHT - TOP - BOTTOM);
    this.svg.replaceChildren(
      ...this.#grid(width, top),
      ...this.#shapes(stacked),
      ...this.#extras(width, top),
    );
    this.cross = draw("line", { class: "cross", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    this.svg.append(this.cross);
    const isEmpty = !values.some((one) => one.some((value) => value !== null));
    if (isEmpty && this.empty) {
      this.svg.append(
        draw("text", { class: "label", x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" }, this.empty),
      );
    }
    this.svg.setAttribute("aria-label", `${this.title}: ${told || this.empty}`);
    this.#tell();
  }

  #grid(width, top) {
    const { from, to, timeOf } = this.shown;
    const grid = [];
    const lines = this.isTime || top % 2 === 0 || top > 10 ? 2 : 1;
    for (let line = 0; line <= lines; line += 1) {
      const value = (top * line) / lines;
      const y = this.y(value);
      grid.push(draw("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
      grid.push(
        draw("text", { class: "label", x: LEFT - 6, y: y + 4, "text-anchor": "end" }, this.format(value)),
      );
    }
    const every = timeSteps.find((step) => (to - from) / step <= width / 75) ?? 43200;
    const shift = (timeOf(0) / 1000 - new Date(timeOf(0)).getTimezoneOffset() * 60) % every;
    for (let at = Math.ceil((from + shift) / every) * every - shift; at < to; at += every) {
      const x = this.x(at);
      if (x < LEFT + 14 || x > width - 20) continue;
      grid.push(
        draw("text", { class: "label", x, y: HEIGHT - 5, "text-anchor": "middle" }, hour(timeOf(at), false)),
      );
    }
    return grid;
  }

  #shapes(stacked) {
    const { times, values } = this.shown;
    if (!stacked)
      return this.series.flatMap(({ kind, shape }, number) =>
        this.#curve(values[number], kind, shape === "area"),
      );
    const points = (heights) =>
      heights.map((value, at) => `${this.x(times[at]).toFixed(1)},${this.y(value).toFixed(1)}`);
    let under = times.map(() => 0);
    return this.series.flatMap(({ kind }, number) => {
      if (!values[number].some((value) => value)) return [];
      const over = under.map((height, at) => height + values[number][at]);
      const d = `M${points(over).join("L")}L${points(under).reverse().join("L")}Z`;
      under = over;
      return [draw("path", { class: `stack ${kind}`, d })];
    });
  }

  // Where there is no value the curve is broken; a value between two such is a dot.
  #curve(values, kind, isFilled) {
    const { times } = this.shown;
    const runs = [];
    values.forEach((value, at) => {
      if (value === null) return;
      if (at === 0 || values[at - 1] === null) runs.push([]);
      runs.at(-1).push([this.x(times[at]).toFixed(1), this.y(value).toFixed(1)]);
    });
    return runs.flatMap((points) => {
      const line = `M${points.map((point) => point.join()).join("L")}`;
      if (points.length === 1)
        return [draw("circle", { class: `dot ${kind}`, cx: points[0][0], cy: points[0][1], r: 2 })];
      const ground = this.y(0);
      const area = `${line}L${points.at(-1)[0]},${ground}L${points[0][0]},${ground}Z`;
      const filled = isFilled ? [draw("path", { class: `area ${kind}`, d: area })] : [];
      return [...filled, draw("path", { class: `line ${kind}`, d: line })];
    });
  }

  #extras(width, top) {
    const { limit, marks, from, to } = this.shown;
    const extras = [];
    if (limit && limit.value <= top) {
      const y = this.y(limit.value);
      extras.push(draw("line", { class: "limit", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
      extras.push(
        draw("text", { class: "label limit", x: LEFT + 4, y: y + (y < TOP + 14 ? 13 : -4) }, limit.text),
      );
    }
    for (const { at, kind, text } of marks) {
      if (at < from || at > to) continue;
      const x = this.x(at);
      const [base, tip] = kind === "up" ? [TOP, TOP - 8] : [TOP - 8, TOP];
      extras.push(
        draw(
          "g",
          { class: `mark ${kind}` },
          draw("title", {}, text),
          draw("line", { x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }),
          draw("path", { d: `M${x - 5},${base}L${x + 5},${base}L${x},${tip}Z` }),
        ),
      );
    }
    return extras;
  }

  #point(x) {
    const { times } = this.shown;
    if (!times.length) return;
    const distance = (at) => Math.abs(this.x(times[at]) - x);
    this.at = times.reduce((best, _, at) => (distance(at) < distance(best) ? at : best), 0);
    this.atSecs = times[this.at];
    this.#tell();
  }

  #key(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -12, PageDown: 12 }[event.key];
    const { times } = this.shown;
    if (!move || !times.length) return;
    event.preventDefault();
    this.at = Math.min(Math.max((this.at ?? times.length) + move, 0), times.length - 1);
    this.atSecs = times[this.at];
    this.#tell();
  }

  #leave() {
    this.at = null;
    this.#tell();
  }

  #tell() {
    const { times, values, marks, told, timeOf } = this.shown;
    if (this.at !== null) this.at = times.indexOf(this.atSecs) < 0 ? null : times.indexOf(this.atSecs);
    this.cross.setAttribute("visibility", this.at === null ? "hidden" : "visible");
    if (this.at === null) {
      write(this.read, told);
      return;
    }
    const secs = times[this.at];
    const near = ((times.at(-1) - times[0]) / times.length) * 2;
    const x = this.x(secs);
    this.cross.setAttribute("x1", x);
    this.cross.setAttribute("x2", x);
    const parts = this.series
      .map(({ name }, number) => [name, values[number][this.at]])
      .filter(([, value]) => value !== null && (value !== 0 || this.series.length === 1))
      .map(([name, value]) =>
        this.series.length > 1 ? `${name} ${this.format(value)}` : this.format(value),
      );
    const why = marks.filter((mark) => Math.abs(mark.at - secs) <= near).map((mark) => mark.text);
    write(this.read, [hour(timeOf(secs)), ...parts, ...why].join(" · "));
    this.read.setAttribute("aria-live", "polite");
  }
}
