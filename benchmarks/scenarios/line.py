"""The cost of a long line, in-process: the same operations with 10,000 and with 100 waiting. It has no
peers."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.scenario import Figure, Goal, Sample, Scenario
from benchmarks.targets import Target

_SHORT = "100 waiting"
_LONG = "10,000 waiting"
_OPERATIONS = (("join_ns", "join"), ("leave_ns", "leave at random"), ("pair_ns", "end, pair, start"))


def measure(bench: Bench, target: Target, case: str) -> Sample:
    waiting = 100 if case == _SHORT else 10_000
    return Sample(bench.run("benchmarks.dispatch_cost", waiting, on_proxy_core=True))


SCENARIO = Scenario(
    name="line",
    title="Cost of a long line",
    figures=(
        *(Figure(key, title, "ns") for key, title in _OPERATIONS),
        Figure("order_violations", "order violations"),
    ),
    cases=(_SHORT, _LONG),
    peers=(),
    goals=(
        *(Goal(key, _LONG, 1.2, base_case=_SHORT) for key, _ in _OPERATIONS),
        Goal("order_violations", _LONG, 0),
    ),
    measure=measure,
)
