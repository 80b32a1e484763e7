"""`fifo-proxy tune`: the cheapest thresholds that meet a target on the first part of a trace, checked on the rest."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any, get_args

from rich import box
from rich.console import Console
from rich.table import Table

from proxy.config import Config, parse
from proxy.errors import ConfigError
from proxy.scaling.figures import Figures, columns_of
from proxy.scaling.rules import Policy
from proxy.scaling.search import Search, Setting, Trial, TryAll
from proxy.scaling.traces import UnusableTrace
from proxy.what_if import TABLE_WIDTH, Scenario, progress_bar, rule_keys

_LADDERS: dict[str, Sequence[float]] = {
    "min_nodes": (0, 1, 2, 3, 4, 6, 8, 12, 16),
    "max_nodes": (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 64, 100, 200, 500),
    "max_scale_down_nodes": (1, 2, 4, 8, 16, 40),
    "scale_down_cooldown_secs": (0, 5, 15, 30, 60, 120, 180, 300, 600),
    "queue_scale_wait_secs": (0, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300),
    "queue_scale_count_threshold": (0, 1, 2, 3, 5, 7, 10, 15, 20, 30),
    "idle_shutdown_secs": (15, 30, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1800, 3600),
    "scale_up_cooldown_secs": (0, 5, 10, 15, 30, 60, 120),
    "target_wait_secs": (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300),
}
_NODE_KEYS = ("min_nodes", "max_nodes")
_OTHERS = (0.125, 0.25, 0.5, 1, 2, 4, 8)  # of the current value, for a key that has no ladder of its own
_WORK = 4_000_000  # requests to simulate: about a minute of one core
_TRIALS = (60, 600)  # at least, at most
_WORK_OF_A_PROCESS = 500_000  # less is done before another process has begun


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the trace under the current and the tuned setting."""

    name: str
    current: Figures
    tuned: Figures


@dataclass(frozen=True, slots=True)
class Answer:
    """`changes`: what differs from the current configuration. `parts`: the one searched on, and the one held out."""

    target_secs: float
    changes: dict[str, Any]
    parts: tuple[Part, Part]
    trials: int

    @property
    def is_met(self) -> bool:
        """On the part searched on: elsewhere nothing was chosen by it."""
        return self.parts[0].tuned.wait_p95 <= self.target_secs

    @property
    def is_held(self) -> bool:
        return self.parts[1].tuned.wait_p95 <= self.target_secs

    @property
    def saved_hours(self) -> float:
        """Over both parts; less than 0 where the tuned setting costs more."""
        return sum(part.current.paid_hours - part.tuned.paid_hours for part in self.parts)

    @property
    def saved_share(self) -> float:
        return self.saved_hours / sum(part.current.paid_hours for part in self.parts)


