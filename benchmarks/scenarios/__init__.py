"""What is measured: one family a module, each with the figures to reach."""

from __future__ import annotations

from benchmarks.scenario import Scenario
from benchmarks.scenarios import (
    bodies,
    handoff,
    jobs,
    latency,
    line,
    many_nodes,
    memory,
    occupancy,
    order,
    scale,
    throughput,
)

ALL: tuple[Scenario, ...] = (
    throughput.SCENARIO,
    handoff.SCENARIO,
    latency.SCENARIO,
    memory.SCENARIO,
    line.SCENARIO,
    order.SCENARIO,
    bodies.SCENARIO,
    occupancy.SCENARIO,
    many_nodes.SCENARIO,
    scale.SCENARIO,
    jobs.SCENARIO,
)
