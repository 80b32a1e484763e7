"""Monotonic seconds to wall-clock time, in one place.

Always: everything inside keeps monotonic seconds; only what people read is RFC 3339 UTC.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import overload

_DRIFT_SECS = 0.5


def rfc3339(unix: float) -> str:
    """Unix seconds as RFC 3339 UTC with milliseconds: `2026-01-31T12:00:00.250Z`."""
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rfc3339_exact(unix: float) -> str:
    """The same with microseconds."""
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Clock:
    """A pair of clocks read together. The same monotonic instant is the same text each time it is shown."""

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._offset = wall() - monotonic()

    def now(self) -> float:
        """Monotonic seconds. The pair is taken anew only when the wall clock was set or the machine slept."""
        now = self._monotonic()
        offset = self._wall() - now
        if abs(offset - self._offset) > _DRIFT_SECS:
            self._offset = offset
        return now

    @overload
    def utc(self, at: float) -> str: ...
    @overload
    def utc(self, at: None) -> None: ...
    @overload
    def utc(self, at: float | None) -> str | None: ...
    def utc(self, at: float | None) -> str | None:
        """A monotonic instant as RFC 3339 UTC."""
        return None if at is None else rfc3339(at + self._offset)

    def utc_exact(self, at: float) -> str:
        """The same with microseconds, for machines."""
        return rfc3339_exact(self.unix(at))

    def unix(self, at: float) -> float:
        """A monotonic instant as Unix seconds."""
        return at + self._offset
