"""`examples/grafana.json` and `examples/alerts.yml`: they load, and every expression is of metrics that we have."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.admin.metrics import new_registry
from proxy.app import App
from proxy.config import parse
from proxy.health import CODES
from tests.fakes.programs import program

EXAMPLES = Path(__file__).parents[2] / "examples"
BOARD: dict[str, Any] = json.loads((EXAMPLES / "grafana.json").read_text())
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((EXAMPLES / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]


def board_expressions() -> Iterator[str]:
    for panel in BOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (annotation["expr"] for annotation in BOARD["annotations"]["list"])


EXPRESSIONS = [*board_expressions(), *(rule["expr"] for rule in RULES)]


@pytest.fixture(scope="module")
def samples() -> dict[str, dict[str, set[str]]]:
    """Every sample of a proxy that has just been built: its labels and their values."""
    app = App(parse({"provider": {"kind": "static", "nodes": ["http://127.0.0.1:9"]}}))
    registry = new_registry(app.view, app.stats, spool_bytes=lambda: 0, records_dropped=lambda: 0)
    found: dict[str, dict[str, set[str]]] = {}
    for family in registry.collect():
        for sample in family.samples:
            labels = found.setdefault(sample.name, {"instance": set()})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=range(len(EXPRESSIONS)))
def test_an_expression_is_of_metrics_labels_and_values_that_we_have(
    expression: str, samples: dict[str, dict[str, set[str]]]
) -> None:
    used = re.findall(r"\b(fifo_proxy_\w+)(?:\{([^}]*)\})?", expression)
    assert used
    for name, selector in used:
        assert name in samples
        for label, operator, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', selector):
            assert label in samples[name]
            if label != "instance":
                assert set(value.split("|")) <= samples[name][label], operator
    for label in re.findall(r"\bby \(([^)]*)\)", expression):
        for one in re.split(r",\s*", label):
            assert any(one in samples[name] for name, _ in used), one


def test_the_board_is_one_that_grafana_takes() -> None:
    assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= BOARD.keys()
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    places: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not places & cells, "panels lie apart"
        places |= cells
        assert panel["type"] in ("stat", "timeseries")
        assert panel["datasource"]["uid"] == "${datasource}"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    names = {variable["name"] for variable in BOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(BOARD)))
    assert used == names


def test_every_reason_of_health_has_an_alert() -> None:
    chosen: set[str] = set()
    for rule in RULES:
        for operator, codes in re.findall(r'fifo_proxy_degraded\{reason(=~|!~)"([^"]*)"', rule["expr"]):
            chosen |= set(codes.split("|")) if operator == "=~" else set(CODES) - set(codes.split("|"))
    assert chosen == set(CODES)


def test_promtool_takes_the_alerts_and_they_fire_when_they_should() -> None:
    promtool = program("promtool")
    run(promtool, "check", "rules", "alerts.yml")
    told = run(promtool, "test", "rules", str(Path(__file__).with_name("alerts_test.yml")))
    assert "SUCCESS" in told


def test_promtool_takes_the_expressions_of_the_board(tmp_path: Path) -> None:
    rules = [
        {
            "record": f"board:{number}",
            "expr": expression.replace("$__rate_interval", "1m").replace("$instance", ".*"),
        }
        for number, expression in enumerate(board_expressions())
    ]
    path = tmp_path / "board.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    run(program("promtool"), "check", "rules", str(path))


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
