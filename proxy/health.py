"""Is the proxy well? Degraded is a state with reasons, each with a code, a sentence and an instant since when.

`judge` is pure: facts in, reasons out. `Health` remembers since when, and is where other parts report what only
they can know (`report`, `clear`). Always: a reason's `since` is of its latest unbroken stretch; its sentence is
safe to show, since whoever words it leaves secrets out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

CODES = (
    "token_refused",
    "provider_failing",
    "starts_failing",
    "scaler_stalled",
    "no_node",
    "line_full",
    "line_nearly_full",
    "waiting_too_long",
    "disk_nearly_full",
    "event_loop_stalled",
    "config_refused",
    "records_dropped",
    "store_down",
    "alert_undelivered",
)
"""Every reason there is, the most telling first; `Health` refuses any other, so that the metric has them all."""

SCALER_STALL_SECS = 120.0
LOOP_STALL_SECS = 1.0
LOOP_WINDOW_SECS = 60.0
NO_NODE_SECS = 10.0  # a cold start, or a node between a cut link and its probe, is no trouble yet
NEARLY_FULL = 0.8
DISK_SHARE, DISK_BYTES = 0.05, 5 * 2**30


@dataclass(frozen=True, slots=True)
class Failing:
    """A provider's operation (`list`, `create`, `destroy`, `start`) that fails now, `in_a_row` times so far."""

    operation: str
    detail: str
    in_a_row: int
    is_auth: bool


@dataclass(frozen=True, slots=True)
class Disk:
    """A directory that we write to, and what is left there; `fault`: why it cannot be looked at."""

    path: str
    free_bytes: int
    total_bytes: int
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What `judge` looks at. Durations in seconds; `stalls`: of the last minute, how long the event loop stood
    still each time; `alive_nodes`: starting, idle or busy; `max_wait_secs` 0: no limit."""

    checked_secs_ago: float = 0.0
    failing: Sequence[Failing] = ()
    waiting: int = 0
    capacity: int = 1
    oldest_wait_secs: float = 0.0
    max_wait_secs: float = 0.0
    alive_nodes: int = 0
    disks: Sequence[Disk] = ()
    spool_bytes: int = 0
    max_spool_bytes: int = 0
    stalls: Sequence[float] = ()


def judge(facts: Facts) -> dict[str, str]:
    """What is wrong, by code."""
    return _provider(facts) | _line(facts) | _machine(facts)


def _provider(facts: Facts) -> dict[str, str]:
    found: dict[str, str] = {}
    for failing in facts.failing:
        told = f"{failing.operation}: {failing.detail}"
        if failing.is_auth:
            found["token_refused"] = told
        elif failing.operation in ("create", "start"):
            times = "" if failing.in_a_row == 1 else f" ({failing.in_a_row} times in a row)"
            found["starts_failing"] = told + times
        elif failing.in_a_row > 1:  # one list or destroy that fails is tried again before anybody need know
            found["provider_failing"] = f"{told} ({failing.in_a_row} times in a row)"
    if facts.checked_secs_ago > SCALER_STALL_SECS:
        found["scaler_stalled"] = f"the scaler has not checked for {facts.checked_secs_ago:.0f} s"
    return found


def _line(facts: Facts) -> dict[str, str]:
    found: dict[str, str] = {}
    waiting, capacity, oldest = facts.waiting, facts.capacity, facts.oldest_wait_secs
    if waiting and not facts.alive_nodes and oldest > NO_NODE_SECS:
        found["no_node"] = (
            f"{waiting} waiting, the oldest for {oldest:.0f} s, and no node is ready or starting"
        )
    if waiting >= capacity:
        found["line_full"] = f"{waiting} wait, as many as may (max_queue_length): more are answered 429"
    elif waiting >= NEARLY_FULL * capacity:
        found["line_nearly_full"] = f"{waiting} of {capacity} (max_queue_length) wait"
    if 0 < facts.max_wait_secs < oldest:
        limit = f"{facts.max_wait_secs:g} s (degraded_wait_secs)"
        found["waiting_too_long"] = f"the oldest request has waited {oldest:.0f} s > {limit}"
    return found


def _machine(facts: Facts) -> dict[str, str]:
    found: dict[str, str] = {}
    full = []
    for disk in facts.disks:
        if disk.fault is not None:
            full.append(f"{disk.path}: {disk.fault}")
        elif disk.free_bytes < min(DISK_SHARE * disk.total_bytes, DISK_BYTES):
            full.append(f"{disk.path} has {_size(disk.free_bytes)} free of {_size(disk.total_bytes)}")
    if 0 < NEARLY_FULL * facts.max_spool_bytes <= facts.spool_bytes:
        sizes = f"{_size(facts.spool_bytes)} of {_size(facts.max_spool_bytes)}"
        full.append(f"spooled bodies take {sizes} (max_spool_bytes)")
    if full:
        found["disk_nearly_full"] = "; ".join(full)
    if facts.stalls:
        times, longest = len(facts.stalls), max(facts.stalls)
        how = f"once for {longest:.1f} s" if times == 1 else f"{times} times for up to {longest:.1f} s"
        found["event_loop_stalled"] = f"everything stood still {how} in the last minute"
    return found


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if size >= 100 else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


@dataclass(frozen=True, slots=True)
class Reason:
    """`since`: in the time of the caller."""

    code: str
    detail: str
    since: float


@dataclass(slots=True)
class Health:
    """What is wrong now. `reasons` come in the order of `CODES`."""

    _reported: dict[str, str] = field(default_factory=dict)
    _reasons: dict[str, Reason] = field(default_factory=dict)

    @property
    def state(self) -> Literal["ok", "degraded"]:
        return "degraded" if self._reasons else "ok"

    @property
    def reasons(self) -> list[Reason]:
        return [self._reasons[code] for code in CODES if code in self._reasons]

    def report(self, code: str, detail: str) -> None:
        """Something that `judge` cannot see is wrong, from the next `update` until `clear`. Raises ValueError
        for a code that is not in `CODES`."""
        if code not in CODES:
            raise ValueError(f"{code} is no reason that health knows")
        self._reported[code] = detail

    def clear(self, code: str) -> None:
        """It is well again; no error where it was."""
        self._reported.pop(code, None)

    def update(self, found: dict[str, str], now: float) -> None:
        """Take over what was found and what was reported."""
        wrong = found | self._reported
        self._reasons = {
            code: Reason(code, detail, before.since if (before := self._reasons.get(code)) else now)
            for code, detail in wrong.items()
        }
