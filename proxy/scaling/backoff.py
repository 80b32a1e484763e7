"""When a call that failed may be made again: after 5 s, doubling to 300 s, with jitter.

Failures that come in while it already waits are of the same wave (40 creates refused at once) and change
nothing, except that a cloud which asks for more patience (Retry-After) always gets it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

FIRST_SECS = 5.0
LONGEST_SECS = 300.0
_DOUBLINGS = math.ceil(math.log2(LONGEST_SECS / FIRST_SECS))


class Backoff:
    """`random` gives numbers in [0, 1): a wait is 75 % to 100 % of its nominal length."""

    __slots__ = ("_failures", "_random", "_until")

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.succeed()

    def is_waiting(self, now: float) -> bool:
        return now < self._until

    def remaining(self, now: float) -> float:
        """Seconds until the next try, 0.0 when it may be made."""
        return max(0.0, self._until - now)

    def succeed(self) -> None:
        self._failures = 0
        self._until = -math.inf

    def fail(self, now: float, *, retry_after_secs: float | None = None, is_auth: bool = False) -> None:
        """Put the next try off. Refused credentials do not mend by themselves: the longest wait at once."""
        if not self.is_waiting(now):
            doublings = _DOUBLINGS if is_auth else self._failures
            self._failures += 1
            nominal = min(FIRST_SECS * 2.0 ** min(doublings, _DOUBLINGS), LONGEST_SECS)
            self._until = now + nominal * (0.75 + self._random() / 4)
        if retry_after_secs is not None:
            self._until = max(self._until, now + retry_after_secs)
