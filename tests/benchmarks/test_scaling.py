"""The comparison of policies: what is possible at least, others' rules, the goals, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scaling.clairvoyant import zero_wait_cost_ms
from benchmarks.scaling.goals import Outcome, State, verdicts
from benchmarks.scaling.rivals import CHECK_INTERVAL_MS, Knative, QueueDelay, RequestCount
from proxy.scaling.figures import Figures
from proxy.scaling.rules import Action, Down, Limits, Seen, Up
from proxy.scaling.simulate import Rule, Run, simulate

SEC = 1000
MAKERS: dict[str, Callable[[int, int], Rule]] = {
    "knative": Knative,
    "queue delay": QueueDelay,
    "request count": RequestCount,
}
TRACES = st.lists(st.tuples(st.integers(0, 400_000), st.integers(1, 60_000)), min_size=1, max_size=40).map(
    sorted
)


class CheckedAlways:
    """A rule that is asked at every check."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def decide(self, seen: Seen, now: int) -> tuple[Action, ...]:
        return self._rule.decide(seen, now)

    def next_change(self, seen: Seen, now: int) -> float:
        return now


def run(trace: list[tuple[int, int]], rule: Rule, start_ms: int = 30 * SEC, most: int = 5) -> Run:
    limits = Limits(min_nodes=1, max_nodes=most)
    return simulate(
        trace, limits, rule, lambda: start_ms, check_interval_ms=CHECK_INTERVAL_MS, drain_ms=300 * SEC
    )


# what is possible at least


@pytest.mark.parametrize(
    ("trace", "floor", "cost_secs"),
    [
        ([(0, 10 * SEC)], 1, 100),
        ([(0, 10 * SEC)], 0, 60 + 10),
        ([(0, 10 * SEC), (0, 10 * SEC)], 1, 100 + 60 + 10),
        ([(0, 10 * SEC), (20 * SEC, 10 * SEC)], 0, 60 + 10 + 10 + 10),
        ([(0, 10 * SEC), (500 * SEC, 10 * SEC)], 0, 60 + 10 + 60 + 10),
        ([(0, 10 * SEC), (10 * SEC, 10 * SEC)], 0, 60 + 20),
    ],
    ids=["floor", "no floor", "at once", "idling is shorter", "starting is shorter", "back to back"],
)
def test_the_clairvoyant_pays_for_runs_and_the_shorter_of_idling_and_starting(
    trace: list[tuple[int, int]], floor: int, cost_secs: int
) -> None:
    drain_ms = max(0, 100 * SEC - trace[-1][0])

    assert zero_wait_cost_ms(trace, 60 * SEC, floor, drain_ms=drain_ms) == cost_secs * SEC


# others' rules


@given(trace=TRACES, start_ms=st.integers(1, 90_000), name=st.sampled_from(sorted(MAKERS)))
def test_a_check_that_is_skipped_would_have_done_nothing(
    trace: list[tuple[int, int]], start_ms: int, name: str
) -> None:
    make = MAKERS[name]

    skipping = run(trace, make(1, 5), start_ms)
    always = run(trace, CheckedAlways(make(1, 5)), start_ms)

    assert skipping.actions == always.actions
    assert skipping.start_ms == always.start_ms


@given(trace=TRACES, start_ms=st.integers(1, 90_000), name=st.sampled_from(sorted(MAKERS)))
def test_floor_and_ceiling_hold(trace: list[tuple[int, int]], start_ms: int, name: str) -> None:
    done = run(trace, MAKERS[name](1, 5), start_ms)

    nodes = 1
    for _, action in done.actions:
        nodes += action.count if isinstance(action, Up) else -action.count
        assert 1 <= nodes <= 5
    assert len(done.wait_ms) == len(trace)


def test_knative_panics_within_its_short_window_and_shrinks_after_its_long_one() -> None:
    done = run([(0, 20 * SEC)] * 4, Knative(1, 20), start_ms=SEC, most=20)

    first_at, first = done.actions[0]
    assert first_at == 0
    assert first == Up(5, "concurrency 4.00 wants 6 nodes", "count")  # 4 / 0.7
    downs = [at for at, action in done.actions if isinstance(action, Down)]
    assert downs
    assert min(downs) > 60 * SEC
    assert sum(action.count for _, action in done.actions if isinstance(action, Down)) == 5


def test_knative_wants_a_second_node_for_one_long_request() -> None:
    """1 of 1 node is 1.4 times its 70 %: two nodes are wanted, which is 200 % of what is ready."""
    done = run([(120 * SEC, 200 * SEC)], Knative(1, 20), start_ms=SEC, most=20)

    at, action = done.actions[0]
    assert isinstance(action, Up)
    assert action.count == 1
    assert at == 120 * SEC + 4 * SEC  # the first tick at which 6 s hold more than 0.7 on average


