"""Many nodes: 500 against 16, probes on. What they cost while idle, and what is left of the throughput."""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.scenario import Figure, Goal, Sample, Scenario
from benchmarks.scenarios.throughput import saturate
from benchmarks.targets import Target

_FEW = "16 nodes, 200 clients"
_MANY = "500 nodes, 200 clients"
_IDLE = "500 nodes, idle"
_PROBE_ROUND_SECS = 15  # node_refresh_interval_secs: each idle node is asked once


def measure(bench: Bench, target: Target, case: str) -> Sample:
    if case != _IDLE:
        return saturate(bench, target, node_count=16 if case == _FEW else 500, clients=200)
    with bench.nodes(500) as nodes, bench.proxy(target, nodes) as proxy:
        time.sleep(1)
        nodes.reset()
        used, began = proxy.cpu_secs(), time.perf_counter()
        time.sleep(_PROBE_ROUND_SECS)
        used, took = proxy.cpu_secs() - used, time.perf_counter() - began
        probes = nodes.read().probes
    return Sample({"idle_cpu_percent": used / took * 100, "probes_per_sec": probes / took})


SCENARIO = Scenario(
    name="many_nodes",
    title="Many nodes",
    figures=(
        Figure("requests_per_sec", "requests/s"),
        Figure("p99_ms", "p99", "ms", 2),
        Figure("cpu_us", "CPU per request", "µs", 1),
        Figure("idle_cpu_percent", "CPU while idle", "% of a core", 2),
        Figure("probes_per_sec", "probes/s", "", 1),
    ),
    cases=(_FEW, _MANY, _IDLE),
    peers=("haproxy",),
    goals=(
        Goal("idle_cpu_percent", _IDLE, 5.0),
        Goal("requests_per_sec", _MANY, 0.9, at_least=True, base_case=_FEW),
    ),
    measure=measure,
    max_rounds=3,
)
