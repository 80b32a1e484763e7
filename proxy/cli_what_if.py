"""The commands that ask what would have been, `simulate` and `tune`. They share how the trace and the world are told.

As in `cli.py`, what a command needs is imported when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from proxy.what_if import Scenario

Command = Callable[..., Any]

_SCENARIO = (
    click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path)),
    click.option(
        "--config",
        "config_path",
        metavar="PATH",
        type=click.Path(path_type=Path),
        help="Configuration with the current thresholds; without it, the defaults.",
    ),
    click.option(
        "--set", "sets", metavar="KEY=VALUE", multiple=True, help="Another value for a key; may be repeated."
    ),
    click.option(
        "--node-start",
        "start",
        metavar="SPEC",
        default="const:60",
        show_default=True,
        help="How long a node takes to start, in seconds: const:60, uniform:40,90, lognorm:60,0.3 (median, sigma) "
        "or file:quantiles.csv.",
    ),
    click.option(
        "--failed-starts",
        metavar="SHARE",
        type=click.FloatRange(min=0, max=1, max_open=True),
        default=0.0,
        help="Share of node starts, from 0 to below 1, that fail: paid until node_start_timeout_secs.",
    ),
    click.option(
        "--node-deaths",
        metavar="PER_HOUR",
        type=click.FloatRange(min=0),
        default=0.0,
        help="Deaths for each hour that a node is ready; the request it runs fails, and it is paid until "
        "unready_destroy_secs.",
    ),
    click.option(
        "--seed",
        type=int,
        default=0,
        show_default=True,
        help="For what happens by chance; the same seed repeats it.",
    ),
    click.option(
        "--price-per-hour", metavar="PRICE", type=click.FloatRange(min=0), help="Of one node; adds the cost."
    ),
    click.option(
        "--limit-wait",
        metavar="SECONDS",
        type=click.FloatRange(min=0),
        default=60.0,
        show_default=True,
        help="Shows the share of requests that waited longer.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)


def scenario_options(command: Command) -> Command:
    """The trace and what both commands say about the world."""
    for option in reversed(_SCENARIO):
        command = option(command)
    return command


@click.command()
@scenario_options
@click.option(
    "--sweep",
    "sweeps",
    metavar="KEY=A,B,C",
    multiple=True,
    help="Several values for a key, a row for each combination; may be repeated.",
)
@click.option("--policy", metavar="NAME", help="Another scaling_policy: threshold, per_request, target_wait.")
@click.option(
    "--report",
    metavar="FILE.html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page with pictures: the run over time or, of a sweep, cost against wait.",
)
def simulate(
    config_path: Path | None,
    sets: tuple[str, ...],
    sweeps: tuple[str, ...],
    policy: str | None,
    report: Path | None,
    as_json: bool,
    **world: Any,
) -> None:
    """Replay a trace through the real rules in virtual time: what would other thresholds have done?

    TRACE is CSV with the header arrival_s,service_s (when each request arrived and how long a node works on it, in
    seconds, sorted by arrival), or the proxy's own request log as it is, JSON lines or CSV; several files, as of a
    rotated log, are taken together.
    """
    from proxy import what_if
    from proxy.errors import ConfigError
    from proxy.scaling.traces import UnusableNodeStart, UnusableTrace

    try:
        settings = what_if.settings_of(config_path, sets, sweeps, policy)
        scenario = load_scenario(**world)
        results = what_if.run_all(scenario, settings)
    except ConfigError as error:
        refuse(error.faults)
    except (UnusableTrace, UnusableNodeStart) as error:
        refuse([str(error)])
    if report is not None:
        name = ", ".join(path.name for path in world["traces"])
        try:
            what_if.write_report(report, name, scenario, results)
        except OSError as error:
            click.echo(f"fifo-proxy: {report}: {error.strerror}", err=True)
            sys.exit(1)
    what_if.show(results, as_json=as_json, limit_wait_secs=scenario.limit_wait_secs)


@click.command()
@scenario_options
@click.option(
    "--target-p95-wait",
    "target_secs",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    required=True,
    help="The wait that 95 of 100 requests must not exceed.",
)
@click.option(
    "--max-nodes",
    metavar="N",
    type=click.IntRange(min=1),
    help="The most nodes to try; without it, the current max_nodes.",
)
@click.option(
    "--held-out",
    metavar="SHARE",
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    default=0.33,
    show_default=True,
    help="Share of the trace's time, its end, that nothing is chosen by: the answer is checked on it.",
)
@click.option(
    "--trials",
    metavar="N",
    type=click.IntRange(min=1),
    help="Settings to try; without it, as many as take about a minute, at most 600.",
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Processes to try them in; without it, one for each core where that is worth it.",
)
def tune(
    config_path: Path | None,
    sets: tuple[str, ...],
    target_secs: float,
    max_nodes: int | None,
    held_out: float,
    trials: int | None,
    jobs: int | None,
    as_json: bool,
    **world: Any,
) -> None:
    """Find the cheapest thresholds and policy that meet a target for the wait.

    TRACE is as for simulate. Settings are tried on its first part; the best one is then checked on the part held
    out, and printed as what to change in the configuration. Exit code 1: none meets the target, the nearest is
    printed. The same --seed gives the same answer.
    """
    from proxy import tune as tuning
    from proxy import what_if
    from proxy.errors import ConfigError
    from proxy.scaling.traces import UnusableNodeStart, UnusableTrace

    try:
        base = what_if.base_of(config_path, sets)
        ((_, current),) = what_if.settings_of(config_path, sets, (), None)
        scenario = load_scenario(**world)
        answer = tuning.tune(
            scenario,
            base,
            current,
            target_secs=target_secs,
            max_nodes=max_nodes,
            held_out=held_out,
            trials=trials,
            jobs=jobs,
        )
    except ConfigError as error:
        refuse(error.faults)
    except (UnusableTrace, UnusableNodeStart) as error:
        refuse([str(error)])
    tuning.show(answer, scenario, as_json=as_json)
    sys.exit(0 if answer.is_met else 1)


def load_scenario(
    *,
    traces: tuple[Path, ...],
    start: str,
    failed_starts: float,
    node_deaths: float,
    seed: int,
    price_per_hour: float | None,
    limit_wait: float,
) -> Scenario:
    """The options of `scenario_options`. Raises UnusableTrace."""
    from proxy.scaling.trace_files import load_trace
    from proxy.what_if import Scenario

    trace = load_trace(traces)
    if trace.left_out:
        click.echo(f"lines without a run, left out: {trace.left_out}", err=True)
    return Scenario(
        trace,
        start=start,
        seed=seed,
        failed_starts=failed_starts,
        node_deaths=node_deaths,
        limit_wait_secs=limit_wait,
        price_per_hour=price_per_hour,
    )


def refuse(faults: list[str]) -> NoReturn:
    """Bad usage or configuration, a line for each fault."""
    for fault in faults:
        click.echo(fault, err=True)
    sys.exit(2)
