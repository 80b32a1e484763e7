"""The Prometheus metrics of DESIGN 1.6, made when asked from the plain counts that the hot path keeps.

Every label set that can be known beforehand is there from the start with zero, so that `rate()` and alerts
see the first event. Nothing is kept here: two scrapes, or ten scrapers, cannot disturb each other.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

import proxy
from proxy.admin.status import SHOWN_STATES, View
from proxy.errors import RequestError
from proxy.health import CODES
from proxy.stats import Histogram, Stats

_REQUESTS = {(200, "answered"), *((kind.status, kind.outcome) for kind in RequestError.__subclasses__())}
_PHASES = ("sending", "waiting", "running", "reading")
_RESENDS = ("connect", "stale_connection", "idempotent", "job_retry")
_SCALE_ACTIONS = (
    *(("up", cause) for cause in ("cold", "wait", "count", "target", "floor", "order", "replace")),
    *(("down", cause) for cause in ("idle", "unready", "replace", "start_timeout", "order")),
)
_OPERATIONS = ("create", "destroy", "list", "start")


def new_registry(
    view: View, stats: Stats, *, spool_bytes: Callable[[], int], records_dropped: Callable[[], int]
) -> CollectorRegistry:
    """A registry of its own: nothing global, so that several proxies can live in one process."""
    registry = CollectorRegistry()
    registry.register(_Proxy(view, stats, spool_bytes, records_dropped))
    ProcessCollector(registry=registry)
    return registry


class _Proxy(Collector):
    def __init__(
        self, view: View, stats: Stats, spool_bytes: Callable[[], int], records_dropped: Callable[[], int]
    ) -> None:
        self._view = view
        self._stats = stats
        self._spool_bytes = spool_bytes
        self._records_dropped = records_dropped

    def describe(self) -> Iterable[Metric]:
        return ()  # Else registering would collect, before all is wired.

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "fifo_proxy_build",
            "Version and build of the proxy, and the Python that runs it",
            {
                "version": proxy.__version__,
                "build": proxy.build_kind(),
                "python": platform.python_version(),
            },
        )
        yield from self._health()
        yield from self._line()
        yield from self._requests()
        yield from self._nodes()
        yield from self._scaling()
        yield from self._jobs()
        yield GaugeMetricFamily(
            "fifo_proxy_spool_bytes", "Bytes of bodies spooled on disk", float(self._spool_bytes())
        )
        yield CounterMetricFamily(
            "fifo_proxy_records_dropped",
            "Requests that are missing in the request log",
            float(self._records_dropped()),
        )

    def _health(self) -> Iterator[Metric]:
        now = {reason.code for reason in self._view.health.reasons}
        degraded = GaugeMetricFamily(
            "fifo_proxy_degraded", "1 while this is wrong, else 0", labels=("reason",)
        )
        for code in CODES:
            degraded.add_metric((code,), float(code in now))
        yield degraded
        held = GaugeMetricFamily(
            "fifo_proxy_held", "1 while an operator holds this, else 0", labels=("what",)
        )
        held.add_metric(("scaling",), float(self._view.actions.scaling_hold is not None))
        held.add_metric(("dispatch",), float(self._view.actions.dispatch_hold is not None))
        yield held

    def _line(self) -> Iterator[Metric]:
        line = self._view.dispatcher.line
        yield GaugeMetricFamily("fifo_proxy_queue_length", "Requests waiting in the line", float(len(line)))
        yield GaugeMetricFamily(
            "fifo_proxy_queue_oldest_wait_seconds",
            "How long the head of the line has waited; 0 when nothing waits",
            line.oldest_wait(self._view.clock.now()),
        )
        yield _histogram(
            "fifo_proxy_queue_wait_seconds",
            "From joining the line to being given a node",
            self._stats.queue_wait,
        )

    def _requests(self) -> Iterator[Metric]:
        stats = self._stats
        yield _counter(
            "fifo_proxy_requests",
            "Requests ended, by the status sent and whether a node answered or may have run it",
            ("status", "outcome"),
            stats.requests,
            _REQUESTS,
        )
        yield _counter(
            "fifo_proxy_clients_left",
            "Clients that closed before they had their answer, by what their request did then",
            ("phase",),
            stats.clients_left,
            _PHASES,
        )
        yield _counter(
            "fifo_proxy_resends",
            "Requests sent again to a node, by why",
            ("reason",),
            stats.resends,
            _RESENDS,
        )

    def _nodes(self) -> Iterator[Metric]:
        stats = self._stats
        nodes = GaugeMetricFamily(
            "fifo_proxy_nodes", "Nodes by state, each of them paid for", labels=("state",)
        )
        for state in SHOWN_STATES:
            nodes.add_metric((str(state),), float(self._view.dispatcher.nodes.count(state)))
        yield nodes
        yield CounterMetricFamily(
            "fifo_proxy_node_busy_seconds",
            "Seconds in which nodes were busy, up to now: connecting to them and settling included",
            self._view.dispatcher.nodes.busy_time(self._view.clock.now()),
        )
        yield CounterMetricFamily(
            "fifo_proxy_node_paid_seconds",
            "Seconds in which nodes existed, starting and draining included",
            stats.node_paid_seconds,
        )
        yield _histogram(
            "fifo_proxy_node_run_seconds",
            "From sending a request to a node to the last byte of its response",
            stats.node_run,
        )
        yield _histogram(
            "fifo_proxy_handoff_seconds",
            "From the last byte of one response to the first byte of the next request on that node",
            stats.handoff,
        )
        yield _histogram(
            "fifo_proxy_node_start_seconds",
            "From asking for a node to its first ready probe",
            stats.node_start,
        )

    def _scaling(self) -> Iterator[Metric]:
        yield _counter(
            "fifo_proxy_scale_actions",
            "Scaling decisions carried out, by direction and cause",
            ("direction", "reason"),
            self._stats.scale_actions,
            _SCALE_ACTIONS,
        )
        yield _counter(
            "fifo_proxy_scale_errors",
            "Provider calls, and starts of nodes, that failed",
            ("operation",),
            self._stats.scale_errors,
            _OPERATIONS,
        )

    def _jobs(self) -> Iterator[Metric]:
        jobs = self._view.jobs
        if jobs is None:
            return
        kept = GaugeMetricFamily("fifo_proxy_jobs", "Jobs in the store, by state", labels=("state",))
        for state, count in jobs.by_state.items():
            kept.add_metric((state,), float(count))
        yield kept
        yield CounterMetricFamily(
            "fifo_proxy_jobs_accepted", "Jobs stored and answered with a receipt", float(jobs.accepted)
        )
        called = CounterMetricFamily(
            "fifo_proxy_job_webhooks", "Calls of jobs' webhooks, by what came of them", labels=("result",)
        )
        for result, count in jobs.webhooks.items():
            called.add_metric((result,), float(count))
        yield called
        yield GaugeMetricFamily(
            "fifo_proxy_jobs_stored_bytes", "Bytes of bodies in the store", float(jobs.stored_bytes)
        )


def _counter(
    name: str, text: str, labels: Sequence[str], counts: Counter[Any], known: Iterable[object] = ()
) -> Metric:
    """A key of `counts` is the labels' values: a tuple, or the bare value where there is one label."""
    family = CounterMetricFamily(name, text, labels=labels)
    for key in sorted({*known, *counts}):
        values = key if isinstance(key, tuple) else (key,)
        family.add_metric([str(value) for value in values], counts[key])
    return family


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    """Prometheus' buckets are cumulative, ours are not."""
    bounds = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
    buckets = list(zip(bounds, accumulate(map(float, histogram.counts)), strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=histogram.total)
