"""What the proxy is doing now, as `/api/status` tells it (DESIGN 1.5) and as its log line.

Reads and never changes; both functions are synchronous, so what they tell is of one instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import proxy
from proxy.admin.actions import Action, Actions, Hold, Who
from proxy.clock import Clock
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.nodes import Node, NodeState, Probe
from proxy.health import Failing, Health

_ACTIONS_SHOWN = 10  # of them in the status; /api/actions has all that are kept
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


class TroubleFacts(Protocol):
    """A provider's operation that failed `count` times with these words, last `at`; `mended_at`: None while it
    fails."""

    @property
    def at(self) -> float: ...
    @property
    def operation(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def mended_at(self) -> float | None: ...


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
    @property
    def troubles(self) -> Iterable[TroubleFacts]: ...
    @property
    def failing(self) -> list[Failing]: ...


class JobFacts(Protocol):
    """What the jobs tell of themselves. `by_state`: as counted last; `accepted` and `webhooks` (calls by result): since
    the start; `store_state`: up, down, or asleep while nobody has handed anything in."""

    @property
    def store_state(self) -> str: ...
    @property
    def by_state(self) -> Mapping[str, int]: ...
    @property
    def stored_bytes(self) -> int: ...
    @property
    def accepted(self) -> int: ...

    @property
    def webhooks(self) -> Mapping[str, int]: ...

    async def search(self, states: Sequence[str], limit: int) -> list[dict[str, Any]]:
        """The newest first. Raises `errors.StoreUnavailable`, and `errors.BadOrder` for a state that there is not."""


@dataclass(slots=True)
class View:
    """Everything the admin port shows of. `started_at`: monotonic seconds; `needs_restart`: keys whose change
    waits for one."""

    dispatcher: Dispatcher
    scaler: ScalerFacts
    actions: Actions
    health: Health
    clock: Clock
    started_at: float
    needs_restart: tuple[str, ...] = ()
    jobs: JobFacts | None = None


def status(view: View) -> dict[str, object]:
    """The JSON of `/api/status`: times RFC 3339 UTC, durations seconds, decisions oldest first."""
    now = view.clock.now()
    utc = view.clock.utc
    dispatcher, scaler = view.dispatcher, view.scaler
    return {
        "version": proxy.__version__,
        "build": proxy.build_kind(),
        "uptime_secs": round(now - view.started_at, 3),
        "health": {
            "state": view.health.state,
            "reasons": [
                {"code": reason.code, "detail": reason.detail, "since": utc(reason.since)}
                for reason in view.health.reasons
            ],
        },
        "held": {
            "scaling": _hold(view.actions.scaling_hold, view.clock),
            "dispatch": _hold(view.actions.dispatch_hold, view.clock),
        },
        "needs_restart": list(view.needs_restart),
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
        "jobs": _jobs(view.jobs),
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
        "provider_errors": [
            {
                "at": utc(trouble.at),
                "operation": trouble.operation,
                "detail": trouble.detail,
                "count": trouble.count,
                "mended_at": utc(trouble.mended_at),
            }
            for trouble in scaler.troubles
        ],
        "actions": actions_json(view.actions, view.clock, _ACTIONS_SHOWN),
    }


def actions_json(actions: Actions, clock: Clock, limit: int | None = None) -> list[dict[str, object]]:
    """The JSON of `/api/actions`, newest first."""
    return [action_json(done, clock) for done in islice(actions.journal, limit)]


def action_json(done: Action, clock: Clock) -> dict[str, object]:
    return {
        "at": clock.utc(done.at),
        "by": _by(done.who),
        "client": done.who.client,
        "action": done.action,
        "target": done.target,
        "result": done.result,
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
        tuple(reason.code for reason in view.health.reasons),
        view.actions.count,
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
        "reason": node.reason,
        "will_drain": node.is_retiring,
        "created_at": clock.utc(node.created_at),
        "ready_at": clock.utc(node.ready_at),
        "last_processed_at": clock.utc(node.last_processed_at),
        "served": node.served,
        "last_probe": _probe(node.last_probe, clock),
    }


def _jobs(jobs: JobFacts | None) -> dict[str, object] | None:
    if jobs is None:
        return None
    counts = dict(jobs.by_state)
    return {
        "store": jobs.store_state,
        "accepted": jobs.accepted,
        **counts,
        "stored_bytes": jobs.stored_bytes,
        "webhooks": dict(jobs.webhooks),
    }


def _hold(hold: Hold | None, clock: Clock) -> dict[str, object] | None:
    return None if hold is None else {"by": _by(hold.who), "at": clock.utc(hold.at)}


def _by(who: Who) -> str:
    """Nobody need give a name; then the address tells most."""
    return who.name or who.client


def _probe(probe: Probe | None, clock: Clock) -> dict[str, object] | None:
    if probe is None:
        return None
    return {"at": clock.utc(probe.at), "status": probe.status, "error": probe.error}
