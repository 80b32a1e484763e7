"""The page of `fifo-proxy simulate --report`: one file without any outside resource, of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from string import Template
from typing import Any
from xml.etree.ElementTree import Element

from proxy.report.axes import clock, duration
from proxy.report.elements import element, markup
from proxy.report.pareto import Point, frontier, pareto
from proxy.report.timeline import Curve, Mark, timeline
from proxy.scaling.figures import Figures, columns_of
from proxy.scaling.rules import Up
from proxy.scaling.series import Series
from proxy.scaling.simulate import Run

_MOST_EVENTS = 200
_NODE_NAMES = {"busy": "busy", "idle": "idle", "starting": "starting", "unready": "dead"}


def page_of_run(
    name: str,
    run: Run,
    series: Series,
    figures: Figures,
    *,
    limit_wait_secs: float,
    max_nodes: int,
    run_with: Mapping[str, Any],
) -> str:
    """A single run. `run_with`: the keys it was run with, and what it was told of nodes and chance."""
    span_secs = run.horizon_ms / 1000
    over_time = partial(timeline, step_secs=series.step_secs, span_secs=span_secs)
    return _page(
        name,
        f"{figures.requests:,} requests in {duration(span_secs)}",
        [
            _tiles(figures, limit_wait_secs),
            over_time(
                "The line",
                [
                    Curve("longest", "line-max", series.line_max, is_filled=True),
                    Curve("mean", "line-mean", series.line_mean),
                ],
                note="Requests waiting.",
            ),
            over_time(
                "Nodes",
                [
                    Curve(_NODE_NAMES[state], state, values, is_filled=True)
                    for state, values in series.nodes.items()
                    if any(values) or state != "unready"
                ],
                note="Nodes paid for, by state.",
                is_stacked=True,
                mark=Mark(max_nodes, f"max_nodes {max_nodes}"),
            ),
            over_time(
                "Waits",
                [
                    Curve("p95", "wait-p95", series.wait_p95, is_filled=True),
                    Curve("p50", "wait-p50", series.wait_p50),
                ],
                note="Of the requests that arrived then.",
                unit="s",
                mark=Mark(limit_wait_secs, f"limit {limit_wait_secs:g} s"),
            ),
            _section("Figures", _upright(columns_of([figures], limit_wait_secs))),
            _events(run),
            _section("Run with", _list(run_with)),
        ],
    )


def page_of_sweep(
    name: str,
    found: Sequence[tuple[Mapping[str, Any], Figures]],
    *,
    limit_wait_secs: float,
    run_with: Mapping[str, Any],
) -> str:
    """A sweep: what distinguishes each run, and its figures. `run_with`: what all have in
    common."""
    keys = list(found[0][0])
    points = [
        Point(" · ".join(str(value) for value in differs.values()), figures.paid_hours, figures.wait_p95)
        for differs, figures in found
    ]
    return _page(
        name,
        f"{found[0][1].requests:,} requests, {len(found)} settings",
        [
            pareto(points, " · ".join(keys)),
            _section(
                "Settings",
                _table(
                    {key: [str(differs[key]) for differs, _ in found] for key in keys}
                    | columns_of([figures for _, figures in found], limit_wait_secs),
                    marked=frontier(points),
                    texts=len(keys),
                ),
                note="Marked: on the frontier.",
            ),
            _section("Run with", _list(run_with)),
        ],
    )


def _page(name: str, summary: str, parts: Iterable[Element]) -> str:
    head = element(
        "header",
        element("p", "fifo-proxy simulate", class_="kind"),
        element("h1", name),
        element("p", summary),
    )
    assets = files("proxy.report")
    return Template(assets.joinpath("report.html").read_text(encoding="utf-8")).substitute(
        title=markup(element("title", f"{name} · fifo-proxy simulate")),
        style=assets.joinpath("report.css").read_text(encoding="utf-8"),
        body=markup(element("main", head, *parts)),
        script=assets.joinpath("report.js").read_text(encoding="utf-8"),
    )


def _tiles(figures: Figures, limit_wait_secs: float) -> Element:
    told = {
        "p95 wait": f"{figures.wait_p95:,.1f} s",
        f"waited over {limit_wait_secs:g} s": f"{figures.late_share:.1%}",
        "paid node-hours": f"{figures.paid_hours:,.1f}",
        "of them used": f"{figures.utilisation:.1%}",
    }
    if figures.cost is not None:
        told["cost"] = f"{figures.cost:,.2f}"
    if figures.failed_requests:
        told["failed requests"] = str(figures.failed_requests)
    return element(
        "dl",
        *(element("div", element("dt", name), element("dd", value)) for name, value in told.items()),
        class_="tiles",
    )


def _events(run: Run) -> Element:
    """What the scaler did and what befell it, the first and the last of it."""
    events = [
        (at, f"+{action.count}" if isinstance(action, Up) else f"−{action.count}", action.reason)
        for at, action in run.actions
    ]
    for life in run.nodes:
        if life.died_ms is not None:
            events.append((life.died_ms, "died", "a node died"))
        elif life.ready_ms is None and life.gone_ms < run.horizon_ms:
            events.append((life.gone_ms, "−1", "its start failed: not ready in time"))
    events.sort(key=lambda event: event[0])
    shown = events
    note = f"{len(events):,} in all."
    if len(events) > _MOST_EVENTS:
        half = _MOST_EVENTS // 2
        shown = events[:half] + events[-half:]
        note = f"{note} The first {half} and the last {half} of them."
    columns = {
        "at": [clock(at) for at, _, _ in shown],
        "nodes": [change for _, change, _ in shown],
        "why": [reason for _, _, reason in shown],
    }
    return _section("Scaling", _table(columns, texts=3), note=note)


def _section(title: str, content: Element, *, note: str = "") -> Element:
    return element(
        "section",
        element("h2", title),
        *([element("p", note)] if note else []),
        element("div", content, class_="scroll"),
    )


def _table(
    columns: Mapping[str, Sequence[str]], *, marked: set[int] | frozenset[int] = frozenset(), texts: int = 0
) -> Element:
    """The first `texts` columns are texts, the others numbers."""
    styles = ["text"] * texts + ["number"] * (len(columns) - texts)
    head = (
        element("th", *_breakable(name), scope="col", class_=style)
        for name, style in zip(columns, styles, strict=True)
    )
    rows = (
        element(
            "tr",
            *(element("td", cell, class_=style) for cell, style in zip(cells, styles, strict=True)),
            **({"class_": "best"} if place in marked else {}),
        )
        for place, cells in enumerate(zip(*columns.values(), strict=True))
    )
    return element("table", element("thead", element("tr", *head)), element("tbody", *rows))


def _breakable(name: str) -> Iterable[Element | str]:
    """A key's name may be broken after each underscore."""
    for place, word in enumerate(name.split("_")):
        if place:
            yield "_"
            yield element("wbr")
        yield word


def _upright(columns: Mapping[str, Sequence[str]]) -> Element:
    """A single row of figures, as a list."""
    return _list({name: cells[0] for name, cells in columns.items()})


def _list(pairs: Mapping[str, Any]) -> Element:
    return element(
        "dl",
        *(element("div", element("dt", name), element("dd", str(value))) for name, value in pairs.items()),
        class_="pairs",
    )
