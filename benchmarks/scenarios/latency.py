"""Added latency while nothing waits: one client, one node, 1 KB; through the proxy less straight to the
node."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.scenario import Figure, Goal, Sample, Scenario
from benchmarks.scenarios.throughput import PATH
from benchmarks.targets import Target

_CASE = "1 node, 1 client"


def measure(bench: Bench, target: Target, case: str) -> Sample:
    with bench.nodes(1) as nodes, bench.proxy(target, nodes) as proxy:
        bench.wrk(proxy.url(PATH), connections=1, seconds=1)
        straight = bench.wrk(f"http://127.0.0.1:{nodes.ports[0]}{PATH}", connections=1, seconds=bench.secs(2))
        load = bench.wrk(proxy.url(PATH), connections=1, seconds=bench.secs(3))
    return Sample(
        {
            "added_p50_us": load.p50_us - straight.p50_us,
            "p50_us": load.p50_us,
            "p99_us": load.p99_us,
            "straight_p50_us": straight.p50_us,
        },
        {"errors": load.errors},
    )


SCENARIO = Scenario(
    name="latency",
    title="Latency while nothing waits",
    figures=(
        Figure("added_p50_us", "added p50", "µs"),
        Figure("p50_us", "p50", "µs"),
        Figure("p99_us", "p99", "µs"),
        Figure("straight_p50_us", "p50 without a proxy", "µs"),
    ),
    cases=(_CASE,),
    peers=("haproxy", "nginx", "nginx+haproxy", "aiohttp", "ray-serve"),
    goals=(
        Goal("p50_us", _CASE, 1.3, peer="haproxy"),
        Goal("added_p50_us", _CASE, 1.3, peer="haproxy"),
    ),
    measure=measure,
)
