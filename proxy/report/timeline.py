"""Curves over time as inline SVG that is as wide as its place: the plot is stretched, texts and strokes are not.

Each value is a step as wide as its bucket, so that nothing is shown that was not measured. The values are in the
page a second time as JSON, for the reading under the pointer (`report.js`); without a script the picture is whole.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from proxy.report.axes import duration, round_ticks, time_ticks
from proxy.report.elements import element, short

_HEIGHT, _TOP, _BOTTOM = 232, 16, 24
_PLOT = _HEIGHT - _TOP - _BOTTOM
_UNITS_HIGH = 1000  # of the plot's own coordinates


@dataclass(frozen=True, slots=True)
class Curve:
    """`style`: its class in `report.css`; a value is None where there was nothing to measure."""

    name: str
    style: str
    values: Sequence[float | None]
    is_filled: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A dashed line at a value, with a text."""

    value: float
    text: str


def timeline(
    title: str,
    curves: Sequence[Curve],
    *,
    step_secs: int,
    span_secs: float,
    unit: str = "",
    note: str = "",
    is_stacked: bool = False,
    mark: Mark | None = None,
) -> Element:
    """A figure with its legend. Stacked curves stand on those before them."""
    shown = [[value or 0.0 for value in curve.values] for curve in curves] if is_stacked else []
    tops: list[Sequence[float | None]] = [curve.values for curve in curves]
    if is_stacked:
        tops = [[sum(part) for part in zip(*shown[: place + 1], strict=True)] for place in range(len(curves))]
    highest = max((value for top in tops for value in top if value is not None), default=0.0)
    if mark is not None and mark.value <= 2 * highest:
        highest = max(highest, mark.value)
    else:
        mark = None
    ticks = round_ticks(0, highest, are_whole=not unit)
    # The last bucket may be shorter than the others: the plot ends where the run does.
    width = span_secs / step_secs
    drawn = list(zip(curves, tops, strict=True))
    plot = element(
        "svg",
        *(_path(curve, top, ticks[-1], width) for curve, top in (reversed(drawn) if is_stacked else drawn)),
        x="0",
        y=_TOP,
        width="100%",
        height=_PLOT,
        viewBox=f"0 0 {short(width)} {_UNITS_HIGH}",
        preserveAspectRatio="none",
    )
    heights = [(_TOP + _PLOT * (1 - tick / ticks[-1]), f"{short(tick)} {unit}".strip()) for tick in ticks]
    scale = element(
        "svg",
        *(element("text", text, class_="tick", x="100%", y=y + 4, text_anchor="end") for y, text in heights),
        class_="scale",
        height=_HEIGHT,
        aria_hidden="true",
    )
    picture = element(
        "svg",
        *(element("line", class_="grid", x1="0", x2="100%", y1=y, y2=y) for y, _ in heights),
        *_instants(span_secs),
        plot,
        *_marks(mark, ticks[-1]),
        element("line", class_="cursor", x1="0", x2="0", y1=_TOP, y2=_TOP + _PLOT),
        class_="timeline",
        height=_HEIGHT,
        role="img",
        aria_label=f"{title}: at most {short(highest)} {unit}".strip(),
    )
    data = {
        "step": step_secs,
        "span": span_secs,
        "unit": unit,
        "values": [
            [None if value is None else float(f"{value:.4g}") for value in curve.values] for curve in curves
        ],
    }
    return element(
        "figure",
        element(
            "figcaption",
            element("h2", title),
            element("p", f"{note} Each step is {duration(step_secs)}.".strip()),
        ),
        element("ul", *map(_key, curves), element("li", class_="when"), class_="legend"),
        element("div", scale, picture, class_="plot"),
        element("script", json.dumps(data, separators=(",", ":")), type="application/json"),
    )


def _path(curve: Curve, values: Sequence[float | None], top: float, width: float) -> Element:
    """Only where the height changes is anything drawn."""
    base = f"V{_UNITS_HIGH}Z" if curve.is_filled else ""
    steps: list[str] = []
    before: int | None = None
    for place, value in enumerate(values):
        height = None if value is None else round(_UNITS_HIGH * (1 - value / top))
        if height == before:
            continue
        if before is not None:
            steps.append(f"H{place}")
        if height is None:
            steps.append(base)
        elif before is not None:
            steps.append(f"V{height}")
        else:
            steps.append(f"M{place} {_UNITS_HIGH}V{height}" if curve.is_filled else f"M{place} {height}")
        before = height
    if before is not None:
        steps.append(f"H{short(width)}{base}")
    kind = "area" if curve.is_filled else "line"
    return element(
        "path", d="".join(steps), class_=f"{kind} {curve.style}", vector_effect="non-scaling-stroke"
    )


def _instants(span_secs: float) -> list[Element]:
    found = []
    for at, text in time_ticks(span_secs):
        x = f"{100 * at / span_secs:.2f}%"
        found.append(element("line", class_="grid", x1=x, x2=x, y1=_TOP + _PLOT, y2=_TOP + _PLOT + 5))
        found.append(element("text", text, class_="tick", x=x, y=_HEIGHT - 6, text_anchor="middle"))
    return found


def _marks(mark: Mark | None, top: float) -> list[Element]:
    if mark is None:
        return []
    y = _TOP + _PLOT * (1 - mark.value / top)
    return [
        element("line", class_="mark", x1="0", x2="100%", y1=y, y2=y),
        element("text", mark.text, class_="tick", x="100%", y=y - 4, text_anchor="end"),
    ]


def _key(curve: Curve) -> Element:
    return element("li", element("i", class_=curve.style), curve.name, element("output"))
