"""Nodes work, clients wait: slow uploads and slow downloads, 200 ms of work, 4 nodes, 32 clients at once.

A node is busy from a request's first byte in to the moment the kernel has taken its last byte out. Perfect is
1.0.
"""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.scenario import Figure, Goal, Sample, Scenario
from benchmarks.targets import Target

_UP = "8 MB up at 2 MB/s"
_DOWN = "16 MB down at 2 MB/s"
_CASES = {_UP: ("up", 8, 32), _DOWN: ("down", 16, 32)}
_QUICK = {"2 MB up, 8 clients": ("up", 2, 8), "4 MB down, 8 clients": ("down", 4, 8)}
_BYTES_PER_SEC = 2_000_000
_WORK_MS = 200


def measure(bench: Bench, target: Target, case: str) -> Sample:
    direction, megabytes, clients = (_CASES | _QUICK)[case]
    with bench.nodes(4) as nodes, bench.proxy(target, nodes) as proxy:
        nodes.reset()
        ended = bench.run(
            "benchmarks.clients.slow",
            direction,
            proxy.port,
            clients,
            megabytes * 1_000_000,
            _BYTES_PER_SEC,
            _WORK_MS,
        )
        seen = nodes.read()
    return Sample(
        {
            "busy_per_work": seen.busy_secs / seen.work_secs,
            "requests_per_sec": (clients - ended["failed"]) / ended["secs"],
            "p50_secs": ended["p50_secs"],
        },
        {"failed": ended["failed"], "two at once": seen.violations},
    )


SCENARIO = Scenario(
    name="occupancy",
    title="Node occupancy with slow clients",
    figures=(
        Figure("busy_per_work", "node busy / work", "", 2),
        Figure("requests_per_sec", "requests/s", "", 2),
        Figure("p50_secs", "p50", "s", 1),
    ),
    cases=tuple(_CASES),
    quick_cases=tuple(_QUICK),
    peers=("haproxy", "nginx+haproxy"),
    goals=(
        Goal("busy_per_work", _UP, 1.05),
        Goal("busy_per_work", _DOWN, 1.05),
        Goal("requests_per_sec", _UP, 1.0, at_least=True, peer="haproxy"),
        Goal("requests_per_sec", _DOWN, 4.5, at_least=True, peer="haproxy"),
    ),
    measure=measure,
    max_rounds=2,
)
