// The values under the pointer, in the legend of their figure.
"use strict";

function readable(seconds) {
  const days = Math.floor(seconds / 86400);
  const time = new Date((seconds % 86400) * 1000).toISOString().slice(11, 19);
  return days ? `${days} d ${time}` : time;
}

for (const figure of document.querySelectorAll("figure:has(.timeline)")) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const picture = figure.querySelector(".timeline");
  const cursor = picture.querySelector(".cursor");
  const outputs = figure.querySelectorAll("output");
  const when = figure.querySelector(".when");

  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    const last = data.values[0].length - 1;
    const place = Math.min(Math.floor((share * data.span) / data.step), last);
    outputs.forEach((output, curve) => {
      const value = data.values[curve][place];
      output.textContent = value === null ? "–" : `${Math.round(value * 100) / 100} ${data.unit}`.trim();
    });
    when.textContent = `from ${readable(place * data.step)}`;
    cursor.setAttribute("x1", `${share * 100}%`);
    cursor.setAttribute("x2", `${share * 100}%`);
    cursor.style.visibility = "visible";
  });
  picture.addEventListener("pointerleave", () => {
    for (const output of outputs) output.textContent = "";
    when.textContent = "";
    cursor.style.visibility = "hidden";
  });
}
