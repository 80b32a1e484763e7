"""The usual Python proxy: aiohttp's server and client, one line of idle nodes between them, written plainly.

python -m benchmarks.peers.aiohttp_proxy PORT NODE_URL...
"""

from __future__ import annotations

import asyncio
import sys

import aiohttp
import uvloop
from aiohttp import web

_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-connection")
)
_WHOLE = 64 * 1024  # responses up to here are read and answered in one piece, the faster way


def _forwardable(headers: aiohttp.typedefs.LooseHeaders) -> list[tuple[str, str]]:
    assert hasattr(headers, "items")
    return [(name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP]


class Proxy:
    """`idle` hands nodes to waiting requests in the order in which they asked."""

    def __init__(self, session: aiohttp.ClientSession, nodes: list[str]) -> None:
        self._session = session
        self._idle: asyncio.Queue[str] = asyncio.Queue()
        for node in nodes:
            self._idle.put_nowait(node)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        node = await self._idle.get()
        try:
            return await self._forward(request, node)
        finally:
            self._idle.put_nowait(node)

    async def _forward(self, request: web.Request, node: str) -> web.StreamResponse:
        body = request.content if request.can_read_body else None
        async with self._session.request(
            request.method,
            node + request.path_qs,
            headers=_forwardable(request.headers),
            data=body,
            allow_redirects=False,
        ) as answer:
            headers = _forwardable(answer.headers)
            if answer.content_length is not None and answer.content_length <= _WHOLE:
                return web.Response(status=answer.status, headers=headers, body=await answer.read())
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


async def serve(port: int, nodes: list[str]) -> None:
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector, auto_decompress=False) as session:
        app = web.Application(client_max_size=1 << 40)
        app.router.add_route("*", "/{path:.*}", Proxy(session, nodes).handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=16384).start()
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2:]))
