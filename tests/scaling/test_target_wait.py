"""`target_wait`, one sentence at a time. `test_rules_promises.py` holds what every policy keeps."""

from __future__ import annotations

from proxy.scaling.demand import Demand
from proxy.scaling.rules import Action, Down, Limits, Memory, Seen, SeenNode, Up, decide
from tests.scaling.test_rules import NOW, fleet, idle, quiet, waiting

LIMITS = Limits(min_nodes=1, max_nodes=10)


def demand(*, target: float = 60, run: float = 30, start: float = 60) -> Demand:
    known = Demand(target)
    known.ended(run)
    known.started(start)
    return known


def decided(seen: Seen, known: Demand, limits: Limits = LIMITS) -> tuple[Action, ...]:
    return decide("target_wait", seen, Memory(NOW, NOW), limits, NOW, known)


def test_as_many_nodes_as_the_tail_needs_whatever_the_cooldown() -> None:
    seen = waiting(11, fleet("busy"), running=1)
    reason = (
        "12 waiting or running, 3.0 to a node: runs 30.0 s, mean wait 60.0 s allowed for a target of 60 s"
    )
    assert decided(seen, demand()) == (Up(3, reason, "target"),)


def test_starting_nodes_count_so_that_none_is_ordered_twice() -> None:
    assert decided(waiting(11, fleet("busy", "starting", "starting", "starting"), running=1), demand()) == ()


def test_unready_and_draining_nodes_serve_nobody() -> None:
    nodes = fleet("busy", "starting", "unready", "draining")
    (up,) = decided(waiting(11, nodes, running=1), demand())
    assert up.count == 2


def test_never_past_the_ceiling() -> None:
    (up,) = decided(waiting(500, fleet("busy", "unready", "draining"), running=1), demand())
    assert up.count == 7


def test_without_any_node_it_is_cold() -> None:
    (up,) = decided(waiting(1, []), Demand(60), Limits(min_nodes=0))
    assert isinstance(up, Up)
    assert (up.count, up.cause) == (1, "cold")


def test_what_the_floor_asks_for_counts() -> None:
    floor, up = decided(waiting(12, []), demand(), Limits(min_nodes=2, max_nodes=10))
    assert (floor.count, up.count) == (2, 2)


def test_a_line_that_will_grow_until_a_new_node_is_ready() -> None:
    known = demand(start=180)
    for second in range(120):
        known.joined(NOW - 119 + second)
    (up,) = decided(waiting(3, fleet("busy", "busy"), running=2), known, Limits(max_nodes=100))
    # 5 + 0.884/s x 180 s - 2 nodes x 180 s / 30 s = 152.2, 3 to a node
    assert up.count == 49
    assert up.reason.startswith("152.2 expected in 180 s, 3.0 to a node")


def test_as_many_as_arrivals_keep_busy() -> None:
    known = demand(target=600, run=60, start=1)
    for second in range(120):
        known.joined(NOW - 119 + second)
    (up,) = decided(waiting(3, fleet("busy", "busy"), running=2), known, Limits(max_nodes=100))
    assert (up.count, up.reason) == (52, "0.88 arrivals/s of 60.0 s keep 54 nodes busy")


def test_an_idle_node_goes_after_its_keep_alive_whatever_the_cooldown() -> None:
    known = demand()  # a keep-alive of 120 s
    assert decided(quiet(idle(NOW - 120, NOW)), known) == ()
    reason = "idle 121.0 s > 120.0 s, by what starts cost and how soon nodes are needed"
    assert decided(quiet(idle(NOW - 121, NOW)), known) == (Down((1,), reason, "idle"),)


def test_the_longest_idle_go_first_all_at_once_and_the_floor_stays() -> None:
    (down,) = decided(quiet(idle(NOW - 200, NOW - 400, NOW - 300)), demand())
    assert isinstance(down, Down)
    assert down.numbers == (2, 3)


def test_an_unready_one_may_go_at_the_floor() -> None:
    nodes = fleet("idle", "unready", used=NOW - 300)
    (down,) = decided(quiet(nodes), demand())
    assert isinstance(down, Down)
    assert down.numbers == (2,)


def test_as_many_stay_as_those_that_run_need() -> None:
    nodes = [SeenNode(number, "busy", NOW) for number in range(1, 7)] + [SeenNode(7, "idle", NOW - 300)]
    assert decided(quiet(nodes, running=6), demand()) != ()
    assert decided(quiet(nodes, running=6), demand(run=1000), Limits(min_nodes=1, max_nodes=10)) != ()
    few = [SeenNode(1, "busy", NOW), SeenNode(2, "idle", NOW - 300)]
    assert decided(quiet(few, running=5), demand()) == ()


def test_nothing_goes_while_something_waits() -> None:
    assert decided(waiting(1, idle(NOW - 300, NOW - 300), running=0), demand()) == ()
