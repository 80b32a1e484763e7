"""Demo nodes as processes of their own."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

DEMO_NODE = ["{python}", "-m", "proxy", "demo-node", "--port", "{port}", "--work", "0.05"]


@asynccontextmanager
async def demo_nodes(count: int) -> AsyncIterator[list[str]]:
    """The addresses of so many nodes that listen."""
    async with demo_node_processes(count) as nodes:
        yield list(nodes)


@asynccontextmanager
async def demo_node_processes(count: int) -> AsyncIterator[dict[str, Process]]:
    """The same, by address, for one who wants to kill them."""
    command = [part.format(python=sys.executable, port=0) for part in DEMO_NODE]
    processes = [
        await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE) for _ in range(count)
    ]
    try:
        nodes = {}
        for process in processes:
            assert process.stdout is not None
            line = await process.stdout.readline()  # "demo node on http://..."
            nodes[line.split()[-1].decode()] = process
        yield nodes
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def stats_of(url: str) -> dict[str, Any]:
    """What a demo node has seen."""
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{url}/stats")
    stats: dict[str, Any] = answer.raise_for_status().json()
    return stats
