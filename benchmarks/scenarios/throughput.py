"""Saturated: 16 nodes without work, 200 keep-alive clients, responses of 1 KB.

Requests per second compare two proxies only as far as both use up their core: where "core used by it" stays well
below 100 %, nodes and load were the limit (or other programs took the core), and the processor time of a
request tells more.
"""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.process import CoreTime
from benchmarks.scenario import Figure, Goal, Sample, Scenario
from benchmarks.targets import Target

PATH = "/?bytes=1024"
_CASE = "16 nodes, 200 clients"


def saturate(bench: Bench, target: Target, *, node_count: int, clients: int, path: str = PATH) -> Sample:
    """Requests per second and the proxy's processor time for each, under closed-loop load."""
    with bench.nodes(node_count) as nodes, bench.proxy(target, nodes) as proxy:
        bench.wrk(proxy.url(path), connections=clients, seconds=1)  # every connection and cache warm
        nodes.reset()
        cores_before = CoreTime.read(bench.cores.load_numbers)
        used, began = proxy.cpu_secs(), time.perf_counter()
        load = bench.wrk(proxy.url(path), connections=clients, seconds=bench.secs(4))
        used, took = proxy.cpu_secs() - used, time.perf_counter() - began
        load_cores = CoreTime.read(bench.cores.load_numbers).busy_percent_since(cores_before)
        seen = nodes.read()
    faults = {"errors": load.errors}
    if target.has_line:
        faults["two at once"] = seen.violations
    return Sample(
        {
            "requests_per_sec": load.requests_per_sec,
            "p99_ms": load.p99_us / 1e3,
            "cpu_us": used / load.requests * 1e6,
            "core_percent": used / took * 100,
            "load_cores_percent": load_cores,
        },
        faults,
    )


def measure(bench: Bench, target: Target, case: str) -> Sample:
    return saturate(bench, target, node_count=16, clients=200)


SCENARIO = Scenario(
    name="throughput",
    title="Saturated throughput",
    figures=(
        Figure("requests_per_sec", "requests/s"),
        Figure("p99_ms", "p99", "ms", 2),
        Figure("cpu_us", "CPU per request", "µs", 1),
        Figure("core_percent", "core used by it", "%"),
        Figure("load_cores_percent", "load's cores busy", "%"),
    ),
    cases=(_CASE,),
    peers=("haproxy", "nginx", "nginx+haproxy", "aiohttp", "ray-serve"),
    goals=(
        Goal("requests_per_sec", _CASE, 1.0, at_least=True, peer="haproxy"),
        Goal("requests_per_sec", _CASE, 5.0, at_least=True, peer="aiohttp"),
        Goal("cpu_us", _CASE, 1.0, peer="haproxy"),
    ),
    measure=measure,
)
