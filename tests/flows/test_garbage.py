"""Clients and nodes that both talk nonsense, leave at any moment, and leave nothing behind."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from random import Random

import pytest

from tests.fakes.proxy_here import proxy_here
from tests.fakes.until import until
from tests.fakes.wire_client import WireClient
from tests.fakes.wire_node import Turn, WireNode
from tests.fuzz import inputs

CLIENTS = 6
EACH = 60


@pytest.mark.usefixtures("probed_soon")
@pytest.mark.parametrize("seed", range(3))
async def test_the_proxy_comes_to_rest(seed: int) -> None:
    """And serves as ever; that no slot, file or body is kept is seen to by `proxy_here`."""
    random = Random(seed)

    async def answer_anything(turn: Turn) -> None:
        if turn.target == "/sane":
            turn.answer()
            return
        for piece in inputs.responses(random)[:20]:
            turn.write(piece)
            await asyncio.sleep(0)
        ending = random.randrange(8)
        if ending == 0:
            turn.reset()
        elif ending < 7:
            turn.close()

    async def ask_anything(port: int) -> None:
        for _ in range(EACH):
            async with WireClient(port) as client:
                for piece in inputs.requests(random)[:20]:
                    client.writer.write(piece)
                    await asyncio.sleep(0)
                ending = random.randrange(4)
                if ending == 0:
                    client.reset()
                elif ending == 1:
                    client.half_close()
                if ending:
                    await asyncio.wait([asyncio.create_task(client.reader.read(100))], timeout=0.2)

    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(WireNode(answer_anything)) for _ in range(CLIENTS)]
        urls = [node.url for node in nodes]
        proxy = await stack.enter_async_context(
            proxy_here(urls, run_timeout_secs=0.3, body_timeout_secs=0.3, header_timeout_secs=0.3)
        )
        await asyncio.gather(*(ask_anything(proxy.port) for _ in range(CLIENTS)))
        await until(lambda: not proxy.app.server.connections, "all clients are gone")
        assert (await proxy.ask("/sane")).body == b"ok"
        assert sum(len(node.seen) for node in nodes) > 50
