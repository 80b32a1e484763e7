"""The scale of cost: the proxy's processor time per request as clients, nodes and bodies grow.

Linear growth means: the cost of a request does not depend on how many clients or nodes there are, and the
cost of a byte not on the size of its body. Each goal compares the largest with a middle one; 2 would still be
far from quadratic (which is 80, 31 and 64 for these pairs), and leaves room for what caches do.
"""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.scenario import Figure, Goal, Sample, Scenario
from benchmarks.scenarios.throughput import PATH, saturate
from benchmarks.targets import Target

_CLIENTS = {f"{count:,} clients": count for count in (1, 10, 100, 1000, 8000)}
_NODES = {f"{count} nodes": count for count in (1, 16, 100, 500)}
_BODIES = {
    f"{label} body": size
    for label, size in (
        ("0", 0),
        ("1 KB", 1 << 10),
        ("64 KB", 1 << 16),
        ("1 MB", 1 << 20),
        ("64 MB", 1 << 26),
    )
}
_NO_WORK_CLIENTS = 200
_BODY_CLIENTS = 4


def measure(bench: Bench, target: Target, case: str) -> Sample:
    path, clients, node_count = PATH, _NO_WORK_CLIENTS, 16
    if case in _CLIENTS:
        clients = _CLIENTS[case]
    elif case in _NODES:
        node_count = _NODES[case]
    else:
        path, clients, node_count = f"/?bytes={_BODIES[case]}", _BODY_CLIENTS, 4
    sample = saturate(bench, target, node_count=node_count, clients=clients, path=path)
    if _BODIES.get(case):
        sample.figures["cpu_ns_per_byte"] = sample.figures["cpu_us"] * 1e3 / _BODIES[case]
    return sample


SCENARIO = Scenario(
    name="scale",
    title="Scale of cost",
    figures=(
        Figure("cpu_us", "CPU per request", "µs", 1),
        Figure("cpu_ns_per_byte", "CPU per byte", "ns", 3),
        Figure("requests_per_sec", "requests/s"),
    ),
    cases=(*_CLIENTS, *_NODES, *_BODIES),
    quick_cases=("10 clients", "16 nodes", "1 MB body"),
    peers=("haproxy",),
    goals=(
        Goal("cpu_us", "8,000 clients", 2.0, base_case="100 clients"),
        Goal("cpu_us", "500 nodes", 2.0, base_case="16 nodes"),
        Goal("cpu_ns_per_byte", "64 MB body", 2.0, base_case="1 MB body"),
    ),
    measure=measure,
    max_rounds=1,
)
