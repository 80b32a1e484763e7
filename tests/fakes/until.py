"""Waiting for a condition, never for a fixed time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic


async def until(is_so: Callable[[], bool], what: str, *, secs: float = 20.0) -> None:
    """Return once `is_so()`; fail with `what` after `secs`."""
    limit = monotonic() + secs
    while not is_so():
        assert monotonic() < limit, f"not within {secs} s: {what}"
        await asyncio.sleep(0.005)
