"""What goes wrong with a provider: told, counted, and tried again after 5 s, doubling to 300 s, with jitter.

Failures that come in while an operation already waits are of the same wave (40 creates refused at once) and
change nothing, except that a cloud which asks for more patience (Retry-After) always gets it.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from proxy.errors import ProviderError
from proxy.health import Failing
from proxy.stats import Stats

log = logging.getLogger(__name__)

FIRST_SECS = 5.0
LONGEST_SECS = 300.0
_KEPT = 20
_DOUBLINGS = math.ceil(math.log2(LONGEST_SECS / FIRST_SECS))


class Backoff:
    """When one thing may be tried again. `random`, in [0, 1), makes it 75 % to 100 % of the nominal wait."""

    __slots__ = ("_failures", "_random", "_until")

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.succeed()

    def delay(self, now: float) -> float:
        """Seconds until the next try, 0.0 when it may be made."""
        return max(0.0, self._until - now)

    def succeed(self) -> None:
        self._failures = 0
        self._until = -math.inf

    def fail(self, now: float, error: ProviderError) -> None:
        """Put the next try off. Refused credentials do not mend by themselves: the longest wait at once."""
        if not self.delay(now):
            doublings = _DOUBLINGS if error.is_auth else min(self._failures, _DOUBLINGS)
            self._failures += 1
            nominal = min(FIRST_SECS * 2.0**doublings, LONGEST_SECS)
            self._until = now + nominal * (0.75 + self._random() / 4)
        if error.retry_after_secs is not None:
            self._until = max(self._until, now + error.retry_after_secs)


@dataclass(slots=True)
class Trouble:
    """An operation that failed `count` times with these words (the provider's own), last `at`. `in_a_row`: how
    often it has failed by then since it last worked, whatever was said; `mended_at`: None while it fails."""

    at: float
    operation: str
    detail: str
    is_auth: bool
    in_a_row: int
    count: int = 1
    mended_at: float | None = None


class Troubles:
    """One back-off per operation (`list`, `create`, `start`), the errors that have not mended yet, and the last
    ones that have. `recent`: newest first."""

    def __init__(self, stats: Stats, *, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self.recent: deque[Trouble] = deque(maxlen=_KEPT)
        self._stats = stats
        self._clock = clock
        self._backoffs = {operation: Backoff(random) for operation in ("list", "create", "start")}
        self._open: dict[str, Trouble] = {}  # by operation, the latest last

    @property
    def last_error(self) -> str | None:
        trouble = next(reversed(self._open.values()), None)
        return None if trouble is None else f"{trouble.operation}: {trouble.detail}"

    @property
    def failing(self) -> list[Failing]:
        """What fails now."""
        return [
            Failing(trouble.operation, trouble.detail, trouble.in_a_row, trouble.is_auth)
            for trouble in self._open.values()
        ]

    def delay(self, operation: str) -> float:
        """Seconds until it may be tried again, 0.0 when it may be now."""
        return self._backoffs[operation].delay(self._clock())

    def fail(self, operation: str, error: ProviderError, backoff: Backoff | None = None) -> None:
        """Count it, show it, put the next try off; `backoff` where each node has its own (`destroy`)."""
        now, detail = self._clock(), str(error)
        (backoff or self._backoffs[operation]).fail(now, error)
        self._stats.scale_errors[operation] += 1
        before = self._open.pop(operation, None)
        in_a_row = before.in_a_row + 1 if before else 1
        if before and before.detail == detail:
            before.at, before.in_a_row, before.count = now, in_a_row, before.count + 1
            self._open[operation] = before
        else:
            self._open[operation] = trouble = Trouble(now, operation, detail, error.is_auth, in_a_row)
            self.recent.appendleft(trouble)
        log.warning("%s: %s", operation, error)

    def succeed(self, operation: str) -> None:
        """It works (again): its error is not shown any more."""
        if self._open.pop(operation, None):
            for trouble in self.recent:
                if trouble.operation == operation and trouble.mended_at is None:
                    trouble.mended_at = self._clock()
        if operation in self._backoffs:
            self._backoffs[operation].succeed()

    def forget(self) -> None:
        """Whatever failed may be tried at once: the configuration has changed, or the operator says so."""
        for backoff in self._backoffs.values():
            backoff.succeed()
