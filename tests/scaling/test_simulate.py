"""The simulator against golden runs of an independent implementation, and the promises of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.scaling.rules import Action, Down, Limits, Policy
from proxy.scaling.simulate import Run, simulate
from proxy.scaling.traces import UnusableTrace, read_trace


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


traces = st.lists(
    st.tuples(
        st.sampled_from((0, 1, 700, 5_000, 90_000, 400_000)), st.sampled_from((1, 900, 25_000, 200_000))
    ),
    max_size=60,
).map(
    lambda gaps: list(zip(accumulate(gap for gap, _ in gaps), (service for _, service in gaps), strict=True))
)


@given(
    trace=traces,
    limits=st.builds(
        Limits,
        min_nodes=st.integers(0, 3),
        max_nodes=st.integers(3, 6),
        target_wait_secs=st.sampled_from((1, 60, 300)),
    ),
    policy=st.sampled_from(get_args(Policy)),
    start_ms=st.sampled_from((0, 5_000, 61_234)),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_skipped_check_would_have_done_nothing(
    trace: list[tuple[int, int]], limits: Limits, policy: Policy, start_ms: int
) -> None:
    skipping = simulate(trace, limits, policy, lambda: start_ms)
    with patch("proxy.scaling.simulate.next_change", lambda seen, memory, limits, now, demand: now):
        assert simulate(trace, limits, policy, lambda: start_ms) == skipping


def test_every_start_is_in_order_and_nothing_starts_before_it_arrives() -> None:
    run = simulate([(0, 4_000), (0, 4_000), (1_000, 1)], Limits(min_nodes=1), "threshold", lambda: 60_000)
    assert list(run.start_ms) == [0, 4_000, 8_000]
    assert list(run.wait_ms) == [0, 4_000, 7_000]
    assert (run.busy_ms, run.paid_ms, run.horizon_ms, run.peak_nodes) == (8_001, 1_801_000, 1_801_000, 1)


def test_a_request_that_finds_no_node_makes_one_at_once_between_the_checks() -> None:
    run = simulate([(1_234, 10)], Limits(min_nodes=0), "threshold", lambda: 60_000)
    assert list(run.start_ms) == [61_234]
    assert list(golden_form(run.actions)) == [[1_234, "up", 1], [245_000, "down", [0]]]


def test_each_node_has_its_own_start_time() -> None:
    starts = iter((60_000, 10_000, 30_000))
    trace = [(0, 50_000)] * 12
    run = simulate(trace, Limits(min_nodes=0, max_nodes=3), "threshold", lambda: next(starts))
    assert list(golden_form(run.actions))[:2] == [[0, "up", 1], [30_000, "up", 2]]
    assert list(run.start_ms[:3]) == [40_000, 60_000, 60_000]


def test_no_traffic_is_a_run_too() -> None:
    run = simulate([], Limits(min_nodes=2), "threshold", lambda: 60_000)
    assert (list(run.start_ms), run.actions, run.paid_ms) == ([], [], 3_600_000)


def test_a_trace_that_can_never_be_served_or_is_out_of_order_is_refused() -> None:
    with pytest.raises(UnusableTrace, match="1 requests wait for ever"):
        simulate([(0, 1)], Limits(min_nodes=0, max_nodes=0), "threshold", lambda: 0)
    with pytest.raises(UnusableTrace, match="4 ms follows one at 5 ms"):
        simulate([(5, 1), (4, 1)], Limits(), "threshold", lambda: 0)
