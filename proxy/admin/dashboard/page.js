// The page: keeps what was told last (status, configuration, history) and shows it.
// Always: each status that comes is shown at once; the history is asked for each 5 s, the configuration each 30 s.

import { placeCharts, showCharts } from "./charts.js";
import { readConfig } from "./config.js";
import { Refusal } from "./api.js";
import { get, make, write } from "./dom.js";
import { showFigures } from "./figures.js";
import { setClock, span } from "./format.js";
import { History, RANGES } from "./history.js";
import { showTiles, showWaiting } from "./line.js";
import { stayLive } from "./live.js";
import { showLogs } from "./logs.js";
import { nameStates, showNodes } from "./nodes.js";
import { placeOrders, showOrders } from "./orders.js";
import { showVerdict } from "./verdict.js";
import { language, say } from "./words.js";

const HISTORY_MS = 5000;
const CONFIG_MS = 30000;
const CHARTS_MS = 1000;

const history = new History();
let status = null;
let config = null;
let range = "1h";
let drawnAt = -Infinity;

// What is asked beside the stream may fail as the stream does, which then tells of it; what else fails is a fault.
async function tolerantly(work) {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof TypeError)) throw error;
  }
}

function drawCharts() {
  if (status === null || history.origin === null) return;
  drawnAt = performance.now();
  showCharts(history, status, config);
  showNodes(status, history);
  showFigures(history, config, range);
}

function show(told) {
  status = told;
  get("facts").hidden = false;
  write(get("about"), `${status.version} · ${say.running_for} ${span(status.uptime_secs)}`);
  showVerdict(status, config);
  showTiles(status, config, history);
  showOrders(status);
  showLogs(status);
  tolerantly(() => showWaiting(status));
  if (history.origin === null) return;
  showNodes(status, history);
  if (performance.now() - drawnAt >= CHARTS_MS) drawCharts();
}

const readHistory = () =>
  tolerantly(async () => {
    await history.refresh();
    setClock(history.offset);
    drawCharts();
  });

const refreshConfig = () =>
  tolerantly(async () => {
    config = await readConfig();
  });

function choose(name) {
  range = name;
  for (const [one, secs] of Object.entries(RANGES)) {
    get(one).setAttribute("aria-pressed", one === name);
    if (one === name) history.choose(secs);
  }
  readHistory();
}

function place() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-text]"))
    element.textContent = say[element.dataset.text];
  for (const element of document.querySelectorAll("[data-label]"))
    element.setAttribute("aria-label", say[element.dataset.label]);
  for (const name of Object.keys(RANGES)) {
    const one = make("button", { text: name, id: name, type: "button", "aria-pressed": name === range });
    one.onclick = () => choose(name);
    get("ranges").append(one);
  }
  nameStates();
  placeOrders();
  placeCharts(drawCharts);
}

place();
setInterval(() => status && readHistory(), HISTORY_MS);
setInterval(() => status && refreshConfig(), CONFIG_MS);
await stayLive(() => {
  refreshConfig();
  readHistory();
}, show);
