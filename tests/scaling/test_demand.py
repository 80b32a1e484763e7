from __future__ import annotations

from math import exp

import pytest

from proxy.scaling.demand import Demand


def test_with_no_knowledge_it_is_careful() -> None:
    demand = Demand(90)
    assert demand.run == 90  # so that two requests want a node
    assert demand.start == 60
    assert demand.allowance == 90
    assert demand.keep_alive == 120
    assert demand.rate(1000) == 0


def test_everything_is_in_the_callers_unit() -> None:
    demand = Demand(90_000, ticks_per_sec=1000)
    assert (demand.run, demand.start, demand.keep_alive) == (90_000, 60_000, 120_000)
    for instant in range(0, 120_000, 1000):
        demand.joined(instant)
    assert demand.rate(119_999) == pytest.approx((120 - 120**0.5) / 120_000, rel=0.01)


def test_runs_and_starts_are_the_means_of_the_recent_ones() -> None:
    demand = Demand(60)
    for run in (10, 20, 30):
        demand.ended(run)
    assert demand.run == pytest.approx(20)
    for start in (100, 200):
        demand.started(start)
    assert demand.start == pytest.approx(150)
    for _ in range(1000):
        demand.ended(5)
        demand.started(40)
    assert demand.run == pytest.approx(5, rel=0.1)
    assert demand.start == pytest.approx(40, rel=0.01)


def test_runs_of_no_time_at_all_divide_nothing_by_zero() -> None:
    demand = Demand(60)
    demand.ended(0)
    assert demand.run > 0


def test_the_allowance_rests_where_few_wait_too_long() -> None:
    demand = Demand(60)
    for _ in range(10):  # 35 in 1000 too long: it stays where it is
        for number in range(1000):
            demand.granted(61 if number % 200 < 7 else 60, 0)
    assert demand.allowance == pytest.approx(60, rel=0.15)
    for _ in range(100):  # each one too long: it falls, but not for ever
        demand.granted(61, 0)
    assert 60 * exp(-1.2) < demand.allowance < 60 * exp(-0.8)
    for _ in range(1000):
        demand.granted(61, 0)
    assert demand.allowance == pytest.approx(60 * exp(-2))
    for _ in range(10_000):
        demand.granted(1, 0)
    assert demand.allowance == pytest.approx(60 * exp(0.5))


def test_waits_teach_nothing_while_no_more_nodes_may_be() -> None:
    demand = Demand(60)
    demand.limited(True)
    for _ in range(100):
        demand.granted(1000, 0)
    assert demand.allowance == 60
    demand.limited(False)
    demand.granted(1000, 0)
    assert demand.allowance < 60


def test_the_rate_is_of_the_last_two_minutes_and_of_what_is_certain() -> None:
    demand = Demand(60)
    demand.joined(0)
    assert demand.rate(0) == 0  # one arrival is no rate
    for instant in range(1, 121):
        demand.joined(instant)
    assert 0.85 < demand.rate(120) < 0.95
    assert 0.3 < demand.rate(180) < 0.5
    assert demand.rate(250) == 0


def test_the_first_arrivals_are_not_taken_for_a_flood() -> None:
    demand = Demand(60)
    for _ in range(4):
        demand.joined(1000)
    assert demand.rate(1000) == pytest.approx((4 - 2) / 30)


@pytest.mark.parametrize(("gap", "starts"), [(70, 1.5), (200, 4.5), (100_000, 1)])
def test_the_keep_alive_is_what_costs_least(gap: float, starts: float) -> None:
    """Idle for 70 s again and again: kept as long; for hours: stopped as soon as that is no loss. A start of 60 s
    costs 180 s here: it is waited for, and that is twice as long as may be."""
    demand = Demand(30)
    demand.started(60)
    for _ in range(19):
        demand.granted(0, gap)
    assert demand.keep_alive == 120  # too few to tell
    demand.granted(0, gap)
    assert demand.keep_alive == starts * 60


def test_what_was_stopped_too_soon_counts_once_it_is_asked_for_again() -> None:
    demand = Demand(30)
    demand.started(60)
    for time in range(0, 25_000, 1000):
        demand.stopped(time)
        demand.stopped(time - 50)
        demand.asked(time + 150, 1)  # in place of the one that was stopped last
        assert len(demand._stopped) <= 64
    assert demand.keep_alive == 4.5 * 60
    demand.asked(26_000, 1000)
    assert not demand._stopped


def test_a_target_of_nothing_makes_starts_dear() -> None:
    demand = Demand(0)
    for _ in range(20):
        demand.granted(0, 300)
    assert demand.keep_alive == 360


def test_a_million_arrivals_take_no_more_room_than_a_hundred() -> None:
    demand = Demand(60)
    for number in range(10_000):
        demand.joined(number / 10)
    assert len(demand._arrivals) <= 24
