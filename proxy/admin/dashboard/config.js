// The configuration in effect, as /api/config tells it: secrets are masked there.

import { ask } from "./api.js";
import { get, keep, make, write } from "./dom.js";

function createKey([name]) {
  const value = make("code");
  return {
    element: make(
      "tr",
      {},
      make("th", { scope: "row" }, make("code", { text: name })),
      make("td", {}, value),
    ),
    update: ([, now]) => write(value, JSON.stringify(now, null, typeof now === "object" ? 2 : 0)),
  };
}

// Whether nodes can be made at all; of what is not known yet, no.
export const canScale = (config) => config !== null && config.provider.kind !== "static";

export async function readConfig() {
  const config = await ask("config");
  keep(get("keys"), Object.entries(config), ([name]) => name, createKey);
  return config;
}
