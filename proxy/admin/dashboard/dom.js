// Making elements and keeping lists. Whatever comes from outside is set as text, never as HTML.

export const get = (id) => document.getElementById(id);

export function make(tag, { text = "", kind = "", ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (text !== "") element.textContent = text;
  if (kind) element.className = kind;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Sets the text only where it differs, so that a selection in it survives.
export function write(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}

// Shows `items` in `parent`, one element each, and keeps the element of an item that stays, so that a button which has
// the focus, or is being pressed, does not vanish under the finger. `create(item)` gives { element, update(item) }.
export function keep(parent, items, keyOf, create) {
  const kept = (parent.kept ??= new Map());
  const keys = new Set(items.map(keyOf));
  for (const [key, { element }] of kept) {
    if (keys.has(key)) continue;
    element.remove();
    kept.delete(key);
  }
  let before = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    if (!kept.has(key)) kept.set(key, create(item));
    const { element, update } = kept.get(key);
    if (element === before) before = before.nextElementSibling;
    else parent.insertBefore(element, before);
    update(item); // in its place: it may ask for its width
  }
}

export function button(text, kind, onclick) {
  const element = make("button", { text, kind, type: "button" });
  element.onclick = onclick;
  return element;
}
