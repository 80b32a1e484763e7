// The answer to "what is wrong, and why do requests wait?", in words, at the top of the page.

import { canScale } from "./config.js";
import { get, keep, make, write } from "./dom.js";
import { moment, number, span, when } from "./format.js";
import { language, reasonOf, say } from "./words.js";

// These keep requests waiting; the first of them that is so is named as the cause.
const BLOCKING = ["token_refused", "provider_failing", "starts_failing", "scaler_stalled", "no_node"];

const LEAST_WAIT_SECS = 1; // less is a request on its way through

const join = (...parts) => parts.filter(Boolean).join(" ");
const upper = (text) => text[0].toUpperCase() + text.slice(1);
const full = (text) => (language === "zh" ? `${text}。` : `${text}.`);

function waiting(count) {
  return `${number(count)} ${count === 1 ? say.one_request : say.many_requests}`;
}

function because(count, cause) {
  return language === "zh"
    ? `${waiting(count)}${say.because}${cause}`
    : `${waiting(count)} ${say.because} ${cause}`;
}

// Why requests wait though nothing is wrong, and when that will change.
function whyBusy(status, config, isBlocked = false) {
  const { nodes, held } = status;
  const starting = nodes.filter((node) => node.state === "starting").length;
  const told = [
    full(`${say.oldest}${language === "zh" ? "：" : ": "}${span(status.queue.oldest_wait_secs)}`),
  ];
  if (starting && starting < nodes.length) told.push(full(`${starting} ${say.being_started}`));
  if (held.scaling) told.push(say.scaling_is_held);
  else if (!canScale(config)) return told.join(" ");
  else if (nodes.length >= config.max_nodes) told.push(full(`${say.max_reached} ${config.max_nodes}`));
  else if (config.scaling_policy === "threshold" && !starting && !isBlocked) {
    told.push(
      full(
        `${say.adds_when} ${span(config.queue_scale_wait_secs)} ${say.or_more_than} ${config.queue_scale_count_threshold}`,
      ),
    );
  }
  return told.join(" ");
}

// { level: "ok" | "waits" | "held" | "bad", headline, explained }. Pure.
export function judge(status, config) {
  const { health, held, queue, nodes } = status;
  const count = queue.length;
  const heldBy = held.dispatch && `${say.by} ${held.dispatch.by}, ${when(held.dispatch.at)}`;
  if (held.dispatch && count) {
    return {
      level: "held",
      headline: because(count, say.dispatch_is_held),
      explained: full(`${upper(say.dispatch_is_held)} ${heldBy}`),
    };
  }
  if (health.state === "degraded") {
    const codes = health.reasons.map((reason) => reason.code);
    const blocking = count ? BLOCKING.find((code) => codes.includes(code)) : undefined;
    const [cause] = reasonOf(blocking ?? codes[0]);
    const headline = blocking ? because(count, cause) : upper(cause);
    return {
      level: "bad",
      headline,
      explained: count ? whyBusy(status, config, Boolean(blocking)) : say.nothing_waits,
    };
  }
  if (held.dispatch)
    return {
      level: "held",
      headline: upper(say.dispatch_is_held),
      explained: `${full(heldBy)} ${say.nothing_waits}`,
    };
  if (queue.oldest_wait_secs >= LEAST_WAIT_SECS) {
    const ready = nodes.filter((node) => node.state === "busy" || node.state === "idle").length;
    const cause = ready
      ? say.all_busy
      : nodes.some((node) => node.state === "starting")
        ? say.still_starting
        : reasonOf("no_node")[0];
    return { level: "waits", headline: because(count, cause), explained: whyBusy(status, config) };
  }
  const unready = nodes.filter((node) => node.state === "unready");
  if (unready.length) {
    const headline = `${say.unready_nodes} ${unready.length} ${say.of} ${nodes.length}`;
    const why = unready.map((node) => `${node.name}: ${node.reason ?? ""}`).join("; ");
    return {
      level: "held",
      headline,
      explained: join(full(why), count ? full(waiting(count)) : say.nothing_waits),
    };
  }
  const heldScaling = held.scaling
    ? `${say.scaling_is_held} (${say.by} ${held.scaling.by}, ${when(held.scaling.at)})`
    : "";
  return {
    level: held.scaling ? "held" : "ok",
    headline: say.all_well,
    explained: join(count ? full(waiting(count)) : say.nothing_waits, heldScaling),
  };
}

// `code` in backquotes is shown as code.
function prose(text) {
  return text.split("`").map((part, at) => (at % 2 ? make("code", { text: part }) : part));
}

function createReason({ code, since }) {
  const [what, todo] = reasonOf(code);
  const detail = make("q");
  const time = make("span", { kind: "quiet", text: `${say.since} ${when(since)}`, title: moment(since) });
  const element = make(
    "li",
    {},
    make("p", {}, make("strong", { text: upper(what) }), " ", time),
    detail,
    ...(todo ? [make("p", { kind: "todo" }, `${say.to_do} `, ...prose(todo))] : []),
  );
  return { element, update: (reason) => write(detail, reason.detail) };
}

let announced = "";

export function showVerdict(status, config) {
  const { level, headline, explained } = judge(status, config);
  get("verdict").dataset.level = level;
  write(get("headline"), headline);
  const restart = status.needs_restart.length
    ? full(`${say.needs_restart} ${status.needs_restart.join(", ")}`)
    : "";
  write(get("explained"), join(explained, restart));
  keep(get("reasons"), status.health.reasons, (reason) => reason.code + reason.since, createReason);
  document.title = `${level === "bad" ? "⚠ " : ""}${status.queue.length ? `(${status.queue.length}) ` : ""}FIFO Proxy`;
  // Told to a screen reader when it is another verdict, not at each count.
  const kind = level + headline.replace(/\d+/g, "");
  if (kind !== announced) write(get("announced"), headline);
  announced = kind;
}
