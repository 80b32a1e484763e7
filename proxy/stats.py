"""Counts kept as plain numbers on the hot path; `admin/metrics.py` turns them into Prometheus text when asked."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_MICROSECONDS = (25e-6, 50e-6, 75e-6, 1e-4, 15e-5, 2e-4, 3e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 0.1, 1)


class Histogram:
    """Counts of observations (seconds) by upper bound; the last count is of those above every bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = _SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


class Stats:
    """Everything counted since the start. Keys of the counters are the metric's labels, in order."""

    __slots__ = (
        "clients_left",
        "handoff",
        "node_paid_seconds",
        "node_run",
        "node_start",
        "queue_wait",
        "requests",
        "resends",
        "scale_actions",
        "scale_errors",
    )

    def __init__(self) -> None:
        self.requests: Counter[tuple[int, str]] = Counter()  # status, outcome: answered, not_sent, unknown
        self.clients_left: Counter[str] = Counter()  # phase: sending, waiting, running, reading
        self.resends: Counter[str] = Counter()  # reason
        self.scale_actions: Counter[tuple[str, str]] = Counter()  # direction, reason
        self.scale_errors: Counter[str] = Counter()  # operation: create, destroy, list
        self.queue_wait = Histogram()
        self.node_run = Histogram()
        self.node_start = Histogram()
        self.handoff = Histogram(_MICROSECONDS)
        self.node_paid_seconds = 0.0
