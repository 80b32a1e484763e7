"""What it costs at least that no request waits, when all arrivals are known beforehand.

Requests are stacked: one that arrives while `k` run is on level `k`, and a level is one node at a time. Idle time of a
level is bridged by idling or by a new start, whichever is shorter; its first node is started in time for its first
request. The levels of the floor are paid from the origin to the horizon.
"""

from __future__ import annotations

from collections.abc import Iterable


def zero_wait_cost_ms(
    trace: Iterable[tuple[int, int]], node_start_ms: int, floor: int, *, drain_ms: int = 1_800_000
) -> int:
    """Node time in ms. The horizon is the simulator's: the last run's end, or `drain_ms` after the last arrival."""
    changes: list[tuple[int, int]] = []  # at one instant runs end before others begin
    horizon = 0
    for arrival, service in trace:
        changes += ((arrival, 1), (arrival + service, -1))
        horizon = max(horizon, arrival + service, arrival + drain_ms)
    changes.sort()
    cost = floor * horizon
    began: list[int] = []  # by level
    ended: list[int] = []
    running = 0
    for instant, change in changes:
        if change > 0:
            if running == len(began):
                began.append(instant)
                ended.append(instant - node_start_ms)  # never used: it has to be started
            began[running] = instant
            if running >= floor:
                cost += min(node_start_ms, instant - ended[running])
            running += 1
        else:
            running -= 1
            ended[running] = instant
            if running >= floor:
                cost += instant - began[running]
    return cost
