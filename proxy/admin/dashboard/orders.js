// Orders: asked for confirmation, given under the name that was entered, and what came of them is told.

import { order, Refusal } from "./api.js";
import { button, get, make, write } from "./dom.js";
import { when } from "./format.js";
import { say } from "./words.js";

const TOLD_MS = 8000;
let hiding = 0;

function tell(text, isBad) {
  const told = get("told");
  told.className = isBad ? "bad" : "";
  write(told, text);
  told.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => {
    told.hidden = true;
  }, TOLD_MS);
}

function confirmed(name, target) {
  const dialog = get("confirm");
  get("confirm_title").textContent = say[name];
  get("confirm_text").replaceChildren(say[`about_${name}`], " ", make("code", { text: String(target) }));
  get("confirm_yes").textContent = say[name].replace(/[?？]$/, "");
  get("by").value = localStorage.getItem("by") ?? "";
  dialog.returnValue = "";
  dialog.showModal();
  get("confirm_yes").focus();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
  });
}

// `name`: of the order, as the actions tell it; `to`: its path; `target`: what it is about, shown.
export async function giveOrder(name, to, target = "", more = {}) {
  if (!(await confirmed(name, target))) return;
  const by = get("by").value.trim();
  localStorage.setItem("by", by);
  try {
    const done = await order(to, { by, ...more });
    tell(done.result, false);
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof TypeError)) throw error;
    tell(error.message, true);
  }
}

// Scaling and dispatch: what they are, and the button that changes it.
function placeSwitch(what) {
  const state = make("span");
  const change = button("", "", () =>
    giveOrder(`${change.dataset.order}_${what}`, `${what}/${change.dataset.order}`),
  );
  get("holds").append(
    make(
      "div",
      { kind: "switch", id: what },
      make("p", {}, make("strong", { text: say[what] }), state),
      change,
    ),
  );
  return (hold) => {
    write(state, hold ? `${say.held}, ${say.by} ${hold.by}, ${when(hold.at)}` : say.works);
    state.className = hold ? "state held" : "state idle";
    change.dataset.order = hold ? "resume" : "hold";
    write(change, hold ? say.resume : say.hold);
    change.setAttribute("aria-label", `${change.textContent}: ${say[what]}`);
  };
}

let switches = {};

export function placeOrders() {
  switches = { scaling: placeSwitch("scaling"), dispatch: placeSwitch("dispatch") };
  const count = make("input", { type: "number", min: 0, max: 1000000, step: 1, required: "", id: "count" });
  const form = make(
    "form",
    { kind: "switch", id: "set_nodes" },
    make("label", {}, make("strong", { text: say.number_of_nodes }), count),
    make("button", { text: say.set }),
  );
  form.onsubmit = (event) => {
    event.preventDefault();
    giveOrder("set_nodes", "scaling/nodes", count.value, { count: count.valueAsNumber });
  };
  get("holds").append(form);
}

export function showOrders({ held, nodes }) {
  switches.scaling(held.scaling);
  switches.dispatch(held.dispatch);
  const count = get("count");
  if (!count.value && document.activeElement !== count) count.placeholder = nodes.length;
}
