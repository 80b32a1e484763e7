"""python -m benchmarks.scaling: what the policies cost and how long they let wait, beside other autoscalers' rules and
what is possible at least, on every trace given; and whether `target_wait` reaches what it has to.

Everything is simulated by the product's own simulator, so it is the same on every machine.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.scaling.clairvoyant import zero_wait_cost_ms
from benchmarks.scaling.goals import Outcome, Verdict, verdicts
from benchmarks.scaling.rivals import CHECK_INTERVAL_MS, Knative, QueueDelay, RequestCount
from proxy.errors import FifoProxyError
from proxy.scaling.figures import figures_of
from proxy.scaling.rules import Limits, Policy
from proxy.scaling.simulate import Rule, simulate
from proxy.scaling.trace_files import Trace, load_trace

_FLOOR = 1
_CEILING, _HIGH_CEILING = 20, 40
_HIGH_LOAD = 5.0  # of requests running at once in the mean, from which the high ceiling is needed
_HOUR_MS = 3_600_000
_TARGETS_SECS = (2.0, 5.0, 10.0, 20.0, 60.0, 120.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One trace with one node start time."""

    trace: str
    node_start_secs: float
    ceiling: int
    clairvoyant_hours: float
    outcomes: list[Outcome]
    verdicts: list[Verdict]


def compare(name: str, trace: Trace, node_start_secs: float, targets_secs: Sequence[float]) -> Comparison:
    span_ms = max(1, trace.arrival_ms[-1] - trace.arrival_ms[0])
    ceiling = _HIGH_CEILING if sum(trace.service_ms) / span_ms > _HIGH_LOAD else _CEILING
    start_ms = round(node_start_secs * 1000)
    limits = Limits(min_nodes=_FLOOR, max_nodes=ceiling)

    def run(
        policy: Policy | Rule, name: str, target_secs: float | None = None, interval_ms: int = 5000
    ) -> Outcome:
        told = limits if target_secs is None else replace(limits, target_wait_secs=target_secs)
        done = simulate(trace, told, policy, lambda: start_ms, check_interval_ms=interval_ms)
        return Outcome(
            name, figures_of(done, limit_wait_secs=node_start_secs, price_per_hour=None), target_secs
        )

    threshold, per_request = run("threshold", "threshold"), run("per_request", "per_request")
    rivals = [
        run(rule, name, interval_ms=CHECK_INTERVAL_MS)
        for name, rule in (
            ("knative", Knative(_FLOOR, ceiling)),
            ("queue delay 4 s", QueueDelay(_FLOOR, ceiling)),
            ("request count 4", RequestCount(_FLOOR, ceiling)),
            ("request count 1", RequestCount(_FLOOR, ceiling, scaler_value=1)),
        )
    ]
    told = {other.policy: other.figures.wait_p95 for other in (threshold, *rivals)}
    told["start"] = node_start_secs / 2
    told |= {f"{secs:g} s": secs for secs in targets_secs}
    by_target = {
        secs: run("target_wait", f"target_wait {secs:.4g} s", secs) for secs in sorted(set(told.values()))
    }
    ours = {key: by_target[secs] for key, secs in told.items()}
    hours = zero_wait_cost_ms(trace, start_ms, _FLOOR) / _HOUR_MS
    found = verdicts(
        threshold,
        ours,
        rivals,
        clairvoyant_hours=hours,
        node_start_secs=node_start_secs,
        is_diffusion="sd_" in name,
    )
    outcomes = [threshold, per_request, *by_target.values(), *rivals]
    return Comparison(name, node_start_secs, ceiling, hours, outcomes, list(found))


def print_comparison(console: Console, comparison: Comparison) -> None:
    title = (
        f"{comparison.trace}, node start {comparison.node_start_secs:g} s, ceiling {comparison.ceiling}, "
        f"zero-wait clairvoyant {comparison.clairvoyant_hours:.1f} h"
    )
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("policy")
    for heading in ("wait p50 s", "p95 s", "p99 s", "node-hours", "/ threshold", "/ clairvoyant", "starts"):
        table.add_column(heading, justify="right")
    base = comparison.outcomes[0].figures.paid_hours
    for outcome in comparison.outcomes:
        figures = outcome.figures
        table.add_row(
            outcome.policy,
            *(f"{secs:.1f}" for secs in (figures.wait_p50, figures.wait_p95, figures.wait_p99)),
            f"{figures.paid_hours:.2f}",
            f"{figures.paid_hours / base:.3f}",
            f"{figures.paid_hours / comparison.clairvoyant_hours:.3f}",
            str(figures.starts),
        )
    console.print(table)
    for verdict in comparison.verdicts:
        colour = {"reached": "green", "frontier": "yellow", "missed": "red"}[verdict.state]
        console.print(f"  [{colour}]{verdict.state:8}[/] {verdict.goal}: {verdict.measured}", highlight=False)
    console.print()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument(
        "--traces",
        type=Path,
        nargs="+",
        required=True,
        metavar="PATH",
        help="CSV arrival_s,service_s, or a directory of them; a name with sd_ in it is Stable Diffusion's",
    )
    parser.add_argument("--node-start", type=float, nargs="+", default=[60.0, 180.0], metavar="SECS")
    parser.add_argument("--targets", type=float, nargs="*", default=_TARGETS_SECS, metavar="SECS")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there as well")
    return parser.parse_args(arguments)


def trace_paths(given: Sequence[Path]) -> list[Path]:
    """Of a directory those whose first line is a trace's."""
    paths: list[Path] = []
    for path in given:
        if path.is_dir():
            paths += sorted(file for file in path.glob("*.csv") if _is_trace(file))
        else:
            paths.append(path)
    return paths


def _is_trace(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        return file.readline().startswith("arrival_s,")


def main() -> None:
    options = parse()
    console = Console(width=max(140, Console().width))
    comparisons: list[Comparison] = []
    try:
        for path in trace_paths(options.traces):
            trace = load_trace([path])
            for secs in options.node_start:
                comparisons.append(compare(path.stem, trace, secs, options.targets))
                print_comparison(console, comparisons[-1])
    except FifoProxyError as error:
        raise SystemExit(str(error)) from None
    if not comparisons:
        raise SystemExit(f"no trace in {', '.join(map(str, options.traces))}")
    states = Counter(verdict.state for each in comparisons for verdict in each.verdicts)
    console.print(f"of {states.total()} goals: " + ", ".join(f"{n} {state}" for state, n in states.items()))
    if options.json is not None:
        written: list[dict[str, Any]] = [asdict(comparison) for comparison in comparisons]
        options.json.write_text(json.dumps(written, indent=1))


if __name__ == "__main__":
    main()
