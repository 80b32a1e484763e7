"""Whole ways run on uvloop, as the proxy does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from tests.fakes.demo_nodes import demo_nodes


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def _imports_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m proxy` of a node is this checkout, wherever the tests are run from."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


@pytest.fixture
async def node_processes(_imports_of_nodes: None) -> AsyncIterator[list[str]]:
    async with demo_nodes(3) as urls:
        yield urls
