"""Background tasks that cannot get lost: held while they run, their faults reported, all ended by `stop`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """A bag of tasks. An `asyncio.TaskGroup` does not fit: there the fault of one ends all the others."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start `work` in the running event loop."""
        task = asyncio.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._end)
        return task

    async def drain(self, limit_secs: float) -> None:
        """Wait until all have ended by themselves, at most so long."""
        if self._running:
            await asyncio.wait(self._running, timeout=limit_secs)

    async def stop(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (fault := task.exception()):
            message = f"{task.get_name()} failed unexpectedly"
            task.get_loop().call_exception_handler({"message": message, "exception": fault, "task": task})
