// The nodes as a time line: a band each, coloured by state and also of another height, so that no colour need be told apart.

import { button, draw, get, keep, make, write } from "./dom.js";
import { age, ago, hour, moment, number, span } from "./format.js";
import { giveOrder } from "./orders.js";
import { say } from "./words.js";

const BAND_HEIGHT = 22;
const STATE_OF = { s: "starting", i: "idle", b: "busy", u: "unready", d: "draining" };
const SHARE = { starting: 0.55, idle: 0.3, busy: 1, unready: 1, draining: 0.55 };

// [{ state, from, to }] of equal letters in a row, in seconds.
function stretches({ firstStep, states }, stepSecs) {
  const found = [];
  for (const [at, letter] of [...states].entries()) {
    const from = (firstStep + at) * stepSecs;
    const last = found.at(-1);
    if (last?.state === STATE_OF[letter]) last.to = from + stepSecs;
    else found.push({ state: STATE_OF[letter], from, to: from + stepSecs });
  }
  return found;
}

// `state`: what it is now, shown from the last step on; null: it is gone.
function drawBand(svg, band, history, state) {
  const width = Math.max(svg.clientWidth, 100);
  const { now: to, from } = history;
  const x = (secs) => Math.min(Math.max(((secs - from) / (to - from)) * width, 0), width);
  const known = band ? stretches(band, history.stepSecs) : [];
  if (state !== null)
    known.push({ state, from: Math.min(known.at(-1)?.to ?? to, to - (to - from) / 150), to });
  const pieces = known
    .filter((piece) => piece.to > from)
    .map((piece) => {
      const height = BAND_HEIGHT * SHARE[piece.state];
      const text = `${say[piece.state]} ${hour(history.timeOf(piece.from))}–${hour(history.timeOf(piece.to))}`;
      return draw(
        "rect",
        {
          class: piece.state,
          x: x(piece.from).toFixed(1),
          y: BAND_HEIGHT - height,
          width: Math.max(x(piece.to) - x(piece.from), 0.8).toFixed(1),
          height,
        },
        draw("title", {}, text),
      );
    });
  svg.replaceChildren(
    draw("line", { class: "grid", x1: 0, x2: width, y1: BAND_HEIGHT - 0.5, y2: BAND_HEIGHT - 0.5 }),
    ...pieces,
  );
  const shares = Object.keys(SHARE).map((name) => {
    const secs = known
      .filter((piece) => piece.state === name)
      .reduce((all, piece) => all + piece.to - Math.max(piece.from, from), 0);
    return secs > 0 ? `${say[name]} ${span(secs)}` : "";
  });
  svg.setAttribute("aria-label", shares.filter(Boolean).join(", "));
}

const newBand = () => draw("svg", { class: "band", height: BAND_HEIGHT, role: "img" });

function orderButton(order, name) {
  const what = { drain_node: "drain", replace_node: "replace", resume_node: "resume" }[order];
  const made = button(say[what], "small", () =>
    giveOrder(order, `nodes/${encodeURIComponent(name)}/${what}`, name),
  );
  made.setAttribute("aria-label", `${say[what]} ${name}`);
  return made;
}

function probeText({ last_probe: probe, reason, state }) {
  if (probe === null) return reason ?? "";
  const isWell = probe.status === 200;
  const found = isWell ? say.ok : [probe.status, probe.error].filter((part) => part !== null).join(" ");
  const why = reason && state === "unready" && !reason.includes(probe.error ?? "\0") ? ` · ${reason}` : "";
  return `${say.last_probe} ${found}, ${ago(probe.at)}${why}`;
}

function createNode({ name, url, id }) {
  const state = make("span");
  const facts = make("p", { kind: "quiet" });
  const probe = make("p", { kind: "probe" });
  const svg = newBand();
  const [drain, replace, resume] = ["drain_node", "replace_node", "resume_node"].map((order) =>
    orderButton(order, name),
  );
  const element = make(
    "li",
    {},
    make("div", { kind: "who" }, make("p", {}, make("strong", { text: name }), " ", state), facts, probe),
    svg,
    make("div", { kind: "buttons" }, drain, replace, resume),
  );
  element.title = url ?? id ?? "";
  return {
    element,
    update: ({ node, history }) => {
      element.dataset.state = node.state;
      state.className = `state ${node.state}`;
      write(
        state,
        node.will_drain && node.state === "busy" ? `${say.busy}, ${say.will_drain}` : say[node.state],
      );
      write(
        facts,
        [
          `${say.age} ${span(age(node.created_at))}`,
          `${say.served} ${number(node.served)}`,
          ...(node.last_processed_at ? [`${say.last_request} ${ago(node.last_processed_at)}`] : []),
        ].join(" · "),
      );
      facts.title = moment(node.created_at);
      write(probe, probeText(node));
      probe.classList.toggle("bad", node.state === "unready");
      drain.hidden = replace.hidden = node.will_drain || node.state === "draining";
      resume.hidden = !drain.hidden;
      drawBand(svg, history.bandOf(node.name), history, node.state);
    },
  };
}

function createGone({ band }) {
  const svg = newBand();
  const until = make("p", { kind: "quiet" });
  const element = make(
    "li",
    {},
    make("div", { kind: "who" }, make("p", {}, make("span", { text: band.name })), until),
    svg,
  );
  return {
    element,
    update: ({ band: gone, history }) => {
      write(until, hour(history.timeOf((gone.firstStep + gone.states.length) * history.stepSecs)));
      drawBand(svg, gone, history, null);
    },
  };
}

export function nameStates() {
  get("legend").append(
    ...["busy", "idle", "starting", "draining", "unready"].map((state) =>
      make("span", { text: say[state], kind: `key ${state}` }),
    ),
  );
}

export function showNodes({ nodes }, history) {
  keep(
    get("nodes"),
    nodes.map((node) => ({ node, history })),
    ({ node }) => node.name + node.created_at,
    ({ node }) => createNode(node),
  );
  get("no_nodes").hidden = nodes.length > 0;
  const names = new Set(nodes.map((node) => node.name));
  const gone = [...history.nodes.values()].filter((band) => band.states && !names.has(band.name)).reverse();
  get("gone").hidden = !gone.length;
  write(get("gone_count"), gone.length);
  if (get("gone").open)
    keep(
      get("gone_nodes"),
      gone.map((band) => ({ band, history })),
      ({ band }) => band.number,
      createGone,
    );
}
