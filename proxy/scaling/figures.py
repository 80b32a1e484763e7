"""What a simulated run comes to: waits, node-hours, cost, failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.scaling.rules import Up
from proxy.scaling.simulate import Run

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Waits in seconds, `late_share` of those that waited longer than the limit; node time in hours; `starts` of nodes
    and `actions` of the scaler; `cost` in the price's currency, None without a price. Of the requests
    `failed_requests` were cut by one of the `node_deaths`: what they ran is not useful."""

    requests: int
    wait_p50: float
    wait_p95: float
    wait_p99: float
    wait_max: float
    late_share: float
    paid_hours: float
    useful_hours: float
    utilisation: float
    peak_nodes: int
    starts: int
    actions: int
    cost: float | None
    failed_requests: int = 0
    failed_starts: int = 0
    node_deaths: int = 0


def figures_of(run: Run, *, limit_wait_secs: float, price_per_hour: float | None) -> Figures:
    """The figures of a run."""
    waits = sorted(run.wait_ms)
    paid, useful = run.paid_ms / _HOUR_MS, run.busy_ms / _HOUR_MS
    late = sum(wait > limit_wait_secs * 1000 for wait in waits)
    return Figures(
        requests=len(waits),
        wait_p50=percentile(waits, 50) / 1000,
        wait_p95=percentile(waits, 95) / 1000,
        wait_p99=percentile(waits, 99) / 1000,
        wait_max=(waits[-1] if waits else 0) / 1000,
        late_share=late / len(waits) if waits else 0.0,
        paid_hours=paid,
        useful_hours=useful,
        utilisation=useful / paid if paid else 0.0,
        peak_nodes=run.peak_nodes,
        starts=sum(action.count for _, action in run.actions if isinstance(action, Up)),
        actions=len(run.actions),
        cost=None if price_per_hour is None else paid * price_per_hour,
        failed_requests=len(run.cut_ms),
        failed_starts=run.failed_starts,
        node_deaths=sum(life.died_ms is not None for life in run.nodes),
    )


def columns_of(figures: Sequence[Figures], limit_wait_secs: float) -> dict[str, list[str]]:
    """The figures as a table: each column's heading and cells. Cost and failures where there are any."""
    columns = {
        "wait p50": [f"{each.wait_p50:.1f} s" for each in figures],
        "p95": [f"{each.wait_p95:.1f} s" for each in figures],
        "p99": [f"{each.wait_p99:.1f} s" for each in figures],
        "max": [f"{each.wait_max:.1f} s" for each in figures],
        f"> {limit_wait_secs:g} s": [f"{each.late_share:.1%}" for each in figures],
        "paid h": [f"{each.paid_hours:.2f}" for each in figures],
        "useful h": [f"{each.useful_hours:.2f}" for each in figures],
        "used": [f"{each.utilisation:.1%}" for each in figures],
        "peak": [str(each.peak_nodes) for each in figures],
        "starts": [str(each.starts) for each in figures],
        "actions": [str(each.actions) for each in figures],
    }
    if any(each.failed_starts or each.node_deaths for each in figures):
        columns["failed starts"] = [str(each.failed_starts) for each in figures]
        columns["deaths"] = [str(each.node_deaths) for each in figures]
        columns["failed requests"] = [str(each.failed_requests) for each in figures]
    if any(each.cost is not None for each in figures):
        columns["cost"] = ["" if each.cost is None else f"{each.cost:.2f}" for each in figures]
    return columns


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Linear between neighbours, as numpy's default; 0 of nothing."""
    if not ordered:
        return 0.0
    at = (len(ordered) - 1) * percent / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
