"""How many nodes there should be: DESIGN 4.4 as one pure function.

`decide` sees the line and the nodes as they are, what was done last and the limits, and answers with what to
do now, usually nothing. Always, whatever it sees:

- paid nodes, starting and draining ones included, plus those it asks for never exceed `max_nodes`;
- it stops idle and unready nodes only, and only while the line is empty;
- what it stops leaves at least `min_nodes` ready ones, if there were as many.

Times (`now`, waits, `last_used_at`) are in the caller's unit, `ticks_per_sec` of which make a second; limits
are in seconds. The simulator passes whole milliseconds, so that every comparison is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from proxy.scaling import target_wait
from proxy.scaling.demand import Demand

Policy = Literal["threshold", "per_request", "target_wait"]
UpCause = Literal["cold", "wait", "count", "floor", "target"]
DownCause = Literal["idle", "unready"]


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node we pay for. `state` is `starting idle busy unready draining` (a `StrEnum` of these will do).

    `last_used_at`: end of its last request, or when it became ready; None only while it is starting.
    `unready_since`: None unless it is unready.
    """

    number: int
    state: str
    last_used_at: float | None = None
    unready_since: float | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """`nodes`: all we pay for, draining ones and creates of unknown outcome (as starting) included."""

    queue_length: int
    oldest_wait: float
    running: int
    nodes: Sequence[SeenNode]


@dataclass(frozen=True, slots=True)
class Limits:
    """The configuration's keys of the same names.

    `unready_grace_secs`: a node unready for less than this still counts for the floor: a link that was cut
    makes a node unready until its next probe, a second later, and that must not buy another one.
    """

    min_nodes: int = 1
    max_nodes: int = 3
    max_scale_down_nodes: int = 1
    scale_down_cooldown_secs: float = 180
    queue_scale_wait_secs: float = 120
    queue_scale_count_threshold: int = 10
    idle_shutdown_secs: float = 180
    scale_up_cooldown_secs: float = 30
    unready_grace_secs: float = 10
    target_wait_secs: float = 60
    ticks_per_sec: int = 1


@dataclass(frozen=True, slots=True)
class Memory:
    """When it was last scaled up (the floor is no scale-up) and down."""

    last_up_at: float | None = None
    last_down_at: float | None = None

    def after(self, action: Action, now: float) -> Memory:
        """What to remember of an action that was carried out: for Up, that at least one node was created."""
        if isinstance(action, Down):
            return replace(self, last_down_at=now)
        return self if action.cause == "floor" else replace(self, last_up_at=now)


@dataclass(frozen=True, slots=True)
class Up:
    """Create `count` nodes."""

    count: int
    reason: str
    cause: UpCause


@dataclass(frozen=True, slots=True)
class Down:
    """Stop the nodes of these numbers, the longest idle first."""

    numbers: tuple[int, ...]
    reason: str
    cause: DownCause

    @property
    def count(self) -> int:
        return len(self.numbers)


Action = Up | Down


def decide(
    policy: Policy, seen: Seen, memory: Memory, limits: Limits, now: float, demand: Demand | None = None
) -> tuple[Action, ...]:
    """What to do at this check: the floor, then one scale-up while something waits or one scale-down while
    nothing does. Each reason is one sentence with its numbers. `demand`: what `target_wait` decides by."""
    floor = _floor(seen, limits, now)
    scale: Action | None
    if policy == "target_wait":
        assert demand is not None
        scale = _by_target(seen, demand, limits, now, asked=floor.count if floor else 0)
    elif seen.queue_length:
        scale = _up(policy, seen, memory, limits, now, asked=floor.count if floor else 0)
    else:
        scale = _down(policy, seen, memory, limits, now)
    return tuple(action for action in (floor, scale) if action)


def next_change(
    seen: Seen, memory: Memory, limits: Limits, now: float, demand: Demand | None = None
) -> float | None:
    """The first instant, now or later, around which `decide` could answer differently though nothing but the
    time changes; None when there is none. A check after now and before it would answer as one now does."""
    ticks = limits.ticks_per_sec
    instants = [
        node.unready_since + limits.unready_grace_secs * ticks
        for node in seen.nodes
        if node.unready_since is not None
    ]
    if demand is not None:
        instants += target_wait.next_changes(seen, demand)
    elif seen.queue_length:
        instants.append(now - seen.oldest_wait + limits.queue_scale_wait_secs * ticks)
        if memory.last_up_at is not None:
            instants.append(memory.last_up_at + limits.scale_up_cooldown_secs * ticks)
    else:
        instants += [
            node.last_used_at + limits.idle_shutdown_secs * ticks
            for node in seen.nodes
            if node.last_used_at is not None
        ]
        if memory.last_down_at is not None:
            instants.append(memory.last_down_at + limits.scale_down_cooldown_secs * ticks)
    return min((instant for instant in instants if instant >= now), default=None)


