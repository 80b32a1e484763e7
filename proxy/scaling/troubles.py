"""What goes wrong with a provider: told, counted, and tried again after 5 s, doubling to 300 s, with jitter.

Failures that come in while an operation already waits are of the same wave (40 creates refused at once) and
change nothing, except that a cloud which asks for more patience (Retry-After) always gets it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from proxy.errors import ProviderError
from proxy.stats import Stats

log = logging.getLogger(__name__)

FIRST_SECS = 5.0
LONGEST_SECS = 300.0
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


class Troubles:
    """One back-off per operation (`list`, `create`, `start`), and the errors that have not mended yet."""

    def __init__(self, stats: Stats, *, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._stats = stats
        self._clock = clock
        self._backoffs = {operation: Backoff(random) for operation in ("list", "create", "start")}
        self._errors: dict[str, str] = {}  # by operation, the latest last

    @property
    def last_error(self) -> str | None:
        return next(reversed(self._errors.values()), None)

    def delay(self, operation: str) -> float:
        """Seconds until it may be tried again, 0.0 when it may be now."""
        return self._backoffs[operation].delay(self._clock())

    def fail(self, operation: str, error: ProviderError, backoff: Backoff | None = None) -> None:
        """Count it, show it, put the next try off; `backoff` where each node has its own (`destroy`)."""
        (backoff or self._backoffs[operation]).fail(self._clock(), error)
        self._stats.scale_errors[operation] += 1
        self._errors.pop(operation, None)
        self._errors[operation] = f"{operation}: {error}"
        log.warning("%s: %s", operation, error)

    def succeed(self, operation: str) -> None:
        """It works (again): its error is not shown any more."""
        self._errors.pop(operation, None)
        if operation in self._backoffs:
            self._backoffs[operation].succeed()

    def forget(self) -> None:
        """Whatever failed may be tried at once: the configuration has changed."""
        for backoff in self._backoffs.values():
            backoff.succeed()
