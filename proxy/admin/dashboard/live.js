// Keeps the stream of events open, and says how fresh what is shown is: connecting, live, stale, lost, locked.
// Always: it reconnects by itself, after 1 s doubling to 10 s, also where a dead connection says nothing.

import { follow, hasToken, keepToken, Refusal } from "./api.js";
import { get, write } from "./dom.js";
import { span } from "./format.js";
import { say } from "./words.js";

const STALE_SECS = 4;
const DEAD_SECS = 15;
const FIRST_PAUSE_SECS = 1;
const LONGEST_PAUSE_SECS = 10;

let state = "connecting";
let heardAt = performance.now();
let stream = new AbortController();

function show(now) {
  const quietSecs = (performance.now() - heardAt) / 1000;
  state = now;
  const shown = state === "live" && quietSecs > STALE_SECS ? "stale" : state;
  const isStale = shown === "stale" || shown === "lost";
  get("link").dataset.state = shown;
  write(get("link"), isStale ? `${say[shown]} ${span(quietSecs)}` : say[shown]);
  document.body.classList.toggle("stale", isStale);
}

function watch() {
  if (state === "live" && performance.now() - heardAt > DEAD_SECS * 1000) stream.abort();
  show(state);
}

function askForToken() {
  const form = get("unlock");
  show("locked");
  get("facts").hidden = true;
  get("refused").hidden = !hasToken();
  form.hidden = false;
  get("token").focus();
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      keepToken(get("token").value);
      get("token").value = "";
      form.hidden = true;
      resolve();
    };
  });
}

// Calls `opened()` at each connection and `told(status)` at each event, for ever.
export async function stayLive(opened, told) {
  setInterval(watch, 1000);
  for (let pauseSecs = FIRST_PAUSE_SECS; ;) {
    stream = new AbortController();
    try {
      await follow(
        stream.signal,
        () => {
          heardAt = performance.now();
          show("live");
          opened();
        },
        (name, data) => {
          heardAt = performance.now();
          pauseSecs = FIRST_PAUSE_SECS;
          show("live");
          if (name === "status") told(data);
        },
      );
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) {
        await askForToken();
        continue;
      }
      const isUsual = error instanceof Refusal || error instanceof TypeError || error.name === "AbortError";
      if (!isUsual) console.error(error); // a fault of the page: told, and tried again like all others
    }
    show("lost");
    await new Promise((resolve) => setTimeout(resolve, pauseSecs * 1000));
    pauseSecs = Math.min(pauseSecs * 2, LONGEST_PAUSE_SECS);
  }
}
