"""The live stream: SSE with the status, each second and soon after each change.

Always: an event is made when the last one was taken, so a slow client misses some and never piles them up; one
that takes nothing is let go; no more than `MAX_STREAMS` follow.
"""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from proxy.admin.status import View, change_mark, status

MAX_STREAMS = 16
_POLL_SECS = 0.2  # how soon a change is told
_EVENT_SECS = 1.0  # how often the status is told anyway
_STALL_SECS = 10.0  # a client that takes nothing for so long is let go


class Events:
    def __init__(self, view: View) -> None:
        self._view = view
        self._stopping = asyncio.Event()
        self._streams = 0

    def stop(self) -> None:
        """End the streams."""
        self._stopping.set()

    async def follow(self, request: web.Request) -> web.StreamResponse:
        """Events `status` with the JSON of `/api/status`, until the client leaves or we stop."""
        if self._streams >= MAX_STREAMS:
            raise web.HTTPServiceUnavailable(
                text=f"{MAX_STREAMS} clients follow already.", headers={"Retry-After": "10"}
            )
        self._streams += 1
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
            await response.prepare(request)
            await self._tell(request, response)
        finally:
            self._streams -= 1
        return response

    async def _tell(self, request: web.Request, response: web.StreamResponse) -> None:
        told_mark: object = None
        told_at = 0.0
        while not self._stopping.is_set():
            now, mark = self._view.clock.now(), change_mark(self._view)
            if mark != told_mark or now - told_at >= _EVENT_SECS:
                told_mark, told_at = mark, now
                event = f"event: status\ndata: {json.dumps(status(self._view))}\n\n"
                try:
                    async with asyncio.timeout(_STALL_SECS):
                        await response.write(event.encode())
                except (ConnectionError, TimeoutError):
                    if request.transport is not None:
                        request.transport.abort()
                    return
            try:
                async with asyncio.timeout(_POLL_SECS):
                    await self._stopping.wait()
            except TimeoutError:
                continue
