// What happened: the scaler's decisions, the provider's errors, the orders of operators. Newest first.

import { get, keep, make, write } from "./dom.js";
import { ago, moment, when } from "./format.js";
import { say } from "./words.js";

function entry(at, ...parts) {
  return make(
    "li",
    {},
    make("time", { text: when(at), title: moment(at), datetime: at }),
    make("div", {}, ...parts),
  );
}

// `keep` needs a key: several can be of one instant.
const numbered = (items) =>
  items.map((item, at) => ({
    item,
    key: `${item.at} ${items.slice(0, at).filter((one) => one.at === item.at).length}`,
  }));

function show(name, items, create) {
  keep(
    get(name),
    numbered(items),
    ({ key }) => key,
    ({ item }) => {
      const { element, update = () => {} } = create(item);
      return { element, update: (now) => update(now.item) };
    },
  );
  get(`no_${name}`).hidden = items.length > 0;
}

function createDecision({ at, action, count, reason }) {
  const sign = make("strong", {
    kind: `sign ${action}`,
    text: `${action === "up" ? "▲" : "▼"} ${say[action] ?? action} ${count}`,
  });
  return { element: entry(at, sign, make("span", { text: reason })) };
}

function createError({ at, operation }) {
  const words = make("q");
  const more = make("span", { kind: "quiet" });
  const element = entry(at, make("strong", { text: operation }), words, more);
  return {
    element,
    update: (error) => {
      write(words, error.detail);
      const often = error.count > 1 ? `${error.count} ${say.times}` : "";
      write(
        more,
        [often, error.mended_at && `${say.mended} ${when(error.mended_at)}`].filter(Boolean).join(" · "),
      );
      element.className = error.mended_at ? "mended" : "bad";
    },
  };
}

function createAction({ at, by, client, action, target, result }) {
  const who = by === client ? by : `${by} (${client})`;
  return {
    element: entry(
      at,
      make("strong", { text: who }),
      make("span", {}, action, " ", make("code", { text: target })),
      make("span", { kind: "quiet", text: result }),
    ),
  };
}

export function showLogs({ scaler, provider_errors: errors, actions }) {
  show("decisions", [...scaler.decisions].reverse(), createDecision);
  show("errors", errors, createError);
  show("actions", actions, createAction);
  write(get("checked"), `${say.checked} ${ago(scaler.last_check_at)}`);
}
