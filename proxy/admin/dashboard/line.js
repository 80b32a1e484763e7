// The line: its numbers at a glance, and what waits, place by place.

import { ask } from "./api.js";
import { canScale } from "./config.js";
import { button, get, keep, make, write } from "./dom.js";
import { money, number, size, span } from "./format.js";
import { sum } from "./history.js";
import { giveOrder } from "./orders.js";
import { say } from "./words.js";

const SHOWN = 50;
const LEAST_MS = 1000; // between two questions

function createTile({ name }) {
  const value = make("span");
  const more = make("small");
  const element = make("div", {}, make("dt", { text: name }), make("dd", {}, value, " ", more));
  return {
    element,
    update: (tile) => {
      write(value, tile.value);
      write(more, tile.more ?? "");
      element.dataset.level = tile.level ?? "";
    },
  };
}

/** Nothing where nobody has handed a job in yet. */
function jobTile(jobs) {
  if (!jobs || jobs.store === "asleep") return [];
  return [
    {
      name: say.jobs,
      value: number(jobs.queued + jobs.running),
      more: `${number(jobs.succeeded)} ${say.succeeded}, ${number(jobs.failed + jobs.unknown)} ${say.failed_or_unknown}`,
      level: jobs.store === "down" ? "bad" : "",
    },
  ];
}

export function showTiles({ queue, nodes, jobs }, config, history) {
  const ready = nodes.filter((node) => node.state === "idle" || node.state === "busy").length;
  const { served = [], secs = [] } = history.shown();
  const perMinute = secs.length ? (60 * sum(served.slice(-60))) / sum(secs.slice(-60)) : 0;
  const price = config?.node_price_per_hour ?? null;
  const isLate =
    config && config.degraded_wait_secs > 0 && queue.oldest_wait_secs > config.degraded_wait_secs;
  keep(
    get("tiles"),
    [
      {
        name: say.waiting,
        value: number(queue.length),
        more: `${say.of} ${number(queue.capacity)}`,
        level: queue.length >= queue.capacity ? "bad" : "",
      },
      { name: say.oldest, value: span(queue.oldest_wait_secs), level: isLate ? "bad" : "" },
      { name: say.running, value: number(queue.running) },
      {
        name: say.ready,
        value: ready,
        more: `${say.of} ${nodes.length}${canScale(config) ? `, ${say.at_most} ${config.max_nodes}` : ""}`,
        level: queue.length && !ready ? "bad" : "",
      },
      { name: say.served, value: number(queue.served), more: `${number(perMinute)} ${say.per_minute}` },
      { name: say.refused, value: number(queue.refused), more: `${say.left} ${number(queue.left)}` },
      ...jobTile(jobs),
      ...(price === null
        ? []
        : [{ name: say.cost_now, value: money(price * nodes.length, config.currency) }]),
    ],
    (tile) => tile.name,
    createTile,
  );
}

function createWaiting(first) {
  const cells = Object.fromEntries(
    ["place", "age", "size", "client"].map((name) => [name, make("td", { kind: name })]),
  );
  for (const name of ["place", "age", "size"]) cells[name].classList.add("number");
  const remove = button(say.remove, "small", () =>
    giveOrder("remove_request", `queue/${encodeURIComponent(first.request_id)}/remove`, first.request_id),
  );
  remove.setAttribute("aria-label", `${say.remove} ${first.request_id}`);
  const what = make(
    "td",
    { kind: "what" },
    make("span", { text: `${first.method} ${first.path}` }),
    make("small", { text: first.request_id }),
  );
  const element = make(
    "tr",
    {},
    cells.place,
    what,
    cells.age,
    cells.size,
    cells.client,
    make("td", { kind: "order" }, remove),
  );
  return {
    element,
    update: (waiting) => {
      write(cells.place, waiting.place);
      write(cells.age, span(waiting.age_secs));
      write(cells.size, size(waiting.size_bytes));
      write(cells.client, waiting.client);
    },
  };
}

let isAsking = false;
let askedAt = -Infinity;

// Asks at most once a second, and not at all while nothing waits.
export async function showWaiting({ queue }) {
  if (isAsking || (queue.length && performance.now() - askedAt < LEAST_MS)) return;
  isAsking = true;
  askedAt = performance.now();
  try {
    const told = queue.length ? await ask(`queue?limit=${SHOWN}`) : { length: 0, waiting: [] };
    keep(get("waiting"), told.waiting, (waiting) => waiting.request_id, createWaiting);
    get("waiting_table").hidden = !told.length;
    get("no_waiting").hidden = told.length > 0;
    write(get("waiting_more"), told.length > SHOWN ? `${say.shown} ${SHOWN} / ${number(told.length)}` : "");
  } finally {
    isAsking = false;
  }
}
