// Which charts there are, and what each shows of the history and of this moment.

import { Chart } from "./chart.js";
import { canScale } from "./config.js";
import { get } from "./dom.js";
import { number, percent, span } from "./format.js";
import { quantile } from "./history.js";
import { say } from "./words.js";

export const STATES = ["busy", "idle", "starting", "draining", "unready"];

const charts = {
  waiting: new Chart({
    title: say.chart_waiting,
    series: [{ name: say.waiting, kind: "c1", shape: "area" }],
    format: number,
    least: 4,
  }),
  oldest: new Chart({
    title: say.chart_oldest,
    series: [{ name: say.oldest, kind: "c2", shape: "area" }],
    format: span,
    isTime: true,
    least: 5,
  }),
  nodes: new Chart({
    title: say.chart_nodes,
    format: number,
    least: 2,
    series: STATES.map((state) => ({ name: say[state], kind: state, shape: "stack" })),
  }),
  used: new Chart({
    title: say.chart_used,
    series: [{ name: say.in_use, kind: "c1", shape: "area" }],
    format: percent,
    most: 1,
  }),
  waits: new Chart({
    title: say.chart_waits,
    series: quantiles("c2"),
    format: span,
    isTime: true,
    least: 0.1,
    empty: say.no_data,
  }),
  runs: new Chart({
    title: say.chart_runs,
    series: quantiles("c1"),
    format: span,
    isTime: true,
    least: 0.1,
    empty: say.no_data,
  }),
  rates: new Chart({
    title: say.chart_rates,
    format: number,
    least: 4,
    series: [
      ["served", "c1"],
      ["left", "c3"],
      ["refused", "c4"],
    ].map(([name, kind]) => ({ name: say[name], kind, shape: "line" })),
  }),
};

function quantiles(kind) {
  return [
    { name: "p95", kind: "c3", shape: "line" },
    { name: "p50", kind, shape: "line" },
  ];
}

export function placeCharts(redraw) {
  const { waiting, oldest, ...more } = charts;
  get("charts").append(waiting.element, oldest.element);
  get("more_charts").prepend(...Object.values(more).map((chart) => chart.element));
  let width = 0;
  new ResizeObserver(() => {
    const now = charts.waiting.svg.clientWidth;
    if (now === width) return;
    width = now;
    redraw();
  }).observe(get("charts"));
}

export function showCharts(history, status, config) {
  const steps = history.shown();
  const { now } = history;
  const common = {
    times: steps.end_secs,
    from: history.from,
    to: now,
    timeOf: (secs) => history.timeOf(secs),
  };
  const { queue, nodes } = status;
  const scales = canScale(config) && config.scaling_policy === "threshold";
  const live = { ...common, times: [...common.times, now] };
  const marks = status.scaler.decisions.map(({ at, action, count, reason }) => ({
    at: history.secsOf(at),
    kind: action,
    text: `${action === "up" ? "▲" : "▼"} ${say[action] ?? action} ${count}: ${reason}`,
  }));
  const top = (values, format) => (values.length ? ` · ${say.most} ${format(Math.max(...values))}` : "");
  const lengths = [...steps.length, queue.length];
  charts.waiting.show({
    ...live,
    values: [lengths],
    marks,
    told: `${say.now} ${queue.length}${top(lengths, number)}`,
    limit: scales ? limitOf(config.queue_scale_count_threshold, number) : null,
  });
  const waits = [...steps.oldest_wait_secs, queue.oldest_wait_secs];
  charts.oldest.show({
    ...live,
    values: [waits],
    marks,
    told: `${say.now} ${span(queue.oldest_wait_secs)}${top(waits, span)}`,
    limit: scales ? limitOf(config.queue_scale_wait_secs, span) : null,
  });
  const counts = STATES.map((state) => [
    ...steps[state],
    nodes.filter((node) => node.state === state).length,
  ]);
  charts.nodes.show({
    ...live,
    values: counts,
    marks,
    told: STATES.map((state, at) => [counts[at].at(-1), say[state]])
      .filter(([count]) => count)
      .map((part) => part.join(" "))
      .join(" · "),
  });
  const used = steps.paid_secs.map((paid, at) => (paid > 0 ? steps.busy_secs[at] / paid : null));
  const [busy, paid] = [steps.busy_secs, steps.paid_secs].map((all) =>
    all.reduce((one, two) => one + two, 0),
  );
  charts.used.show({ ...common, values: [used], told: paid > 0 ? percent(busy / paid) : "" });
  for (const name of ["waits", "runs"]) {
    const at = (share) => steps[name].map((counted) => quantile(counted, history.bounds, share));
    const values = [at(0.95), at(0.5)];
    const last = values[0].findLastIndex((value) => value !== null);
    const told = last < 0 ? "" : `p50 ${span(values[1][last])} · p95 ${span(values[0][last])}`;
    charts[name].show({ ...common, values, told });
  }
  // What never happened has no curve: a red line at zero would look like something.
  const rate = (name) =>
    steps[name].map((count, at, all) =>
      name === "served" || all.some(Boolean) ? (count * 60) / steps.secs[at] : null,
    );
  const rates = ["served", "left", "refused"].map(rate);
  charts.rates.show({
    ...common,
    values: rates,
    told: rates[0].length ? `${say.served} ${number(rates[0].at(-1))}` : "",
  });
}

const limitOf = (value, format) => ({ value, text: `${say.scales_at} ${format(value)}` });
