"""Starts that fail and nodes that die, as the real proxy takes them: nothing is lost, every paid second is counted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat
from typing import TypeVar, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.scaling.failures import Failures, failures_by_chance
from proxy.scaling.rules import Down, Limits, Policy, Up
from proxy.scaling.simulate import Life, Run, simulate
from proxy.scaling.traces import UnusableTrace
from tests.scaling.test_simulate import golden_form, traces

T = TypeVar("T")


def in_turn(*first: T, then: T) -> Callable[[], T]:
    """Each call gives the next one."""
    values = chain(first, repeat(then))
    return lambda: next(values)


def one_node(trace: list[tuple[int, int]], failures: Failures, *, min_nodes: int = 0) -> Run:
    limits = Limits(min_nodes=min_nodes, max_nodes=1)
    return simulate(trace, limits, "threshold", lambda: 60_000, failures=failures)


def test_a_start_that_fails_is_paid_until_its_time_is_up_and_asked_for_again_after_the_back_off() -> None:
    failures = Failures(fails_to_start=in_turn(True, then=False), start_timeout_ms=100_000)
    run = one_node([(2_000, 1_000)], failures)
    # Given up at the first check after 102 s; 3.75 s (the shortest first back-off) later it is tried again.
    assert run.nodes[0] == Life(2_000, None, None, 105_000)
    assert [at for at, action in run.actions if isinstance(action, Up)] == [2_000, 110_000]
    assert list(run.start_ms) == [170_000]
    assert (run.failed_starts, run.cut_ms) == (1, {})


def test_a_start_that_is_too_slow_is_a_failed_one_unless_it_is_ready_at_that_check() -> None:
    for slow_ms, failed in ((105_000, 0), (105_001, 1)):
        draw = in_turn(slow_ms, then=1_000)
        run = simulate(
            [(0, 1)], Limits(min_nodes=0), "threshold", draw, failures=Failures(start_timeout_ms=100_000)
        )
        assert run.failed_starts == failed
        assert run.nodes[0].gone_ms == 105_000 or not failed
        assert list(run.start_ms) == [111_000 if failed else 105_000]


def test_nodes_that_can_never_start_are_told_of_and_not_tried_for_ever() -> None:
    with pytest.raises(UnusableTrace, match="2000 starts of nodes in a row failed or took too long"):
        one_node([(0, 1)], Failures(start_timeout_ms=30_000))


def test_starts_that_go_on_failing_are_tried_ever_later_and_one_that_works_ends_that() -> None:
    failures = Failures(
        fails_to_start=in_turn(True, True, True, then=False), jitter=lambda: 1.0, start_timeout_ms=1
    )
    run = simulate([(0, 1_000)], Limits(min_nodes=0, max_nodes=1), "threshold", lambda: 0, failures=failures)
    given_up = [life.gone_ms for life in run.nodes[:3]]
    asked = [life.created_ms for life in run.nodes]
    assert asked == [0, 10_000, 25_000, 50_000]
    assert [after - before for before, after in zip(given_up, asked[1:], strict=True)] == [
        5_000,
        10_000,
        20_000,
    ]


def test_the_run_of_a_node_that_dies_failed_and_is_not_served_again() -> None:
    failures = Failures(life_ms=in_turn(20_000, then=None), unready_destroy_ms=30_000)
    run = one_node([(0, 15_000), (1_000, 15_000), (2_000, 10_000)], failures, min_nodes=1)
    # The second one runs from 15 s on; the dead node is paid until the first check after 50 s, and only then,
    # with one node at most, another one is made.
    assert run.cut_ms == {1: 20_000}
    assert run.nodes[0] == Life(0, 0, 20_000, 55_000)
    assert (run.nodes[1].created_ms, run.nodes[1].ready_ms) == (55_000, 115_000)
    assert list(run.start_ms) == [0, 15_000, 115_000]
    assert run.busy_ms == 25_000


def test_an_idle_node_that_dies_costs_no_request_and_is_replaced_after_the_grace_of_the_floor() -> None:
    failures = Failures(life_ms=in_turn(20_000, then=None))
    run = simulate(
        [(0, 1), (600_000, 1)],
        Limits(min_nodes=1, max_nodes=2),
        "threshold",
        lambda: 60_000,
        failures=failures,
    )
    assert next(golden_form(run.actions)) == [30_000, "up", 1]
    assert run.actions[0][1].cause == "floor"
    assert run.cut_ms == {}
    assert list(run.wait_ms) == [0, 0]


@given(
    trace=traces,
    limits=st.builds(Limits, min_nodes=st.integers(0, 2), max_nodes=st.integers(2, 6)),
    policy=st.sampled_from(get_args(Policy)),
    share=st.sampled_from((0.0, 0.3, 0.8)),
    deaths=st.sampled_from((0.0, 1.0, 60.0)),
    seed=st.integers(0, 3),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_nothing_is_lost_and_every_paid_second_is_counted(
    trace: list[tuple[int, int]], limits: Limits, policy: Policy, share: float, deaths: float, seed: int
) -> None:
    def replay() -> Run:
        failures = failures_by_chance(
            failed_start_share=share,
            deaths_per_node_hour=deaths,
            seed=seed,
            start_timeout_secs=900,
            unready_destroy_secs=300,
        )
        return simulate(trace, limits, policy, lambda: 60_000, failures=failures)

    run = replay()
    assert len(run.start_ms) == len(trace)
    assert run.busy_ms == sum(service for place, (_, service) in enumerate(trace) if place not in run.cut_ms)
    assert run.paid_ms == sum(life.gone_ms - life.created_ms for life in run.nodes)
    assert all(life.gone_ms <= run.horizon_ms for life in run.nodes)
    cut_at = sorted(run.cut_ms.values())
    died_at = [life.died_ms for life in run.nodes if life.died_ms is not None]
    assert all(at in died_at for at in cut_at)
    assert len(cut_at) <= len(died_at)
    for place, end in run.cut_ms.items():
        assert run.start_ms[place] <= end <= run.start_ms[place] + trace[place][1]
    alive = [
        sum(life.created_ms <= at < life.gone_ms for life in run.nodes)
        for at in {life.created_ms for life in run.nodes}
    ]
    assert max(alive, default=0) <= limits.max_nodes
    assert not any(
        run.nodes[number].ready_ms is None
        for _, action in run.actions
        if isinstance(action, Down)
        for number in action.numbers
    )
    if not share:
        assert run.failed_starts == 0
    if not deaths:
        assert not died_at
    assert replay() == run


def test_chances_are_as_asked_for_and_a_seed_repeats_them() -> None:
    def draw(seed: int, share: float = 0.25) -> tuple[list[bool], list[int | None]]:
        failures = failures_by_chance(
            failed_start_share=share,
            deaths_per_node_hour=2,
            seed=seed,
            start_timeout_secs=1,
            unready_destroy_secs=1,
        )
        return [failures.fails_to_start() for _ in range(4000)], [failures.life_ms() for _ in range(4000)]

    fails, lives = draw(1)
    assert 900 < sum(fails) < 1100
    assert 0.45 < sum(life for life in lives if life is not None) / 4000 / 3_600_000 < 0.55
    assert draw(1) == (fails, lives) != draw(2)
    assert draw(1, share=0.9)[1] == lives
