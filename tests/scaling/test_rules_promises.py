"""What the rules always keep, on random ways of a line, its nodes and limits that change meanwhile."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import get_args

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proxy.scaling.demand import Demand
from proxy.scaling.rules import Action, Down, Limits, Memory, Policy, Seen, SeenNode, decide, next_change
from tests.promises import hold

picks = st.integers(0, 10_000)
limits_of_any_kind = st.builds(
    Limits,
    min_nodes=st.integers(0, 4),
    max_nodes=st.integers(4, 8),
    max_scale_down_nodes=st.integers(1, 3),
    scale_down_cooldown_secs=st.sampled_from((0, 30, 180)),
    queue_scale_wait_secs=st.sampled_from((0, 20, 120)),
    queue_scale_count_threshold=st.integers(0, 10),
    idle_shutdown_secs=st.sampled_from((0, 20, 180)),
    scale_up_cooldown_secs=st.sampled_from((0, 30, 60)),
)
STATES = ("idle", "busy", "unready", "draining")
policies = st.sampled_from(get_args(Policy))


def forms(actions: tuple[Action, ...]) -> list[object]:
    """What actions do, without their reasons, whose numbers grow with the time."""
    return [
        action.numbers if isinstance(action, Down) else (action.count, action.cause) for action in actions
    ]


class RulesPromises(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000
        self.limits = Limits()
        self.policy: Policy = "threshold"
        self.memory = Memory()
        self.joined: list[int] = []  # when each of those that wait joined
        self.nodes: dict[int, SeenNode] = {}
        self.created = 0
        self.demand = Demand(60)

    @initialize(
        limits=limits_of_any_kind, policy=policies, states=st.lists(st.sampled_from(STATES), max_size=8)
    )
    def begin(self, limits: Limits, policy: Policy, states: list[str]) -> None:
        self.limits, self.policy = limits, policy
        for state in states:
            self.set(self.create(), state)

    def create(self) -> SeenNode:
        self.created += 1
        self.nodes[self.created] = SeenNode(self.created, "starting")
        return self.nodes[self.created]

    def seen(self, now: int) -> Seen:
        return Seen(
            queue_length=len(self.joined),
            oldest_wait=now - self.joined[0] if self.joined else 0,
            running=self.count("busy"),
            nodes=list(self.nodes.values()),
        )

    def count(self, *states: str) -> int:
        return sum(node.state in states for node in self.nodes.values())

    def pick(self, pick: int, *states: str) -> SeenNode | None:
        nodes = [node for node in self.nodes.values() if node.state in states]
        return nodes[pick % len(nodes)] if nodes else None

    def set(self, node: SeenNode, state: str) -> None:
        used = self.now if node.state == "busy" or node.last_used_at is None else node.last_used_at
        since = self.now if state == "unready" else None
        self.nodes[node.number] = replace(node, state=state, last_used_at=used, unready_since=since)

    def decide(self, now: int) -> tuple[Action, ...]:
        return decide(self.policy, self.seen(now), self.memory, self.limits, now, self.demand)

    @rule(limits=limits_of_any_kind, policy=policies)
    def reload(self, limits: Limits, policy: Policy) -> None:
        self.limits, self.policy = limits, policy

    @rule(seconds=st.sampled_from((1, 5, 20, 60, 200)))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        self.check()

    @rule(count=st.integers(1, 9))
    def join(self, count: int) -> None:
        self.joined += [self.now] * count
        for _ in range(count):
            self.demand.joined(self.now)

    @rule(count=st.integers(1, 20))
    def leave(self, count: int) -> None:
        del self.joined[:count]

    @rule(pick=picks)
    def start(self, pick: int) -> None:
        """The head of the line, or one that did not have to wait."""
        if node := self.pick(pick, "idle"):
            wait = self.now - self.joined.pop(0) if self.joined else 0
            self.demand.granted(wait, self.now - (node.last_used_at or self.now))
            self.set(node, "busy")

    @rule(pick=picks, state=st.sampled_from(("idle", "idle", "unready")))
    def end(self, pick: int, state: str) -> None:
        if node := self.pick(pick, "busy"):
            self.demand.ended(pick % 100)
            self.set(node, state)

    @rule(pick=picks)
    def ready(self, pick: int) -> None:
        if node := self.pick(pick, "starting", "unready"):
            if node.state == "starting":
                self.demand.started(pick % 300)
            self.set(node, "idle")

    @rule(pick=picks)
    def unready(self, pick: int) -> None:
        if node := self.pick(pick, "idle"):
            self.set(node, "unready")

    @rule(pick=picks)
    def gone(self, pick: int) -> None:
        if node := self.pick(pick, "starting", "idle", "busy", "unready", "draining"):
            del self.nodes[node.number]

    @rule(seed=st.integers(0, 1 << 30))
    def night(self, seed: int) -> None:
        """Traffic that ebbs: hypothesis alone rarely lets nodes get old enough to stop."""
        random = Random(seed)
        self.leave(len(self.joined))
        for _ in range(10):
            for step in random.sample((self.start, self.ready, self.ready, self.gone), k=2):
                step(random.randrange(100))
            self.end(random.randrange(100), random.choice(("idle", "idle", "unready")))
            self.time_passes(random.choice((20, 60, 200)))

    @rule()
    def check(self) -> None:
        seen = self.seen(self.now)
        self.demand.limited(self.is_full())
        actions = self.decide(self.now)
        assert [isinstance(action, Down) for action in actions] in (
            [],
            [False],
            [True],
            [False, False],
            [False, True],
        )
        for action in actions:
            assert action.count > 0
            if isinstance(action, Down):
                self.stop(action)
            else:
                assert len(self.nodes) + action.count <= self.limits.max_nodes
                assert seen.queue_length or action.cause in ("floor", "target")
                if self.policy == "target_wait" and action.cause != "floor":
                    self.demand.asked(self.now, action.count)
                for _ in range(action.count):
                    self.create()
            self.memory = self.memory.after(action, self.now)
        assert self.count("idle", "busy", "starting", "unready") or not self.joined or self.is_full(), (
            "still cold"
        )

    def stop(self, down: Down) -> None:
        assert not self.joined
        by_target = self.policy == "target_wait"
        assert (
            by_target
            or self.memory.last_down_at is None
            or self.now - self.memory.last_down_at >= self.limits.scale_down_cooldown_secs
        )
        victims = [self.nodes[number] for number in down.numbers]
        assert {node.state for node in victims} <= {"idle", "unready"}
        used = [node.last_used_at for node in victims if node.last_used_at is not None]
        assert len(used) == len(victims)
        assert used == sorted(used)
        assert self.now - used[-1] > (self.demand.keep_alive if by_target else self.limits.idle_shutdown_secs)
        if any(node.state == "idle" for node in victims):
            ready_after = self.count("idle", "busy") - sum(node.state == "idle" for node in victims)
            assert ready_after >= self.limits.min_nodes
        if self.policy == "threshold":
            assert down.count <= self.limits.max_scale_down_nodes
        elif self.policy == "per_request":
            assert not self.count("busy")
        for instant in used if by_target else ():
            self.demand.stopped(instant)
        for node in victims:
            self.set(node, "draining")

    def is_full(self) -> bool:
        return len(self.nodes) >= self.limits.max_nodes

    @precondition(lambda self: self.nodes or self.joined)
    @invariant()
    def nothing_changes_before_the_next_change(self) -> None:
        demand = self.demand if self.policy == "target_wait" else None
        at = next_change(self.seen(self.now), self.memory, self.limits, self.now, demand)
        same = forms(self.decide(self.now))
        if demand is not None and same:
            return  # a rate of arrivals falls while none comes: what is not done at once may become less
        after = self.now + 1
        # Strictly between: the limits are whole seconds, so the instant itself may already answer differently.
        for instant in {after, int(at) - 1} if at is not None else {after, self.now + 10_000}:
            if self.now < instant and (at is None or instant < at):
                assert forms(self.decide(instant)) == same


test_rules_hold_their_promises = hold(RulesPromises)