def tune(
    scenario: Scenario,
    base: Mapping[str, Any],
    current: Config,
    *,
    target_secs: float,
    max_nodes: int | None,
    held_out: float,
    trials: int | None,
    jobs: int | None,
) -> Answer:
    """`base`: the current configuration as it was read, `current` as it is meant. `held_out`: share of the trace's
    time, its end. Raises UnusableTrace and UnusableNodeStart."""
    searched, rest = split(scenario, held_out)
    length = len(searched.trace)
    if trials is None:
        trials = min(max(_WORK // length, _TRIALS[0]), _TRIALS[1])
    if jobs is None:
        jobs = min(os.cpu_count() or 1, trials * length // _WORK_OF_A_PROCESS + 1)
    now = {key: getattr(current, key) for key in rule_keys()}
    ladders = ladders_of(now, max_nodes or current.max_nodes)
    most = ladders["max_nodes"][-1]
    within = {**now, **{key: min(now[key], most) for key in _NODE_KEYS}}
    # As good a place to begin as the current one, where that is far from any target: everything rather short and low.
    swift = {key: ladder[len(ladder) // 4] for key, ladder in ladders.items()} | {
        "min_nodes": within["min_nodes"]
    }
    first: list[Setting] = [within]
    for policy in ladders["scaling_policy"]:
        first += [{**setting, "scaling_policy": policy, "max_nodes": most} for setting in (within, swift)]
    with progress_bar() as progress, _trying(searched, base, jobs) as try_all:
        task = progress.add_task("tuning", total=trials)

        def try_and_show(settings: Sequence[Setting]) -> Iterator[Trial | None]:
            for trial in try_all(settings):
                progress.advance(task)
                yield trial

        search = Search(
            ladders, now, try_and_show, target_secs=target_secs, trials=trials, seed=scenario.seed
        )
        best = search.run(first, "scaling_policy")
    if best is None:
        raise UnusableTrace("no setting can serve this trace")
    changes = {key: value for key, value in best.setting.items() if value != now[key]}
    tuned = parse({**base, **changes}, serving=False)
    parts = [
        Part(name, part.figures(part.replay(current)), part.figures(part.replay(tuned)))
        for name, part in (("searched", searched), ("held out", rest))
    ]
    return Answer(target_secs, changes, (parts[0], parts[1]), search.tried)


def split(scenario: Scenario, held_out: float) -> tuple[Scenario, Scenario]:
    """The same with the first part of the trace and with the rest, by time. Raises UnusableTrace."""
    trace = scenario.trace
    first, last = trace.arrival_ms[0], trace.arrival_ms[-1]
    cut = bisect_right(trace.arrival_ms, first + (last - first) * (1 - held_out))
    if cut == len(trace):
        raise UnusableTrace(f"{len(trace)} requests are too few to hold a part of them out")
    return replace(scenario, trace=trace.part(0, cut)), replace(scenario, trace=trace.part(cut, len(trace)))


def ladders_of(now: Mapping[str, Any], max_nodes: int) -> dict[str, list[Any]]:
    """Values to try for each key that the rules decide by, its current one among them unless it is more nodes
    than `max_nodes`."""
    ladders: dict[str, list[Any]] = {}
    for key, value in now.items():
        if key == "scaling_policy":
            ladders[key] = list(get_args(Policy))
            continue
        rungs = {*(_LADDERS.get(key) or [type(value)(value * factor) for factor in _OTHERS]), value}
        if key in _NODE_KEYS:
            rungs = {rung for rung in {*rungs, max_nodes} if rung <= max_nodes}
        ladders[key] = sorted(rungs)
    return ladders


@contextmanager
def _trying(scenario: Scenario, base: Mapping[str, Any], jobs: int) -> Iterator[TryAll]:
    """Trials in this process or in `jobs` others; the answers are the same."""
    try_one = partial(_try, scenario, base)
    if jobs == 1:
        yield partial(map, try_one)
        return
    # Not forked: the progress bar has a thread, and what it holds would be held for ever in a fork.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield partial(pool.map, try_one)


def _try(scenario: Scenario, base: Mapping[str, Any], setting: Setting) -> Trial | None:
    try:
        config = parse({**base, **setting}, serving=False)
    except ConfigError:
        return None
    try:
        figures = scenario.figures(scenario.replay(config))
    except UnusableTrace:
        return None
    return Trial(setting, figures.wait_p95, figures.paid_hours)


def show(answer: Answer, scenario: Scenario, *, as_json: bool) -> None:
    """Print what was found: text, or one JSON object."""
    if as_json:
        print(json.dumps(_as_json(answer, scenario.price_per_hour), indent=2))
        return
    console = Console(width=max(Console().width, TABLE_WIDTH))
    searched, held_out = answer.parts
    target = f"p95 wait of {answer.target_secs:g} s"
    if answer.is_met:
        console.print(
            f"The cheapest of {answer.trials} settings with a {target}, to paste into the configuration:"
        )
    else:
        console.print(f"None of {answer.trials} settings meets a {target}. The nearest:")
    console.print_json(json.dumps(answer.changes)) if answer.changes else console.print("(the current one)")
    console.print(_table(answer.parts, scenario.limit_wait_secs))
    words = (
        "saves {:.2f} node-hours ({:.1%}{})"
        if answer.saved_hours >= 0
        else "costs {:.2f} node-hours more ({:.1%}{})"
    )
    price = scenario.price_per_hour
    money = "" if price is None else f", {abs(answer.saved_hours) * price:.2f} at {price:g} each"
    told = words.format(abs(answer.saved_hours), abs(answer.saved_share), money)
    if answer.changes:
        console.print(f"Against the current one it {told}.")
    if searched.current.wait_p95 > answer.target_secs:
        console.print(f"The current one misses the target: p95 wait {searched.current.wait_p95:.1f} s.")
    if answer.is_met and not answer.is_held:
        console.print(
            f"On the part held out it misses the target: p95 wait {held_out.tuned.wait_p95:.1f} s. "
            "Leave a margin, or tune on a longer trace."
        )


def _table(parts: Iterable[Part], limit_wait_secs: float) -> Table:
    rows = [
        (part.name, word, figures)
        for part in parts
        for word, figures in (("current", part.current), ("tuned", part.tuned))
    ]
    columns = columns_of([figures for _, _, figures in rows], limit_wait_secs)
    table = Table(box=box.SIMPLE)
    table.add_column("part")
    table.add_column("setting")
    for name in columns:
        table.add_column(name, justify="right")
    for (name, word, _), *cells in zip(rows, *columns.values(), strict=True):
        table.add_row(name, word, *cells)
    return table


def _as_json(answer: Answer, price: float | None) -> dict[str, Any]:
    searched, held_out = answer.parts
    return {
        "target_p95_wait": answer.target_secs,
        "meets_target": answer.is_met,
        "meets_target_held_out": answer.is_held,
        "changes": answer.changes,
        "saved_node_hours": answer.saved_hours,
        "saved_share": answer.saved_share,
        "saved_cost": None if price is None else answer.saved_hours * price,
        "searched": {"current": asdict(searched.current), "tuned": asdict(searched.tuned)},
        "held_out": {"current": asdict(held_out.current), "tuned": asdict(held_out.tuned)},
        "trials": answer.trials,
    }
