"""The policy `target_wait`: the fewest nodes with which 19 of 20 requests wait no longer than `target_wait_secs`.

Pure: it sees the line and the nodes, asks a `Demand` what it has learned, and answers what to do. How many are wanted:

- enough that the tail of the line is expected to wait no longer than allowed. With `n` nodes and runs of a mean `r`,
  the last of `q` requests waiting or running waits about `(q / n - 1) r`; so a node may hold `1 + allowed / r` of them;
- the same for the line as it will be once a node that is asked for now is ready, if arrivals go on as they did;
- enough to keep up with the arrivals at all.

Nodes that are starting count, so nothing is ordered twice. A node goes when it has been idle for longer than the
keep-alive and is not wanted. The floor, the ceiling and the busy ones are sacred, as under every policy; cooldowns and
`queue_scale_*` are not asked: they are what the target stands in place of.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from proxy.scaling.demand import Demand

if TYPE_CHECKING:
    from proxy.scaling.rules import Limits, Seen

_ROUNDING = 1e-9


def wanted(seen: Seen, demand: Demand, limits: Limits, now: float) -> tuple[int, str]:
    """How many nodes, at most `max_nodes`, and why, in one sentence with its numbers."""
    ticks = limits.ticks_per_sec
    here = seen.queue_length + seen.running
    run, rate = demand.run, demand.rate(now)
    may_hold = 1 + demand.allowance / run
    coming = here + rate * demand.start - _capacity(seen, demand)
    for_line = ceil(max(here, coming) / may_hold - _ROUNDING)
    for_rate = ceil(rate * run - _ROUNDING)
    number = min(max(for_line, for_rate), limits.max_nodes) if here else 0
    if for_rate > for_line:
        return number, f"{rate * ticks:.2f} arrivals/s of {run / ticks:.1f} s keep {for_rate} nodes busy"
    who = f"{here} waiting or running"
    if coming > here:
        who = f"{coming:.1f} expected in {demand.start / ticks:.0f} s"
    return number, (
        f"{who}, {may_hold:.1f} to a node: runs {run / ticks:.1f} s, "
        f"mean wait {demand.allowance / ticks:.1f} s allowed for a target of {demand.target / ticks:g} s"
    )


def superfluous(seen: Seen, demand: Demand, limits: Limits, now: float) -> tuple[list[int], str]:
    """The nodes to stop, the longest idle first, and why. The caller has seen that the line is empty."""
    ticks, keep_alive = limits.ticks_per_sec, demand.keep_alive
    idle = sorted(
        (node.last_used_at, node.number, node.state)
        for node in seen.nodes
        if node.state in ("idle", "unready")
        and node.last_used_at is not None
        and now - node.last_used_at > keep_alive
    )
    ready = sum(node.state in ("idle", "busy") for node in seen.nodes)
    least = max(limits.min_nodes, ceil(seen.running / (1 + demand.allowance / demand.run) - _ROUNDING))
    numbers: list[int] = []
    for _, number, state in idle:
        if state == "idle":  # an unready one may go at the floor too
            if ready <= least:
                continue
            ready -= 1
        numbers.append(number)
    if not numbers:
        return [], ""
    secs = (now - idle[0][0]) / ticks
    return (
        numbers,
        f"idle {secs:.1f} s > {keep_alive / ticks:.1f} s, by what starts cost and how soon nodes are needed",
    )


def next_changes(seen: Seen, demand: Demand) -> list[float]:
    """When idle nodes' keep-alives end, if nothing happens before. More nodes are never wanted by time alone."""
    if seen.queue_length:
        return []
    return [node.last_used_at + demand.keep_alive for node in seen.nodes if node.last_used_at is not None]


def _capacity(seen: Seen, demand: Demand) -> float:
    """How many requests the nodes there are can end in the time of a start; starting ones are taken to be half-way."""
    nodes = sum(0.5 if node.state == "starting" else 1.0 for node in seen.nodes if node.state in _SERVING)
    return nodes * demand.start / demand.run


_SERVING = ("starting", "idle", "busy")