def _by_target(seen: Seen, demand: Demand, limits: Limits, now: float, asked: int) -> Action | None:
    standing = asked + sum(node.state in ("starting", "idle", "busy") for node in seen.nodes)
    number, reason = target_wait.wanted(seen, demand, limits, now)
    count = min(number - standing, limits.max_nodes - len(seen.nodes) - asked)
    if count > 0:
        return Up(count, reason, "target" if standing else "cold")
    if seen.queue_length:
        return None
    numbers, reason = target_wait.superfluous(seen, demand, limits, now)
    return Down(tuple(numbers), reason, "idle") if numbers else None


def _floor(seen: Seen, limits: Limits, now: float) -> Up | None:
    grace = limits.unready_grace_secs * limits.ticks_per_sec
    standing = sum(
        node.state in ("starting", "idle", "busy")
        or (node.unready_since is not None and now - node.unready_since < grace)
        for node in seen.nodes
    )
    count = min(limits.min_nodes - standing, limits.max_nodes - len(seen.nodes))
    if count <= 0:
        return None
    return Up(count, f"{standing} ready or starting < min_nodes {limits.min_nodes}", "floor")


def _up(policy: Policy, seen: Seen, memory: Memory, limits: Limits, now: float, asked: int) -> Up | None:
    """`asked`: nodes asked for at this very check, which are starting."""
    room = limits.max_nodes - len(seen.nodes) - asked
    if room <= 0:
        return None
    alive = asked + sum(node.state != "draining" for node in seen.nodes)
    ticks = limits.ticks_per_sec
    cause: UpCause
    if not alive:
        cause, reason = "cold", f"no node, {seen.queue_length} waiting"
    elif _is_within(memory.last_up_at, limits.scale_up_cooldown_secs * ticks, now):
        return None
    elif seen.oldest_wait >= limits.queue_scale_wait_secs * ticks:
        cause = "wait"
        reason = f"wait {seen.oldest_wait / ticks:.1f} s >= {limits.queue_scale_wait_secs:g} s"
    elif seen.queue_length > limits.queue_scale_count_threshold:
        cause, reason = "count", f"length {seen.queue_length} > {limits.queue_scale_count_threshold}"
    else:
        return None
    wanted = seen.queue_length // 2 if policy == "threshold" else seen.queue_length + seen.running - alive
    return Up(min(max(wanted, 1), room), reason, cause)


def _down(policy: Policy, seen: Seen, memory: Memory, limits: Limits, now: float) -> Down | None:
    """The longest idle first. `per_request` goes straight to the minimum once nothing runs, starts or was
    used of late: for engines that are told a number of nodes and choose the victims themselves."""
    ticks = limits.ticks_per_sec
    if _is_within(memory.last_down_at, limits.scale_down_cooldown_secs * ticks, now):
        return None
    idle_shutdown = limits.idle_shutdown_secs * ticks
    candidates = sorted(
        (node.last_used_at, node.number, node.state)
        for node in seen.nodes
        if node.state in ("idle", "unready")
        and node.last_used_at is not None
        and now - node.last_used_at > idle_shutdown
    )
    at_most = limits.max_scale_down_nodes
    if policy == "per_request":
        at_most = 0 if seen.running or len(candidates) < len(seen.nodes) else len(candidates)
    spare = sum(node.state in ("idle", "busy") for node in seen.nodes) - limits.min_nodes
    victims = []
    for candidate in candidates:
        if candidate[2] == "idle":  # an unready one may go at the floor too
            if spare <= 0:
                continue
            spare -= 1
        victims.append(candidate)
    victims = victims[:at_most]
    if not victims:
        return None
    cause: DownCause = "idle" if any(state == "idle" for _, _, state in victims) else "unready"
    idle_secs = (now - victims[0][0]) / ticks
    reason = f"{cause} {idle_secs:.1f} s > {limits.idle_shutdown_secs:g} s"
    return Down(tuple(number for _, number, _ in victims), reason, cause)


def _is_within(last: float | None, cooldown: float, now: float) -> bool:
    return last is not None and now - last < cooldown
