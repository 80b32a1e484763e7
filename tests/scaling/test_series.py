"""A run over time: what the buckets say adds up to what the run says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.scaling.failures import Failures, failures_by_chance
from proxy.scaling.rules import Limits
from proxy.scaling.series import Series, round_step, series_of
from proxy.scaling.simulate import Run, simulate
from tests.scaling.test_simulate import traces


def widths(series: Series, run: Run) -> list[int]:
    """Of the buckets, in ms: the last one ends with the run."""
    step = series.step_secs * 1000
    return [min(step, run.horizon_ms - place * step) for place in range(len(series.line_mean))]


def total(values: list[float], series: Series, run: Run) -> float:
    return sum(value * width for value, width in zip(values, widths(series, run), strict=True))


def test_a_run_that_is_known() -> None:
    trace = [(0, 60_000), (0, 60_000), (200_000, 30_000)]
    run = simulate(trace, Limits(max_nodes=1), "threshold", lambda: 60_000, drain_ms=100_000)
    series = series_of(run, [service for _, service in trace], most=5)
    assert series.step_secs == 60
    assert series.line_mean == [1, 0, 0, 0, 0]
    assert series.line_max == [1, 0, 0, 0, 0]
    assert series.nodes["busy"] == [1, 1, 0, 0.5, 0]
    assert series.nodes["idle"] == [0, 0, 1, 0.5, 1]
    assert series.wait_p50 == [30, None, None, 0, None]
    assert series.wait_p95 == [57, None, None, 0, None]


def test_a_node_that_starts_and_one_that_dies() -> None:
    lives = iter((90_000, None))
    failures = Failures(life_ms=lambda: next(lives), unready_destroy_ms=59_999)
    trace = [(0, 1), (60_000, 60_000)]
    run = simulate(
        trace, Limits(max_nodes=2), "threshold", lambda: 60_000, drain_ms=180_000, failures=failures
    )
    series = series_of(run, [1, 60_000], most=4)
    # Dead from 90 s to the check at 150 s, replaced by one that starts 10 s (the floor's grace) later.
    assert series.step_secs == 60
    assert series.nodes["unready"] == [0, 0.5, 0.5, 0]
    assert series.nodes["starting"] == [0, pytest.approx(1 / 3), pytest.approx(2 / 3), 0]
    assert series.nodes["busy"] == [pytest.approx(1 / 60_000), 0.5, 0, 0]


@given(trace=traces, most=st.integers(1, 40), seed=st.integers(0, 2))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_the_buckets_add_up_to_the_run(trace: list[tuple[int, int]], most: int, seed: int) -> None:
    failures = failures_by_chance(
        failed_start_share=0.3,
        deaths_per_node_hour=3,
        seed=seed,
        start_timeout_secs=900,
        unready_destroy_secs=300,
    )
    run = simulate(trace, Limits(max_nodes=4), "threshold", lambda: 60_000, failures=failures)
    series = series_of(run, [service for _, service in trace], most=most)
    assert len(series.line_mean) <= most
    count = len(series.line_mean)
    assert len(series.line_max) == len(series.wait_p95) == count
    assert all(len(values) == count for values in series.nodes.values())
    assert total(series.line_mean, series, run) == pytest.approx(sum(run.wait_ms))
    paid = sum(total(values, series, run) for values in series.nodes.values())
    assert paid == pytest.approx(run.paid_ms)
    joins = [start - wait for start, wait in zip(run.start_ms, run.wait_ms, strict=True)]
    for place, longest in enumerate(series.line_max):
        begin, end = place * series.step_secs * 1000, (place + 1) * series.step_secs * 1000
        instants = [begin, *(join for join in joins if begin <= join < end)]
        waiting = [
            sum(join <= at < start for join, start in zip(joins, run.start_ms, strict=True))
            for at in instants
        ]
        assert longest == max(waiting)


def test_steps_are_round() -> None:
    assert [round_step(secs) for secs in (0.001, 1, 47, 61, 5000, 90_000)] == [1, 1, 60, 120, 7200, 172_800]
    assert round_step(2e9) % 86_400 == 0
    assert round_step(2e9) >= 2e9
