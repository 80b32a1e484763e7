"""Order through the whole proxy: thousands wait, a third leaves at random places, the rest must start in
order."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.scenario import Figure, Goal, Sample, Scenario
from benchmarks.targets import Target

_CASE, _QUICK = "3,000 waiting, 1,000 leave", "300 waiting, 100 leave"
_COUNTS = {_CASE: 3000, _QUICK: 300}


def measure(bench: Bench, target: Target, case: str) -> Sample:
    count = _COUNTS[case]
    with bench.nodes(1) as nodes, bench.proxy(target, nodes) as proxy:
        nodes.reset()
        ended = bench.run("benchmarks.clients.waiting", "order", proxy.port, count)
        seen = nodes.read()
    return Sample(
        {
            "order_violations": seen.order_violations,
            "served_after_leaving": max(0, seen.requests - ended["answered"]),
        },
        {"failed": ended["failed"], "two at once": seen.violations},
    )


SCENARIO = Scenario(
    name="order",
    title="Order in a long line",
    figures=(
        Figure("order_violations", "order violations"),
        Figure("served_after_leaving", "run for clients that had left"),
    ),
    cases=(_CASE,),
    quick_cases=(_QUICK,),
    peers=("haproxy", "nginx+haproxy", "aiohttp"),
    goals=(Goal("order_violations", _CASE, 0), Goal("served_after_leaving", _CASE, 0)),
    measure=measure,
    max_rounds=3,
)
