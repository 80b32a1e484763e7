// Numbers and times as people read them.

import { language, say } from "./words.js";

const units = language === "zh" ? ["天", "小时", "分", "秒", "毫秒"] : ["d", "h", "min", "s", "ms"];

export function span(secs) {
  if (secs > 0 && secs < 0.1) return `${Math.round(secs * 1000)} ${units[4]}`;
  if (secs < 60)
    return `${secs > 0 && secs < 10 ? Number(secs.toFixed(1)) : Math.max(Math.floor(secs), 0)} ${units[3]}`;
  const [big, small, size] = secs < 3600 ? [2, 3, 60] : secs < 86400 ? [1, 2, 3600] : [0, 1, 86400];
  const rest = Math.floor((secs % size) / (size === 86400 ? 3600 : size / 60));
  return `${Math.floor(secs / size)} ${units[big]}${rest ? ` ${rest} ${units[small]}` : ""}`;
}

// How far the proxy's clock is ahead of ours, in ms: ages are told by its clock, times of day by ours.
let aheadMs = 0;
export const setClock = (ms) => {
  aheadMs = ms;
};

export const age = (time) => (Date.now() + aheadMs - Date.parse(time)) / 1000;
export const ago = (time) => (time === null ? say.never : span(age(time)) + say.ago);

export const moment = (time) => new Date(Date.parse(time) - aheadMs).toLocaleString(language);
export const hour = (time, hasSeconds = true) =>
  new Date(time).toLocaleTimeString(language, {
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    ...(hasSeconds && { second: "2-digit" }),
  });
// With the day where it is not today's.
export const when = (time) => (age(time) < 43200 ? hour(Date.parse(time) - aheadMs) : moment(time));

export function size(bytes) {
  let unit = 0;
  for (; bytes >= 1024 && unit < 4; unit += 1) bytes /= 1024;
  return `${unit && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

export const number = (value) => value.toLocaleString(language, { maximumFractionDigits: 1 });
export const percent = (share) => `${Math.round(share * 100)} %`;

export function money(amount, currency) {
  const digits = {
    maximumFractionDigits: amount !== 0 && Math.abs(amount) < 1 ? 4 : 2,
    minimumFractionDigits: 2,
  };
  return `${amount.toLocaleString(language, digits)} ${currency ?? ""}`.trim();
}
