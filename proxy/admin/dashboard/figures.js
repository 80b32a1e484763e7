// Quantiles, utilisation and cost over the chosen range.

import { get, keep, make, write } from "./dom.js";
import { money, number, percent, span } from "./format.js";
import { quantile, sum, total } from "./history.js";
import { say } from "./words.js";

function createRow({ name }) {
  const cells = [0, 1, 2, 3].map(() => make("td", { kind: "number" }));
  const element = make("tr", {}, make("th", { text: name, scope: "row" }), ...cells);
  return { element, update: (row) => row.values.forEach((value, at) => write(cells[at], value)) };
}

function createFact({ name }) {
  const value = make("dd");
  return {
    element: make("div", {}, make("dt", { text: name }), value),
    update: (fact) => write(value, fact.value),
  };
}

export function showFigures(history, config, range) {
  const steps = history.shown();
  const rows = ["waits", "runs"].map((name) => {
    const counts = total(steps[name] ?? []);
    const at = (share) => quantile(counts, history.bounds, share);
    const values = [0.5, 0.9, 0.99].map(at).map((secs) => (secs === null ? say.never : span(secs)));
    return { name: say[name], values: [...values, number(sum(counts))] };
  });
  keep(get("times"), rows, (row) => row.name, createRow);
  write(get("times_range"), range);
  const [paid, busy, served] = ["paid_secs", "busy_secs", "served"].map((name) => sum(steps[name]));
  const price = config?.node_price_per_hour ?? null;
  const cost = (paid / 3600) * price;
  keep(
    get("costs"),
    [
      { name: say.in_use, value: paid ? percent(busy / paid) : say.never },
      { name: say.paid, value: (paid / 3600).toFixed(2) },
      ...(price === null
        ? []
        : [
            { name: say.cost, value: money(cost, config.currency) },
            { name: say.cost_each, value: served ? money(cost / served, config.currency) : say.never },
          ]),
    ],
    (fact) => fact.name,
    createFact,
  );
}
