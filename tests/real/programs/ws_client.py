"""What a client by `websockets` meets: `python ws_client.py URL`; prints JSON, the same as ws_client.mjs."""

import asyncio
import hashlib
import json
import sys

import websockets
from websockets.asyncio.client import connect

CODES = [1000, 1001, 1002, 1003, *range(1007, 1015), 3000, 4404, 4999]
LARGE = 64 * 1024 * 1024
url = sys.argv[1]


def told(data: str | bytes) -> str:
    data = data.encode() if isinstance(data, str) else data
    return f"{len(data)} {hashlib.sha256(data).hexdigest()}"


async def end_of(socket: websockets.ClientConnection) -> str:
    """How it ends, as `code reason`."""
    try:
        async for _ in socket:
            pass
    except websockets.ConnectionClosedError:
        pass
    return f"{socket.close_code} {socket.close_reason}".strip()


async def last() -> str:
    """How the connection before ended, by what the server saw."""
    async with connect(f"{url}/last") as socket:
        return str(await socket.recv())


async def main() -> dict[str, object]:
    found: dict[str, object] = {}
    async with connect(url, subprotocols=["v1", "v2", "tok.en~data"], max_size=None) as socket:
        found["subprotocol"] = socket.subprotocol
        found["is_compressed"] = "permessage-deflate" in socket.response.headers["Sec-WebSocket-Extensions"]
        for name, message in (
            ("text", "h\u00e9llo" * 1000),
            ("binary", bytes(range(256)) * 100),
            ("empty", ""),
        ):
            await socket.send(message)
            found[name] = told(await socket.recv())
        await socket.send(["in ", "four ", "frag", "ments"])
        found["fragments"] = await socket.recv()
        await (await socket.ping(b"hello"))
        found["pong"] = True
        large = b"\xcd" * LARGE
        await socket.send(large)
        found["large up and down"] = told(await socket.recv())
        await socket.close(4001, "bye")
    found["client's close"] = await last()
    async with connect(f"{url}/ping") as socket:
        found["server's ping"] = await socket.recv()
    async with connect(f"{url}/give?n={LARGE}", max_size=None) as socket:
        found["large down"] = told(await socket.recv())
    for code in CODES:
        async with connect(f"{url}/close?code={code}&reason=because") as socket:
            found[f"server's {code}"] = await end_of(socket)
    async with connect(f"{url}/drop") as socket:
        found["server drops"] = (await end_of(socket)).split()[0]
    async with connect(url) as socket:
        await socket.send("x")
        await socket.recv()
        socket.transport.abort()
    await asyncio.sleep(0.5)
    found["client drops"] = (await last()).split()[0]
    return found


print(json.dumps(asyncio.run(main())))
