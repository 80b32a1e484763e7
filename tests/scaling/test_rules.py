"""The rules of DESIGN 4.4, one sentence at a time. `test_rules_promises.py` holds what is always true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.scaling.rules import Action, Down, Limits, Memory, Policy, Seen, SeenNode, Up, decide, next_change

LIMITS = Limits(min_nodes=1, max_nodes=10)
NOTHING_YET = Memory()
NOW = 10_000.0


def fleet(*states: str, used: float = NOW, unready_since: float = NOW - 60) -> list[SeenNode]:
    """Nodes numbered from 1; those that have been ready were last used then, unready ones are so since then."""
    return [
        SeenNode(
            number,
            state,
            None if state == "starting" else used,
            unready_since if state == "unready" else None,
        )
        for number, state in enumerate(states, 1)
    ]


def waiting(length: int, nodes: list[SeenNode], *, wait: float = 0.0, running: int = 0) -> Seen:
    return Seen(queue_length=length, oldest_wait=wait, running=running, nodes=nodes)


def quiet(nodes: list[SeenNode], *, running: int = 0) -> Seen:
    return Seen(queue_length=0, oldest_wait=0.0, running=running, nodes=nodes)


def idle(*used: float) -> list[SeenNode]:
    return [SeenNode(number, "idle", instant) for number, instant in enumerate(used, 1)]


def decided(
    seen: Seen,
    *,
    limits: Limits = LIMITS,
    memory: Memory = NOTHING_YET,
    policy: Policy = "threshold",
) -> tuple[Action, ...]:
    return decide(policy, seen, memory, limits, NOW)


# up


def test_cold_creates_at_once_whatever_the_cooldown() -> None:
    just_now = Memory(last_up_at=NOW)
    limits = replace(LIMITS, min_nodes=0)
    assert decided(waiting(1, []), limits=limits, memory=just_now) == (Up(1, "no node, 1 waiting", "cold"),)


def test_a_draining_node_is_none() -> None:
    (up,) = decided(waiting(1, fleet("draining")), limits=replace(LIMITS, min_nodes=0))
    assert isinstance(up, Up)
    assert up.cause == "cold"


@pytest.mark.parametrize("state", ["starting", "idle", "busy", "unready"])
def test_with_a_node_it_is_not_cold(state: str) -> None:
    assert decided(waiting(1, fleet(state)), limits=replace(LIMITS, min_nodes=0)) == ()


def test_the_oldest_has_waited_long_enough() -> None:
    nodes = fleet("busy")
    assert decided(waiting(8, nodes, wait=119.9)) == ()
    assert decided(waiting(8, nodes, wait=120.0)) == (Up(4, "wait 120.0 s >= 120 s", "wait"),)
    assert decided(waiting(8, nodes, wait=121.04)) == (Up(4, "wait 121.0 s >= 120 s", "wait"),)


def test_too_many_wait() -> None:
    nodes = fleet("busy")
    assert decided(waiting(10, nodes)) == ()
    assert decided(waiting(11, nodes)) == (Up(5, "length 11 > 10", "count"),)


def test_one_waiting_is_worth_one_node() -> None:
    (up,) = decided(waiting(1, fleet("busy"), wait=120.0))
    assert up.count == 1


def test_a_cooldown_ends_exactly_when_it_is_over() -> None:
    seen = waiting(11, fleet("busy"))
    assert decided(seen, memory=Memory(last_up_at=NOW - 29.9)) == ()
    assert decided(seen, memory=Memory(last_up_at=NOW - 30)) != ()


@pytest.mark.parametrize(("paid", "created"), [(8, 2), (9, 1), (10, 0), (11, 0)])
def test_every_node_that_is_paid_counts_against_the_most(paid: int, created: int) -> None:
    states = ("busy", "starting", "unready", "draining") * 3
    actions = decided(waiting(40, fleet(*states[:paid])))
    assert sum(action.count for action in actions) == created


# the floor


@pytest.mark.parametrize(
    ("states", "missing"),
    [
        ((), 3),
        (("idle", "starting"), 1),
        (("busy", "idle", "starting"), 0),
        (("busy", "idle", "unready"), 1),
        (("busy", "idle", "draining"), 1),
    ],
)
def test_the_floor_is_made_of_ready_and_starting_nodes(states: tuple[str, ...], missing: int) -> None:
    actions = decided(quiet(fleet(*states)), limits=replace(LIMITS, min_nodes=3))
    assert sum(action.count for action in actions) == missing
    assert all(isinstance(action, Up) and action.cause == "floor" for action in actions)


def test_the_floor_says_what_is_missing() -> None:
    assert decided(quiet([])) == (Up(1, "0 ready or starting < min_nodes 1", "floor"),)


def test_no_floor_for_no_minimum() -> None:
    assert decided(quiet([]), limits=replace(LIMITS, min_nodes=0)) == ()


def test_a_node_unready_for_a_moment_still_counts_for_the_floor() -> None:
    assert decided(quiet(fleet("unready", unready_since=NOW - 9.9))) == ()
    assert decided(quiet(fleet("unready", unready_since=NOW - 10))) != ()


def test_the_floor_never_exceeds_the_most() -> None:
    limits = replace(LIMITS, min_nodes=3, max_nodes=3)
    assert decided(quiet(fleet("unready", "draining", "idle")), limits=limits) == ()


def test_the_floor_has_no_cooldown_and_warms_what_was_cold() -> None:
    assert [action.count for action in decided(waiting(1, []), memory=Memory(NOW, NOW))] == [1]


def test_a_burst_at_the_start_gets_the_floor_and_half_of_its_length_within_the_most() -> None:
    assert [(action.count, action.cause) for action in decided(waiting(12, []))] == [
        (1, "floor"),
        (6, "count"),
    ]
    assert [action.count for action in decided(waiting(40, []))] == [1, 9]


# down


def test_an_idle_node_goes_when_it_has_been_idle_for_longer() -> None:
    assert decided(quiet(idle(NOW - 180, NOW))) == ()
    assert decided(quiet(idle(NOW - 180.1, NOW))) == (Down((1,), "idle 180.1 s > 180 s", "idle"),)


def test_nothing_goes_while_anything_waits() -> None:
    assert decided(waiting(1, idle(0, 0))) == ()


@pytest.mark.parametrize("state", ["busy", "starting", "draining"])
def test_only_idle_and_unready_nodes_go(state: str) -> None:
    seen = quiet([*idle(NOW), SeenNode(2, state, 0.0)])
    assert decided(seen) == ()


def test_the_longest_idle_go_first_and_ties_by_number() -> None:
    limits = replace(LIMITS, max_scale_down_nodes=3)
    (down,) = decided(quiet(idle(40, 30, 20, 30, NOW)), limits=limits)
    assert down == Down((3, 2, 4), "idle 9980.0 s > 180 s", "idle")
    assert down.count == 3


def test_at_least_the_minimum_of_ready_nodes_stays() -> None:
    limits = replace(LIMITS, min_nodes=2, max_scale_down_nodes=10)
    assert [action.count for action in decided(quiet(idle(0, 0, 0, 0)), limits=limits)] == [2]
    assert decided(quiet(idle(0, 0)), limits=limits) == ()


def test_busy_nodes_are_ready_ones_and_starting_ones_are_not() -> None:
    assert decided(quiet([*idle(0), SeenNode(2, "busy", 0.0)], running=1)) != ()
    assert decided(quiet([*idle(0), SeenNode(2, "starting")])) == ()


def test_an_unready_node_goes_at_the_floor_too() -> None:
    nodes = [*idle(0), SeenNode(2, "unready", 100.0, 200.0)]
    assert decided(quiet(nodes)) == (Down((2,), "unready 9900.0 s > 180 s", "unready"),)


def test_idle_and_unready_nodes_share_the_most_that_go_at_once() -> None:
    nodes = [*idle(0, NOW), SeenNode(3, "unready", 100.0, 200.0), SeenNode(4, "unready", 150.0, 200.0)]
    limits = replace(LIMITS, max_scale_down_nodes=2)
    (down,) = decided(quiet(nodes), limits=limits)
    assert down == Down((1, 3), "idle 10000.0 s > 180 s", "idle")


def test_a_scale_down_waits_for_the_last_one() -> None:
    seen = quiet(idle(0, 0))
    assert decided(seen, memory=Memory(last_down_at=NOW - 179.9)) == ()
    assert decided(seen, memory=Memory(last_down_at=NOW - 180)) != ()


# per_request


@pytest.mark.parametrize(
    ("length", "running", "created"),
    [(11, 2, 8), (20, 2, 8), (11, 0, 8), (1, 2, 1), (4, 2, 4)],
)
def test_per_request_is_one_node_for_each_request_and_one_more_at_least(
    length: int, running: int, created: int
) -> None:
    seen = waiting(length, fleet("busy", "starting"), wait=120.0, running=running)
    assert [action.count for action in decided(seen, policy="per_request")] == [created]


def test_per_request_has_the_same_triggers_and_cooldown() -> None:
    nodes = fleet("busy")
    assert decided(waiting(10, nodes, wait=119), policy="per_request") == ()
    assert decided(waiting(11, nodes), policy="per_request", memory=Memory(last_up_at=NOW - 1)) == ()


def test_per_request_goes_straight_to_the_minimum() -> None:
    nodes = [*idle(3, 1, 2), SeenNode(4, "unready", 0.0, 0.0)]
    assert decided(quiet(nodes), policy="per_request") == (Down((4, 2, 3), "idle 10000.0 s > 180 s", "idle"),)


@pytest.mark.parametrize(
    "other", [SeenNode(9, "busy", 0.0), SeenNode(9, "starting"), SeenNode(9, "idle", NOW - 180)]
)
def test_per_request_goes_down_only_when_every_node_is_idle_for_long(other: SeenNode) -> None:
    assert decided(quiet([*idle(0, 0), other]), policy="per_request") == ()


def test_per_request_never_goes_down_while_anything_runs() -> None:
    assert decided(quiet(idle(0, 0), running=1), policy="per_request") == ()


# what is remembered, and when it may change


def test_a_scale_up_and_a_scale_down_are_remembered_and_the_floor_is_neither() -> None:
    memory = Memory(1.0, 2.0)
    assert memory.after(Up(1, "", "cold"), NOW) == Memory(NOW, 2.0)
    assert memory.after(Up(1, "", "floor"), NOW) == memory
    assert memory.after(Down((1,), "", "idle"), NOW) == Memory(1.0, NOW)


def test_milliseconds_are_as_good_as_seconds() -> None:
    limits = replace(LIMITS, ticks_per_sec=1000)
    seen = waiting(8, [SeenNode(1, "busy", 0)], wait=121_000)
    assert decide("threshold", seen, NOTHING_YET, limits, 500_000) == (
        Up(4, "wait 121.0 s >= 120 s", "wait"),
    )


def test_the_next_change_is_the_first_limit_that_is_still_to_come() -> None:
    assert next_change(waiting(1, fleet("busy"), wait=20), Memory(NOW - 5, NOW), LIMITS, NOW) == NOW + 25
    assert next_change(waiting(1, fleet("busy"), wait=110), Memory(NOW - 5, NOW), LIMITS, NOW) == NOW + 10
    assert next_change(waiting(1, fleet("busy"), wait=130), NOTHING_YET, LIMITS, NOW) is None
    assert next_change(quiet(idle(NOW - 80, NOW)), Memory(NOW, NOW - 90), LIMITS, NOW) == NOW + 90
    assert (
        next_change(quiet([*idle(NOW - 80), SeenNode(2, "starting")]), NOTHING_YET, LIMITS, NOW) == NOW + 100
    )
    assert next_change(quiet(fleet("unready", unready_since=NOW - 3)), NOTHING_YET, LIMITS, NOW) == NOW + 7
