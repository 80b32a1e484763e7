"""A receiver of alerts on this machine that fails, or does not answer at all, as a test says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web


class Receiver:
    """Answers 204 unless `answers` has something else: a status, or None for no answer at all."""

    def __init__(self) -> None:
        self.answers: list[int | None] = []
        self.heard: list[tuple[int | None, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.released = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.url = ""

    @property
    def taken(self) -> list[tuple[list[str], list[str]]]:
        """What was added and cleared in the messages that were delivered."""
        return [(told["added"], told["cleared"]) for code, told in self.heard if code == 204]

    async def start(self) -> None:
        app = web.Application()
        app.add_routes([web.post("/s3cret-path", self._take)])
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/s3cret-path?key=s3cret"

    async def stop(self) -> None:
        self.released.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/json"
        assert request.query_string == "key=s3cret"
        told = json.loads(await request.read())
        code = self.answers.pop(0) if self.answers else 204
        self.heard.append((code, told))
        self.headers.append(dict(request.headers))
        if code is None:
            await self.released.wait()
        return web.Response(status=code or 500, headers={"Location": "/elsewhere"} if code == 302 else {})
