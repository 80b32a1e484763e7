"""Waiting for what other processes do: until it is so, never for a fixed time."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path


async def until(is_so: Callable[[], Awaitable[bool]], what: str, *, secs: float = 20.0) -> None:
    """Return once `is_so` says yes; fail with `what` after `secs`."""
    deadline = time.monotonic() + secs
    while not await is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {secs} s: {what}")
        await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie, which only waits to be counted by its parent, does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if sys.platform != "linux":
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until_dead(pid: int) -> None:
    async def is_dead() -> bool:
        return not is_alive(pid)

    await until(is_dead, f"process {pid} is dead")
