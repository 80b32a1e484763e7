"""Who waits for news of a job, and is woken when it ends here; whoever waits looks after jobs that end elsewhere."""

from __future__ import annotations

import asyncio
import contextlib


class News:
    """Nothing is kept of a job for which nobody waits."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def tell(self, job_id: str) -> None:
        for event in self._waiting.pop(job_id, ()):
            event.set()

    def tell_all(self) -> None:
        """We are stopping: nobody is to wait any longer."""
        for job_id in list(self._waiting):
            self.tell(job_id)

    async def wait(self, job_id: str, secs: float) -> None:
        """Until this job ends here, at most `secs`."""
        event = asyncio.Event()
        self._waiting.setdefault(job_id, set()).add(event)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(secs):
                    await event.wait()
        finally:
            others = self._waiting.get(job_id, set())
            others.discard(event)
            if not others:
                self._waiting.pop(job_id, None)
