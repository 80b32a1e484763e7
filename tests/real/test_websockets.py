"""WebSocket through the proxy is what it is directly, for two libraries on either side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets

from tests.fakes.programs import program
from tests.fakes.proxy_here import proxy_here
from tests.real.conftest import PROGRAMS, output_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

Server = Callable[..., AbstractAsyncContextManager[str]]


@pytest.mark.parametrize("by", ["websockets", "ws"])
async def test_it_is_as_it_is_directly(by: str, python: str, node_modules: Path, server: Server) -> None:
    node = program("node")
    commands = {
        "websockets": [python, "ws_server.py", "{port}"],
        "ws": [node, "ws_server.mjs", "{port}", str(node_modules)],
    }

    async def seen_by_clients(url: str) -> list[dict[str, Any]]:
        url = url.replace("http", "ws")
        first = await output_of(python, "ws_client.py", url, cwd=PROGRAMS)
        second = await output_of(node, "ws_client.mjs", url, str(node_modules), cwd=PROGRAMS)
        return [json.loads(first), json.loads(second)]

    async with server(commands[by]) as url:
        directly = await seen_by_clients(url)
        async with proxy_here([url], counts_files=False) as proxy:
            through = await seen_by_clients(f"http://127.0.0.1:{proxy.port}")
    assert through == directly
    for found in through:
        assert found["client's close"] == "4001 bye"
        assert found["server's 4404"] == "4404 because"
        assert (found["server drops"], found["client drops"]) == ("1006", "1006")
        assert found["large down"].startswith(f"{64 * 1024 * 1024} ")


async def test_an_open_socket_holds_its_node(python: str, server: Server) -> None:
    uvicorn = [python, "-m", "uvicorn", "--port", "{port}", "--log-level", "warning", "asgi:app"]
    async with (
        server(uvicorn) as node,
        proxy_here([node], counts_files=False) as proxy,
        httpx.AsyncClient(trust_env=False) as client,
        websockets.connect(f"ws://127.0.0.1:{proxy.port}/socket") as socket,
    ):
        await socket.send("first")
        assert await socket.recv() == "first"
        asked = asyncio.create_task(client.get(f"http://127.0.0.1:{proxy.port}/hello"))
        await proxy.waits(1)
        await socket.send("second")
        assert await socket.recv() == "second"
        assert not asked.done()
        await socket.close()
        assert (await asked).text == "hello"
