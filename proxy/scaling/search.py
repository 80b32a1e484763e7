"""The cheapest setting whose waits meet a target: a search over ladders of values, by trials that cost time.

First settings by chance over all of the ladders, then steps: from the best setting of each policy to its best
neighbour, one rung of one ladder away, until none is better; then two or three keys at once, a few rungs each, since
one may make up for another, and steps again, as long as trials are left. Last,
every change that brings nothing is taken back. Always: the same seed and trials lead to the same answer; no more
trials are asked for than were allowed, and none twice. Pure apart from `try_all`, which does the trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Setting = Mapping[str, Any]

_BY_CHANCE = 0.4  # of the trials
_SHAKES = 16  # at once
_FRUITLESS = 20  # times in a row without any new setting, after which all are taken to be known
_NEAR = 2  # rungs
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

        `first`, values on the ladders, are tried before anything else; steps begin at the best setting of each
        value of the key `kinds`.
        """
        by_chance = [self._draw() for _ in range(int(self._left * _BY_CHANCE))]
        found = self._try([*first, *by_chance])
        if not found:
            return None
        starts = {trial.setting[kinds]: trial for trial in sorted(found, key=self.rank, reverse=True)}
        best = min((self._climb(start) for start in starts.values()), key=self.rank)
        fruitless = 0
        while self._left > 0 and fruitless < _FRUITLESS:
            tried = self.tried
            near = self._try([self._shake(best.setting) for _ in range(_SHAKES)])
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

    def _climb(self, trial: Trial) -> Trial:
        while True:
            best = min(self._try(self._neighbours(trial.setting)), key=self.rank, default=trial)
            if self.rank(best) >= self.rank(trial):
                return trial
            trial = best

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

    def _neighbours(self, setting: Setting) -> list[Setting]:
        found: list[Setting] = []
        for key, ladder in self._ladders.items():
            place = ladder.index(setting[key])
            found += [{**setting, key: value} for value in ladder[max(0, place - 1) : place + 2]]
        return found

    def _draw(self) -> Setting:
        return {key: self._random.choice(ladder) for key, ladder in self._ladders.items()}

    def _shake(self, setting: Setting) -> Setting:
        """Two or three of its values others, near ones or any."""
        random, shaken = self._random, dict(setting)
        is_near = random.random() < 0.5
        for key in random.sample(list(self._ladders), min(random.choice((2, 3)), len(self._ladders))):
            ladder = self._ladders[key]
            place = ladder.index(setting[key])
            near = ladder[max(0, place - _NEAR) : place + _NEAR + 1]
            shaken[key] = random.choice(near if is_near else ladder)
        return shaken

    def _try(self, settings: Iterable[Setting]) -> list[Trial]:
        """What is known of these, new ones tried as far as the allowance goes; without those that cannot be."""
        by_key = {self._key(setting): setting for setting in settings}
        new = [key for key in by_key if key not in self._known][: self._left]
        self._left -= len(new)
        self._known.update(zip(new, self._try_all([by_key[key] for key in new]), strict=True))
        return [trial for key in by_key if (trial := self._known.get(key)) is not None]

    def _key(self, setting: Setting) -> tuple[Any, ...]:
        return tuple(setting[key] for key in self._ladders)
