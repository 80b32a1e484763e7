"""A WebSocket server by `websockets`; what each path does is the same in ws_server.mjs."""

import asyncio
import sys
from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import websockets
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

last = "none"  # how the connection before this one ended


async def handle(socket: ServerConnection) -> None:
    global last
    assert socket.request is not None
    url = urlsplit(socket.request.path)
    query = {key: values[0] for key, values in parse_qs(url.query).items()}
    if url.path == "/last":
        await socket.send(last)
    elif url.path == "/close":
        await socket.close(int(query["code"]), query["reason"])
    elif url.path == "/drop":
        await socket.send("soon")
        socket.transport.abort()
    elif url.path == "/give":
        await socket.send(b"\xab" * int(query["n"]))
    elif url.path == "/ping":
        await (await socket.ping(b"are you there"))
        await socket.send("ponged")
    try:
        async for message in socket:
            await socket.send(message)
    except websockets.ConnectionClosedError:
        pass
    if url.path != "/last":
        last = f"{socket.close_code} {socket.close_reason}".strip()


def choose(socket: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return next((Subprotocol(name) for name in ("v2", "v1") if name in offered), None)


def answer_probe(socket: ServerConnection, request: Request) -> Response | None:
    return socket.respond(HTTPStatus.OK, "ready") if request.path == "/ready" else None


OPTIONS = {"select_subprotocol": choose, "process_request": answer_probe, "max_size": None}


async def main() -> None:
    async with serve(handle, "127.0.0.1", int(sys.argv[1]), **OPTIONS):
        await asyncio.get_running_loop().create_future()


asyncio.run(main())
