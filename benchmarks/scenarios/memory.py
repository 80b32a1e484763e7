"""Memory per waiting client: 8,000 clients with a small request each behind one busy node; after less
before."""

from __future__ import annotations

import json

from benchmarks.bench import Bench
from benchmarks.scenario import Figure, Goal, Sample, Scenario
from benchmarks.scenarios.throughput import PATH
from benchmarks.targets import Target

_CASE, _QUICK = "8,000 waiting", "1,000 waiting"
_COUNTS = {_CASE: 8000, _QUICK: 1000}
_FOREVER_MS = 3_600_000


def measure(bench: Bench, target: Target, case: str) -> Sample:
    count = _COUNTS[case]
    with bench.nodes(1) as nodes, bench.proxy(target, nodes) as proxy:
        bench.wrk(proxy.url(PATH), connections=4, seconds=1)
        proxy.wait_quiet()
        nodes.reset()
        before = proxy.rss_bytes(), proxy.pss_bytes()
        with bench.program("benchmarks.clients.waiting", "hold", proxy.port, count, _FOREVER_MS) as clients:
            clients.read_line()
            proxy.wait_quiet()
            after = proxy.rss_bytes(), proxy.pss_bytes()
            seen = nodes.read()
            clients.write_line("leave")
            ended_early = json.loads(clients.read_line())["ended_early"]
    return Sample(
        {
            "pss_per_client": (after[1] - before[1]) / count,
            "rss_per_client": (after[0] - before[0]) / count,
            "rss_before_mb": before[0] / 1e6,
        },
        {"answered early": ended_early, "two at once": max(0, seen.requests - 1)},
    )


SCENARIO = Scenario(
    name="memory",
    title="Memory per waiting client",
    figures=(
        Figure("pss_per_client", "PSS per client", "bytes"),
        Figure("rss_per_client", "RSS per client", "bytes"),
        Figure("rss_before_mb", "RSS before", "MB", 1),
    ),
    cases=(_CASE,),
    quick_cases=(_QUICK,),
    peers=("haproxy", "nginx+haproxy", "aiohttp"),
    goals=(
        Goal("pss_per_client", _CASE, 0.5, peer="haproxy"),
        Goal("rss_per_client", _CASE, 0.5, peer="haproxy"),
    ),
    measure=measure,
    max_rounds=3,
)
