"""The figures of a run whose waits and nodes are known."""

from __future__ import annotations

import pytest

from proxy.scaling.figures import figures_of, percentile
from proxy.scaling.rules import Limits
from proxy.scaling.simulate import simulate


def test_percentiles_are_linear_between_neighbours() -> None:
    assert [percentile([0, 10, 20, 30], percent) for percent in (0, 50, 95, 100)] == [0, 15, 28.5, 30]
    assert percentile([7], 99) == 7
    assert percentile([], 50) == 0


def test_figures_of_a_run() -> None:
    trace = [(0, 60_000), (0, 60_000), (0, 60_000)]  # one node: waits of 0, 60 and 120 s
    run = simulate(trace, Limits(min_nodes=1, max_nodes=1), "threshold", lambda: 60_000, drain_ms=0)
    figures = figures_of(run, limit_wait_secs=60, price_per_hour=3)
    assert (figures.requests, figures.wait_p50, figures.wait_max) == (3, 60, 120)
    assert figures.wait_p95 == pytest.approx(114)
    assert figures.late_share == pytest.approx(1 / 3)
    assert (figures.paid_hours, figures.useful_hours, figures.utilisation) == (0.05, 0.05, 1)
    assert (figures.peak_nodes, figures.starts, figures.actions) == (1, 0, 0)
    assert figures.cost == pytest.approx(0.15)
    assert figures_of(run, limit_wait_secs=60, price_per_hour=None).cost is None


def test_nodes_that_were_started_are_counted() -> None:
    trace = [(0, 600_000)] * 30
    run = simulate(trace, Limits(min_nodes=0, max_nodes=4), "threshold", lambda: 60_000)
    figures = figures_of(run, limit_wait_secs=60, price_per_hour=None)
    assert figures.starts == figures.peak_nodes == 4
    assert figures.actions >= 2