def test_queue_delay_adds_a_worker_for_each_that_waits_once_the_oldest_is_late() -> None:
    done = run([(0, 60 * SEC)] * 3, QueueDelay(1, 20), start_ms=10 * SEC, most=20)

    assert done.actions[0] == (5 * SEC, Up(2, "2 waiting, the oldest for 5.0 s", "count"))
    assert [action.count for _, action in done.actions if isinstance(action, Up)] == [2]
    assert list(done.start_ms) == [0, 15 * SEC, 15 * SEC]
    first_down = next((at, action) for at, action in done.actions if isinstance(action, Down))
    assert first_down[0] == 65 * SEC  # idle since 60 s


@pytest.mark.parametrize(("scaler_value", "more"), [(4, 1), (1, 4)])
def test_request_count_divides_what_waits_and_runs(scaler_value: int, more: int) -> None:
    done = run([(0, 60 * SEC)] * 5, RequestCount(1, 20, scaler_value), start_ms=10 * SEC, most=20)

    assert done.actions[0] == (0, Up(more, f"5 waiting or running want {more + 1} nodes", "count"))


# the goals


def outcome(policy: str, p95: float, hours: float, starts: int = 0) -> Outcome:
    return Outcome(
        policy,
        Figures(
            requests=1,
            wait_p50=0,
            wait_p95=p95,
            wait_p99=p95,
            wait_max=p95,
            late_share=0,
            paid_hours=hours,
            useful_hours=0,
            utilisation=0,
            peak_nodes=1,
            starts=starts,
            actions=0,
            cost=None,
        ),
    )


def states(own: Outcome, rivals: list[Outcome], is_diffusion: bool = True) -> list[State]:
    told = dict.fromkeys(("threshold", "start", *(rival.policy for rival in rivals)), own)
    found = verdicts(
        outcome("threshold", 50, 100),
        told,
        rivals,
        clairvoyant_hours=60,
        node_start_secs=60,
        is_diffusion=is_diffusion,
    )
    return [verdict.state for verdict in found]


@pytest.mark.parametrize(
    ("p95", "hours", "expected"),
    [
        (30, 64, ["reached", "reached"]),
        (31, 64, ["reached", "missed"]),
        (30, 70, ["reached", "missed"]),
        (30, 76, ["missed", "missed"]),
        (51, 60, ["missed", "missed"]),
    ],
)
def test_the_threshold_and_the_clairvoyant(p95: float, hours: float, expected: list[State]) -> None:
    assert states(outcome("target_wait", p95, hours), []) == expected


def test_other_than_diffusion_traces_may_cost_a_fifth_more_than_the_clairvoyant() -> None:
    assert states(outcome("target_wait", 30, 72), [], is_diffusion=False) == ["reached"]
    assert states(outcome("target_wait", 30, 73), [], is_diffusion=False) == ["missed"]


@pytest.mark.parametrize(
    ("rival", "expected"),
    [
        (outcome("knative", 40, 80, starts=20), "reached"),
        (outcome("knative", 40, 80, starts=19), "missed"),
        (outcome("knative", 20, 80, starts=20), "frontier"),
        (outcome("queue delay 4 s", 20, 80, starts=1), "frontier"),
        (outcome("queue delay 4 s", 20, 50, starts=1), "missed"),
    ],
)
def test_a_rival(rival: Outcome, expected: State) -> None:
    assert states(outcome("target_wait", 30, 64, starts=10), [rival])[-1] == expected


# the command


def test_the_command_prints_the_table_and_writes_it(tmp_path: Path) -> None:
    lines = [f"{second},{7 + second % 5}" for second in range(0, 1200, 6)]
    (tmp_path / "sd_small.csv").write_text("\n".join(["arrival_s,service_s", *lines]))
    (tmp_path / "quantiles.csv").write_text("quantile,seconds\n0,1\n1,2\n")
    written = tmp_path / "figures.json"

    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.scaling",
            "--traces",
            tmp_path,
            "--targets",
            "10",
            "--json",
            written,
        ],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ended.returncode == 0, ended.stderr
    assert "clairvoyant" in ended.stdout
    comparisons = json.loads(written.read_text())
    assert [each["node_start_secs"] for each in comparisons] == [60, 180]
    for each in comparisons:
        assert each["trace"] == "sd_small"
        assert len(each["verdicts"]) == 6
        assert {outcome["figures"]["requests"] for outcome in each["outcomes"]} == {len(lines)}
        assert each["clairvoyant_hours"] >= sum(7 + second % 5 for second in range(0, 1200, 6)) / 3600


def test_the_command_refuses_what_is_no_trace(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.scaling", "--traces", tmp_path],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ended.returncode == 1
    assert "no trace in" in ended.stderr
