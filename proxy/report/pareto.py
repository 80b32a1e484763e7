"""What each setting of a sweep costs and how long it lets wait, as a picture: the frontier are those that no other
setting beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree.ElementTree import Element

from proxy.report.axes import round_ticks
from proxy.report.elements import element, short

_HEIGHT, _TOP, _BOTTOM = 420, 20, 46
_PLOT = _HEIGHT - _TOP - _BOTTOM
_WIDTHS = {
    "wide": 900,
    "narrow": 290,
}  # of the plot in pixels, about, and the class of the labels placed for it
_LETTER, _LINE = 6.9, 15  # of a label, in pixels
_MOST_LABELS = 80


@dataclass(frozen=True, slots=True)
class Point:
    label: str
    paid_hours: float
    wait_p95: float


def frontier(points: Sequence[Point]) -> set[int]:
    """Places of the points to which no other is better in one and no worse in the other."""
    found: set[int] = set()
    last: Point | None = None
    for place, point in sorted(enumerate(points), key=lambda pair: (pair[1].paid_hours, pair[1].wait_p95)):
        is_equal = last is not None and (point.paid_hours, point.wait_p95) == (last.paid_hours, last.wait_p95)
        if last is None or is_equal or point.wait_p95 < last.wait_p95:
            found.add(place)
            last = point
    return found


def pareto(points: Sequence[Point], keys: str) -> Element:
    """A figure of paid node-hours against p95 waits. `keys`: what the labels give the values of."""
    x_ticks = round_ticks(
        min(point.paid_hours for point in points), max(point.paid_hours for point in points)
    )
    y_ticks = round_ticks(0, max(point.wait_p95 for point in points))

    def share_of(hours: float) -> float:
        return (hours - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])

    def y_of(wait: float) -> float:
        return _TOP + _PLOT * (1 - wait / y_ticks[-1])

    best = frontier(points)
    at = [(share_of(point.paid_hours), y_of(point.wait_p95)) for point in points]
    corners = sorted({at[place] for place in best})
    heights = [(y_of(tick), f"{short(tick)} s") for tick in y_ticks]
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
        *_hours([(share_of(tick), short(tick)) for tick in x_ticks]),
        _line(corners),
        *(
            _dot(points[place], at[place], place in best)
            for place in sorted(range(len(points)), key=best.__contains__)
        ),
        *(
            label
            for style, width in _WIDTHS.items()
            for label in _labels(points, [(share * width, y) for share, y in at], best, width, style)
        ),
        class_="pareto",
        height=_HEIGHT,
        role="img",
        aria_label=f"{len(points)} settings by paid node-hours and p95 wait, {len(best)} of them on the frontier",
    )
    note = (
        "p95 wait against paid node-hours: down and left is better. Nothing beats those on the line in both."
    )
    return element(
        "figure",
        element("figcaption", element("h2", "Cost and wait"), element("p", f"{note} Labels: {keys}.")),
        element("div", scale, picture, class_="plot"),
    )


def _hours(ticks: Sequence[tuple[float, str]]) -> list[Element]:
    found = [element("text", "paid node-hours", class_="tick", x="100%", y=_HEIGHT - 4, text_anchor="end")]
    for place, (share, text) in enumerate(ticks):
        x = f"{100 * share:.2f}%"
        anchor = "start" if place == 0 else "end" if place == len(ticks) - 1 else "middle"
        found.append(element("line", class_="grid", x1=x, x2=x, y1=_TOP + _PLOT, y2=_TOP + _PLOT + 5))
        found.append(element("text", text, class_="tick", x=x, y=_TOP + _PLOT + 19, text_anchor=anchor))
    return found


def _line(corners: Sequence[tuple[float, float]]) -> Element:
    """Stretched to the width, as the dots are."""
    (x, y), *others = ((1000 * share, y) for share, y in corners)
    steps = "".join(f"H{short(x)}V{short(y)}" for x, y in others)
    return element(
        "svg",
        element(
            "path", d=f"M{short(x)} {short(y)}{steps}", class_="frontier", vector_effect="non-scaling-stroke"
        ),
        width="100%",
        height=_HEIGHT,
        viewBox=f"0 0 1000 {_HEIGHT}",
        preserveAspectRatio="none",
    )


def _dot(point: Point, at: tuple[float, float], is_best: bool) -> Element:
    told = f"{point.label}: p95 wait {point.wait_p95:.1f} s, {point.paid_hours:.2f} paid node-hours"
    style = "dot best" if is_best else "dot"
    return element("circle", element("title", told), class_=style, cx=f"{100 * at[0]:.2f}%", cy=at[1], r="5")


def _labels(
    points: Sequence[Point], at: Sequence[tuple[float, float]], best: set[int], width: float, style: str
) -> list[Element]:
    """Beside its point, or above or below it, where neither a dot nor the line nor another label is; those of the
    frontier choose first. One that fits nowhere is left to the table."""
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in at]
    for (x, y), (next_x, next_y) in pairwise(sorted({at[place] for place in best})):
        taken += [(x, y - 1, next_x, y + 1), (next_x - 1, y, next_x + 1, next_y)]
    found = []
    for place in sorted(range(len(points)), key=lambda place: (place not in best, place))[:_MOST_LABELS]:
        x, y = at[place]
        length = _LETTER * len(points[place].label)
        for left, middle in (
            (6, -13),
            (9, 0),
            (7, 13),
            (-9 - length, 0),
            (-7 - length, 13),
            (-7 - length, -13),
            (-length / 2, -17),
            (-length / 2, 17),
        ):
            box = (x + left, y + middle - _LINE / 2, x + left + length, y + middle + _LINE / 2)
            is_inside = box[0] >= 0 and box[2] <= width and box[1] >= 0 and box[3] <= _HEIGHT - _BOTTOM
            if is_inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                found.append(
                    element(
                        "text",
                        points[place].label,
                        class_=f"label {style}{' best' if place in best else ''}",
                        x=f"{100 * x / width:.2f}%",
                        dx=left,
                        y=y + middle + 4,
                    )
                )
                break
    return found


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
