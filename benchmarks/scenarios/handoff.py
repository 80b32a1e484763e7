"""The hand-off gap: from a node's last byte out to its next request's first byte in, while 50 clients wait.

The node's own clock measures it (benchmarks.node), so the figure holds the proxy's turn and two trips through
the kernel. With 16 nodes that have no work the proxy is saturated, and the gap is mostly its throughput.
"""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.process import BenchmarkError
from benchmarks.scenario import Figure, Goal, Sample, Scenario
from benchmarks.targets import Target

_WAITING = 50
_CASES = {
    "1 node, 0 ms": (1, 0),
    "1 node, 10 ms": (1, 10),
    "16 nodes, 0 ms": (16, 0),
    "16 nodes, 10 ms": (16, 10),
}


def measure(bench: Bench, target: Target, case: str) -> Sample:
    node_count, work_ms = _CASES[case]
    with bench.nodes(node_count) as nodes, bench.proxy(target, nodes) as proxy:
        url = proxy.url(f"/?bytes=1024&work={work_ms}")
        bench.wrk(url, connections=node_count + _WAITING, seconds=1)
        nodes.reset()
        load = bench.wrk(url, connections=node_count + _WAITING, seconds=bench.secs(4))
        seen = nodes.read()
    if seen.gap_p50_us is None or seen.gap_p99_us is None:
        raise BenchmarkError("the nodes saw no two requests in a row")
    return Sample(
        {"gap_p50_us": seen.gap_p50_us, "gap_p99_us": seen.gap_p99_us},
        {"errors": load.errors, "two at once": seen.violations},
    )


SCENARIO = Scenario(
    name="handoff",
    title="Hand-off gap at the node, 50 waiting",
    figures=(Figure("gap_p50_us", "gap p50", "µs"), Figure("gap_p99_us", "gap p99", "µs")),
    cases=tuple(_CASES),
    quick_cases=("1 node, 0 ms", "16 nodes, 10 ms"),
    peers=("haproxy", "nginx+haproxy", "aiohttp"),
    goals=tuple(
        Goal(figure, case, 1.0, peer="haproxy") for case in _CASES for figure in ("gap_p50_us", "gap_p99_us")
    ),
    measure=measure,
)
