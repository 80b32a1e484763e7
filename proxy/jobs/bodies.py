"""Bodies that are too large for their job's row: where they are kept differs, what is asked of it does
not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from proxy.jobs.job import Content

PIECE_BYTES = 262144  # read and written at once


class Bodies(ABC):
    """Each is written once, whole and durably, under a new key, before any row names it."""

    @abstractmethod
    async def write(self, content: Content) -> str:
        """Its key. Raises `StoreFull`, `StoreUnavailable`, and leaves nothing then."""

    @abstractmethod
    async def read(self, key: str, offset: int, length: int) -> bytes:
        """`length` bytes, which are there. Raises `BodyGone`."""

    @abstractmethod
    async def delete(self, keys: Sequence[str]) -> None:
        """Those that are there."""

    @abstractmethod
    def suspect(self, key: str | None) -> None:
        """Perhaps no row names this one: `sweep` will see. None: there is none."""

    @abstractmethod
    async def sweep(self, limit: int) -> int:
        """Look at up to `limit` that no row may name, and delete those that none does; how many were looked at."""
