"""The words of a measurement: figures, samples of them, goals, and the scenario that has all three."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.bench import Bench
from benchmarks.targets import Target


@dataclass(frozen=True, slots=True)
class Figure:
    """What is measured; `key` is its name in samples and in JSON."""

    key: str
    title: str
    unit: str = ""
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Goal:
    """What to reach: `figure` of ours in `case`, held against a peer's (ratio), against ours in `base_case`
    (ratio), or taken as it is; at most, or at least, `bound`."""

    figure: str
    case: str
    bound: float
    at_least: bool = False
    peer: str | None = None
    base_case: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one target: figures by key; faults by name, each of which should be 0."""

    figures: dict[str, float]
    faults: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A family of measurements. `measure(bench, target, case)` starts and stops all it needs."""

    name: str
    title: str
    figures: tuple[Figure, ...]
    cases: tuple[str, ...]
    peers: tuple[str, ...]
    goals: tuple[Goal, ...]
    measure: Callable[[Bench, Target, str], Sample]
    max_rounds: int = 100
    quick_cases: tuple[str, ...] | None = None

    def cases_for(self, is_quick: bool) -> Sequence[str]:
        return self.quick_cases if is_quick and self.quick_cases else self.cases
