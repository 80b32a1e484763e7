"""What the proxy is doing now, as `/api/status` tells it (DESIGN 1.5) and as its log line.

Reads and never changes; both functions are synchronous, so what they tell is of one instant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import proxy
from proxy.clock import Clock
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.nodes import Node, NodeState, Probe

SHOWN_STATES = tuple(state for state in NodeState if state is not NodeState.GONE)


class DecisionFacts(Protocol):
    """One thing the scaler did. `at`: monotonic seconds; `action`: up or down; `reason`: with its numbers."""

    @property
    def at(self) -> float: ...
    @property
    def action(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def reason(self) -> str: ...


class ScalerFacts(Protocol):
    """What the scaler tells of itself; instants are monotonic seconds, None where there was none yet."""

    @property
    def last_check_at(self) -> float | None: ...
    @property
    def last_scale_up_at(self) -> float | None: ...
    @property
    def last_scale_down_at(self) -> float | None: ...
    @property
    def last_error(self) -> str | None: ...
    @property
    def decisions(self) -> Iterable[DecisionFacts]: ...


@dataclass(frozen=True, slots=True)
class View:
    """Everything the admin port shows of. `started_at`: monotonic seconds."""

    dispatcher: Dispatcher
    scaler: ScalerFacts
    clock: Clock
    started_at: float


def status(view: View) -> dict[str, object]:
    """The JSON of `/api/status`: times RFC 3339 UTC, durations seconds, decisions oldest first."""
    now = view.clock.now()
    utc = view.clock.utc
    dispatcher, scaler = view.dispatcher, view.scaler
    return {
        "version": proxy.__version__,
        "uptime_secs": round(now - view.started_at, 3),
        "queue": {
            "length": len(dispatcher.line),
            "oldest_wait_secs": round(dispatcher.line.oldest_wait(now), 3),
            "running": dispatcher.running,
            "capacity": dispatcher.capacity,
            "joined": dispatcher.joined,
            "served": dispatcher.served,
            "left": dispatcher.left,
            "refused": dispatcher.refused,
        },
        "nodes": [_node(node, view.clock) for node in dispatcher.nodes],
        "scaler": {
            "last_check_at": utc(scaler.last_check_at),
            "last_scale_up_at": utc(scaler.last_scale_up_at),
            "last_scale_down_at": utc(scaler.last_scale_down_at),
            "last_error": scaler.last_error,
            "decisions": [
                {"at": utc(made.at), "action": made.action, "count": made.count, "reason": made.reason}
                for made in scaler.decisions
            ],
        },
    }


def change_mark(view: View) -> tuple[object, ...]:
    """Cheap to compute, and different from the last one when something worth showing at once has happened."""
    dispatcher, scaler = view.dispatcher, view.scaler
    return (
        len(dispatcher.line),
        dispatcher.joined,
        dispatcher.served,
        dispatcher.left,
        dispatcher.refused,
        dispatcher.running,
        tuple((node.number, node.epoch) for node in dispatcher.nodes),
        scaler.last_scale_up_at,
        scaler.last_scale_down_at,
        scaler.last_error,
    )


def stats_line(dispatcher: Dispatcher, now: float, *, served_before: int, elapsed_secs: float) -> str:
    """The line logged every `stats_log_interval_secs`.

    Its rate is that of the `elapsed_secs` since `dispatcher.served` was `served_before`.
    """
    counts = ((state, dispatcher.nodes.count(state)) for state in SHOWN_STATES)
    nodes = " ".join(f"{count} {state}" for state, count in counts if count) or "none"
    rate = (dispatcher.served - served_before) / elapsed_secs if elapsed_secs > 0 else 0.0
    return (
        f"waiting {len(dispatcher.line)} (oldest {dispatcher.line.oldest_wait(now):.1f} s), "
        f"running {dispatcher.running}, nodes: {nodes}, served {dispatcher.served} ({rate:.2f}/s), "
        f"left {dispatcher.left}, refused {dispatcher.refused}"
    )


def _node(node: Node, clock: Clock) -> dict[str, object]:
    return {
        "id": node.id,
        "name": node.name,
        "url": node.url,
        "state": str(node.state),
        "created_at": clock.utc(node.created_at),
        "ready_at": clock.utc(node.ready_at),
        "last_processed_at": clock.utc(node.last_processed_at),
        "served": node.served,
        "last_probe": _probe(node.last_probe, clock),
    }


def _probe(probe: Probe | None, clock: Clock) -> dict[str, object] | None:
    if probe is None:
        return None
    return {"at": clock.utc(probe.at), "status": probe.status, "error": probe.error}
