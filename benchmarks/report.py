"""Medians, ratios and goals of a run, as tables and as JSON.

A ratio is the median of the rounds' own ratios: both sides of each were measured within the same minute, so
what the machine does over the length of the run cancels out. Absolute figures are context only.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.scenario import Figure, Goal, Sample, Scenario

SampleKey = tuple[str, str]  # case, target


@dataclass(slots=True)
class Result:
    """All samples of a scenario: one for each round, None where it failed (the reason is in `failures`)."""

    scenario: Scenario
    subject: str
    targets: Sequence[str]
    cases: Sequence[str]
    samples: dict[SampleKey, list[Sample | None]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, case: str, target: str, sample: Sample | None) -> None:
        self.samples.setdefault((case, target), []).append(sample)

    def values(self, case: str, target: str, figure: str) -> list[float | None]:
        """By round."""
        samples = self.samples.get((case, target), [])
        return [None if sample is None else sample.figures.get(figure) for sample in samples]

    def median(self, case: str, target: str, figure: str) -> float | None:
        known = [value for value in self.values(case, target, figure) if value is not None]
        return statistics.median(known) if known else None

    def ratio(self, figure: str, one: SampleKey, other: SampleKey) -> float | None:
        """`one` / `other`, the median over the rounds that have both."""
        pairs = zip(self.values(*one, figure), self.values(*other, figure), strict=False)
        ratios = [a / b for a, b in pairs if a is not None and b is not None and b > 0]
        return statistics.median(ratios) if ratios else None

    def faults(self, case: str, target: str) -> dict[str, int]:
        """Summed over the rounds, only those that happened."""
        total: dict[str, int] = {}
        for sample in self.samples.get((case, target), []):
            for name, count in sample.faults.items() if sample else ():
                if count:
                    total[name] = total.get(name, 0) + count
        return total


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal held against what was measured; `measured` is None where it was not."""

    goal: Goal
    what: str
    against: str
    measured: float | None

    @property
    def is_reached(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured >= self.goal.bound if self.goal.at_least else self.measured <= self.goal.bound

    @property
    def target(self) -> str:
        return f"{'≥' if self.goal.at_least else '≤'} {self.goal.bound:g}"


def verdicts(result: Result) -> Iterator[Verdict]:
    """One for each goal whose case was measured."""
    titles = {figure.key: figure for figure in result.scenario.figures}
    for goal in result.scenario.goals:
        if goal.case not in result.cases:
            continue
        figure, ours = titles[goal.figure], (goal.case, result.subject)
        if goal.peer is not None:
            against, measured = f"x {goal.peer}", result.ratio(goal.figure, ours, (goal.case, goal.peer))
        elif goal.base_case is not None:
            against = f"x {goal.base_case}"
            measured = result.ratio(goal.figure, ours, (goal.base_case, result.subject))
        else:
            against, measured = figure.unit, result.median(*ours, goal.figure)
        yield Verdict(goal, f"{figure.title}, {goal.case}", against, measured)


def print_result(console: Console, result: Result) -> None:
    peers = [name for name in result.targets if name != result.subject]
    has_subject = result.subject in result.targets
    table = Table(title=result.scenario.title, title_justify="left", title_style="bold")
    table.add_column("case")
    table.add_column("figure")
    for name in result.targets:
        table.add_column(name, justify="right")
    for name in peers if has_subject else ():
        table.add_column(f"/ {name}", justify="right", style="bold")
    for case in result.cases:
        for figure in result.scenario.figures:
            medians = [result.median(case, name, figure.key) for name in result.targets]
            if all(value is None for value in medians):
                continue
            ratios = [
                result.ratio(figure.key, (case, result.subject), (case, name))
                for name in (peers if has_subject else ())
            ]
            unit = f" ({figure.unit})" if figure.unit else ""
            table.add_row(
                case,
                figure.title + unit,
                *(_shown(value, figure) for value in medians),
                *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
            )
        table.add_section()
    console.print(table)
    for (case, target), _ in result.samples.items():
        for name, count in result.faults(case, target).items():
            console.print(f"  [yellow]{target}, {case}: {name}: {count}[/]")
    for failure in result.failures:
        console.print(f"  [red]failed:[/] {escape(failure)}", highlight=False)


def print_goals(console: Console, results: Sequence[Result]) -> None:
    table = Table(title="Goals", title_justify="left", title_style="bold")
    for column in ("scenario", "what", "against"):
        table.add_column(column)
    for column in ("goal", "measured", "reached"):
        table.add_column(column, justify="right")
    for result in results:
        for verdict in verdicts(result):
            shown = "-" if verdict.measured is None else f"{verdict.measured:.2f}"
            reached = {True: "[green]yes[/]", False: "[red]no[/]", None: "not measured"}[verdict.is_reached]
            table.add_row(result.scenario.name, verdict.what, verdict.against, verdict.target, shown, reached)
        table.add_section()
    console.print(table)


def _shown(value: float | None, figure: Figure) -> str:
    return "" if value is None else f"{value:,.{figure.digits}f}"


def as_json(results: Sequence[Result], about: Mapping[str, Any]) -> dict[str, Any]:
    """Everything: about the run, medians, ratios, each round's figures, goals."""
    return {"about": dict(about), "scenarios": [_result_as_json(result) for result in results]}


def _result_as_json(result: Result) -> dict[str, Any]:
    keys = [figure.key for figure in result.scenario.figures]
    measurements = []
    for case, target in result.samples:
        ours, theirs = (case, result.subject), (case, target)
        measurements.append(
            {
                "case": case,
                "target": target,
                "rounds": [sample and sample.figures for sample in result.samples[theirs]],
                "medians": {key: result.median(*theirs, key) for key in keys},
                "ours_to_this": {key: result.ratio(key, ours, theirs) for key in keys},
                "faults": result.faults(*theirs),
            }
        )
    return {
        "name": result.scenario.name,
        "title": result.scenario.title,
        "measurements": measurements,
        "goals": [
            {
                "what": verdict.what,
                "against": verdict.against,
                "goal": verdict.target,
                "measured": verdict.measured,
                "is_reached": verdict.is_reached,
            }
            for verdict in verdicts(result)
        ],
        "failures": result.failures,
    }
