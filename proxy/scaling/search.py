"""The cheapest setting whose waits meet a target: a search over ladders of values, by trials that cost time.

First settings by chance over all of the ladders, then children of the best ones, so that values which go well together
meet. Then steps from the best: a rung along one ladder after another until no step is better, then some values at
once, since one may make up for another, and steps again. Last, every change that brings nothing is taken back.
Always: the same seed and trials lead to the same answer; no setting is tried twice; more trials than were allowed are
asked for only to take changes back. Pure apart from `try_all`, which does the trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Setting = Mapping[str, Any]

_BY_CHANCE = 0.25  # of the trials
_FOR_STEPS = 0.35  # of the rest
_PARENTS, _PARENTS_OF_A_KIND = 10, 3
_CHILDREN = 12  # at once
_FRUITLESS = 20  # times in a row without any new setting, after which all are taken to be known
_NEAR, _FAR = 2, 0.25  # rungs; how often any value instead
_WORTH = 0.002  # of the cost: a change that saves less is taken back


@dataclass(frozen=True, slots=True)
class Trial:
    """What a setting, a value for each key, came to."""

    setting: Setting
    wait_p95: float
    paid_hours: float


TryAll = Callable[[Sequence[Setting]], Iterable[Trial | None]]


class Search:
    """`ladders`: the values to try for each key, in order; changes of `current` are taken back only to what is among
    them. `try_all` tries settings and
    answers in their order, None for one that contradicts itself."""

    def __init__(
        self,
        ladders: Mapping[str, Sequence[Any]],
        current: Setting,
        try_all: TryAll,
        *,
        target_secs: float,
        trials: int,
        seed: int,
    ) -> None:
        self._ladders = ladders
        self._current = current
        self._try_all = try_all
        self._target = target_secs
        self._left = trials
        self._random = Random(seed)
        self._known: dict[tuple[Any, ...], Trial | None] = {}

    @property
    def tried(self) -> int:
        return len(self._known)

    def run(self, first: Sequence[Setting], kinds: str) -> Trial | None:
        """The best trial: the cheapest that meets the target, or the one nearest to it; None: no setting can be.

        `first`, values on the ladders, are tried before anything else; the best of each value of the key
        `kinds` have children, however much better another kind does.
        """
        by_chance = [self._draw() for _ in range(int(self._left * _BY_CHANCE))]
        found = self._try([*first, *by_chance])
        if not found:
            return None
        best = self._climb(self._breed(kinds))
        fruitless = 0
        while self._left > 0 and fruitless < _FRUITLESS:
            tried = self.tried
            near = self._try([self._child([best], most=3) for _ in range(_CHILDREN)])
            best = self._climb(min([best, *near], key=self.rank))
            fruitless = 0 if self.tried > tried else fruitless + 1
        return self._simplify(best)

    def is_met(self, trial: Trial) -> bool:
        return trial.wait_p95 <= self._target

    def rank(self, trial: Trial) -> tuple[bool, float, float]:
        """Less is better: of those that meet the target the cheapest, else the shortest wait."""
        if self.is_met(trial):
            return False, trial.paid_hours, trial.wait_p95
        return True, trial.wait_p95, trial.paid_hours

    def _breed(self, kinds: str) -> Trial:
        """Children of the best, until what is left is needed for the steps."""
        fruitless, reserve = 0, int(self._left * _FOR_STEPS)
        while True:
            ranked = sorted((trial for trial in self._known.values() if trial), key=self.rank)
            if self._left <= reserve or fruitless >= _FRUITLESS:
                return ranked[0]
            parents = ranked[:_PARENTS]
            for value in self._ladders[kinds]:
                parents += [trial for trial in ranked if trial.setting[kinds] == value][:_PARENTS_OF_A_KIND]
            tried = self.tried
            self._try([self._child(parents) for _ in range(_CHILDREN)])
            fruitless = 0 if self.tried > tried else fruitless + 1

    def _child(self, parents: Sequence[Trial], *, most: int = 2) -> Setting:
        """Each value from one of two; of at most so many of them another one, near it or any."""
        random = self._random
        one, other = random.choice(parents).setting, random.choice(parents).setting
        child = {key: random.choice((one[key], other[key])) for key in self._ladders}
        for key in random.sample(list(self._ladders), random.randint(0, min(most, len(self._ladders)))):
            ladder = self._ladders[key]
            place = ladder.index(child[key])
            near = ladder[max(0, place - _NEAR) : place + _NEAR + 1]
            child[key] = random.choice(ladder if random.random() < _FAR else near)
        return child

    def _climb(self, trial: Trial) -> Trial:
        """Key by key along its ladder, as long as that helps, until no key helps any more."""
        keys = list(self._ladders)
        unhelpful = 0
        while unhelpful < len(keys):
            key = keys[unhelpful]
            best = min([trial, *self._try(self._beside(trial.setting, key))], key=self.rank)
            if self.rank(best) < self.rank(trial):
                trial = best
                keys = keys[unhelpful:] + keys[:unhelpful]
                unhelpful = 0
            else:
                unhelpful += 1
        return trial

    def _simplify(self, best: Trial) -> Trial:
        """These few trials may go beyond the allowance: without them the answer would be cluttered."""
        while True:
            changed = [
                key
                for key, ladder in self._ladders.items()
                if best.setting[key] != self._current[key] and self._current[key] in ladder
            ]
            simpler = [{**best.setting, key: self._current[key]} for key in changed]
            self._left = max(self._left, len(simpler))
            limit = best.paid_hours * (1 + _WORTH)
            good = [
                trial
                for trial in self._try(simpler)
                if self.rank(trial) <= self.rank(best) or (self.is_met(trial) and trial.paid_hours <= limit)
            ]
            if not good:
                return best
            best = min(good, key=self.rank)

    def _beside(self, setting: Setting, key: str) -> list[Setting]:
        ladder = self._ladders[key]
        place = ladder.index(setting[key])
        return [{**setting, key: value} for value in ladder[max(0, place - 1) : place + 2]]

    def _draw(self) -> Setting:
        return {key: self._random.choice(ladder) for key, ladder in self._ladders.items()}

    def _try(self, settings: Iterable[Setting]) -> list[Trial]:
        """What is known of these, new ones tried as far as the allowance goes; without those that cannot be."""
        by_key = {self._key(setting): setting for setting in settings}
        new = [key for key in by_key if key not in self._known][: self._left]
        self._left -= len(new)
        self._known.update(zip(new, self._try_all([by_key[key] for key in new]), strict=True))
        return [trial for key in by_key if (trial := self._known.get(key)) is not None]

    def _key(self, setting: Setting) -> tuple[Any, ...]:
        return tuple(setting[key] for key in self._ladders)
