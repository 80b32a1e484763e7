"""The page of `simulate --report`: it needs nothing from outside, and its pictures are of the run."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proxy.cli import main
from proxy.config import parse
from proxy.scaling.series import series_of
from proxy.scaling.trace_files import load_trace
from proxy.what_if import Scenario

BURST = [*range(0, 3600, 60), *range(3600, 3900, 2), *range(4000, 9000, 50)]
VOID = {"meta", "link", "wbr", "br"}


class Page(HTMLParser):
    """`texts`: by tag; `attributes`: of every element. Every element that is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self._open):
            self.texts[tag][-1] += data

    def data(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self.texts["script"] if text.startswith("{")]

    def of_class(self, name: str) -> list[dict[str, str | None]]:
        return [
            attributes for _, attributes in self.attributes if name in (attributes.get("class") or "").split()
        ]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "a <b> & 'c'.csv"
    path.write_text("arrival_s,service_s\n" + "".join(f"{at},20\n" for at in BURST))
    return path


def report(trace: Path, *arguments: str) -> tuple[str, Page]:
    path = trace.parent / "report.html"
    result = CliRunner().invoke(main, ["simulate", str(trace), "--report", str(path), *arguments])
    assert result.exit_code == 0, result.output
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


def heights(path: str) -> list[float]:
    """The steps of an area: its value in each bucket, from 0 at the base to 1 at the top."""
    found: list[float] = []
    at, height = 0, 0.0
    for command, number in re.findall(r"([MHV])([\d.]+)", path):
        if command == "H":
            found += [height] * (round(float(number) + 0.499) - at)
            at = round(float(number) + 0.499)
        elif command == "V":
            height = 1 - float(number) / 1000
    return found


@pytest.mark.parametrize("arguments", [(), ("--sweep", "max_nodes=2,4,6"), ("--price-per-hour", "2")])
def test_it_needs_nothing_from_outside(trace: Path, arguments: tuple[str, ...]) -> None:
    text, page = report(trace, *arguments)
    assert "//" not in re.sub(r"^// .*$", "", text, flags=re.MULTILINE).replace('"use strict";', "")
    assert "url(" not in text
    assert "@import" not in text
    for tag, attributes in page.attributes:
        assert "src" not in attributes
        assert attributes.get("href") in (None, "data:,"), tag
        assert not any(name.startswith("on") for name in attributes)
    assert len(text) < 100_000


def test_names_are_texts_and_never_markup(trace: Path) -> None:
    text, page = report(trace)
    assert page.texts["h1"] == ["a <b> & 'c'.csv"]
    assert "<b>" not in text


def test_the_curves_are_those_of_the_run(trace: Path) -> None:
    _, page = report(trace, "--set", "max_nodes=6", "--set", "queue_scale_wait_secs=20")
    scenario = Scenario(load_trace([trace]))
    config = parse(
        {"max_nodes": 6, "queue_scale_wait_secs": 20, "provider": {"kind": "static", "nodes": ["http://a"]}}
    )
    run = scenario.replay(config)
    series = series_of(run, scenario.trace.service_ms)
    line, nodes, waits = page.data()
    assert line["values"] == [series.line_max, pytest.approx(series.line_mean, rel=1e-3)]
    assert nodes["values"] == [
        pytest.approx(series.nodes[state], rel=1e-3) for state in ("busy", "idle", "starting")
    ]
    assert waits["values"][0] == [None if wait is None else float(f"{wait:.4g}") for wait in series.wait_p95]
    assert {figure["step"] for figure in (line, nodes, waits)} == {series.step_secs}

    (drawn,) = (heights(area["d"] or "") for area in page.of_class("line-max") if "d" in area)
    top = max(series.line_max) / max(drawn)
    assert [height * top for height in drawn] == pytest.approx(series.line_max, abs=top / 500)
    (drawn,) = (heights(area["d"] or "") for area in page.of_class("starting") if "d" in area)
    paid = [sum(part) for part in zip(*series.nodes.values(), strict=True)]
    top = max(paid) / max(drawn)
    assert [height * top for height in drawn] == pytest.approx(paid, abs=top / 500)


def test_every_action_is_told_with_its_reason_and_long_lists_are_cut(trace: Path) -> None:
    _, page = report(trace, "--set", "max_nodes=6")
    cells = page.texts["td"]
    assert any(re.fullmatch(r"length \d+ > 10", cell) for cell in cells)
    assert any(re.fullmatch(r"idle \d+\.0 s > 180 s", cell) for cell in cells)
    busy = ("--set", "max_nodes=40", "--set", "idle_shutdown_secs=1", "--set", "scale_down_cooldown_secs=0")
    swift = (
        "--set",
        "queue_scale_wait_secs=0",
        "--set",
        "scale_up_cooldown_secs=0",
        "--node-start",
        "const:300",
    )
    _, page = report(trace, *busy, *swift, "--failed-starts", "0.2", "--node-deaths", "1")
    assert len(page.texts["tr"]) == 1 + 200
    assert any("The first 100 and the last 100" in text for text in page.texts["p"])
    assert "failed requests" in page.texts["dt"]
    assert {"a node died", "its start failed: not ready in time"} & set(page.texts["td"])


def test_a_sweep_shows_what_nothing_beats(trace: Path) -> None:
    arguments = ("--sweep", "max_nodes=2,4,6", "--sweep", "queue_scale_wait_secs=20,120")
    _, page = report(trace, *arguments)
    result = CliRunner().invoke(main, ["simulate", str(trace), "--json", *arguments])
    rows = json.loads(result.stdout)
    best = [
        row
        for row in rows
        if not any(
            other["paid_hours"] <= row["paid_hours"]
            and other["wait_p95"] <= row["wait_p95"]
            and (other["paid_hours"], other["wait_p95"]) != (row["paid_hours"], row["wait_p95"])
            for other in rows
        )
    ]
    labels = {" · ".join(map(str, row["settings"].values())) for row in best}
    titles = [title for title in page.texts["title"] if "p95 wait" in title]
    assert len(titles) == len(rows)
    for row in rows:
        label = " · ".join(map(str, row["settings"].values()))
        assert f"{label}: p95 wait {row['wait_p95']:.1f} s, {row['paid_hours']:.2f} paid node-hours" in titles
    dots = [attributes for tag, attributes in page.attributes if tag == "circle"]
    assert {
        title.partition(":")[0] for title, dot in zip(titles, dots, strict=True) if dot["class"] == "dot best"
    } == labels
    assert [len(page.of_class("frontier")), len(page.texts["tr"])] == [1, 7]
    marked = [attributes for tag, attributes in page.attributes if tag == "tr" and attributes.get("class")]
    assert len(marked) == len(best)


def test_a_page_that_cannot_be_written(trace: Path) -> None:
    path = trace.parent / "none" / "report.html"
    result = CliRunner().invoke(main, ["simulate", str(trace), "--report", str(path)])
    assert (result.exit_code, result.stderr) == (1, f"fifo-proxy: {path}: No such file or directory\n")
