"""The simulator against golden runs of an independent implementation, and the promises of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.scaling.rules import Action, Down, Limits
from proxy.scaling.simulate import Run, read_trace, simulate


def traces_directory() -> Path | None:
    """`FIFO_PROXY_TRACES`, else `shared/traces` beside this checkout or beside one of its parents."""
    if named := os.environ.get("FIFO_PROXY_TRACES"):
        return Path(named)
    found = (parent / "shared" / "traces" for parent in Path(__file__).resolve().parents)
    return next((path for path in found if path.is_dir()), None)


TRACES = traces_directory()
GOLDEN = sorted(TRACES.glob("golden/*.json")) if TRACES else []


def golden_form(actions: list[tuple[int, Action]]) -> Iterator[list[object]]:
    for at, action in actions:
        yield [at, "down", list(action.numbers)] if isinstance(action, Down) else [at, "up", action.count]


def replay(golden: dict[str, Any]) -> Run:
    assert TRACES is not None
    start_ms = golden["node_start_secs"] * 1000
    with (TRACES / f"{golden['trace']}.csv").open() as lines:
        return simulate(
            read_trace(lines),
            Limits(min_nodes=golden["min_nodes"], max_nodes=golden["max_nodes"]),
            golden["policy"],
            lambda: start_ms,
            drain_ms=golden["drain_s"] * 1000,
        )


@pytest.mark.skipif(not GOLDEN, reason="NO GOLDEN RUNS: set FIFO_PROXY_TRACES to the directory of the traces")
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_run_is_reproduced_exactly(path: Path) -> None:
    golden = json.loads(path.read_text())
    run = replay(golden)
    assert list(golden_form(run.actions)) == golden["actions"]
    assert list(run.start_ms) == golden["start_ms"]
    metrics = golden["metrics"]
    assert max(run.wait_ms) / 1000 == metrics["max"]
    assert run.paid_ms / 3_600_000 == pytest.approx(metrics["paid_h"], rel=1e-12)
    assert run.busy_ms / 3_600_000 == pytest.approx(metrics["useful_h"], rel=1e-12)
    assert run.horizon_ms / 3_600_000 == pytest.approx(metrics["horizon_h"], rel=1e-12)
    assert run.peak_nodes == metrics["peak"]
    assert [action.cause for _, action in run.actions].count("cold") == metrics["cold_scaleups"]
