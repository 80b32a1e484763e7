"""Whole ways run on uvloop, as the proxy does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from proxy import probe
from tests.fakes.demo_nodes import demo_nodes


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m proxy` of a node is this checkout, and no proxy of this environment stands in between."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
async def node_processes(_surroundings: None) -> AsyncIterator[list[str]]:
    async with demo_nodes(3) as urls:
        yield urls


@pytest.fixture
def probed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that broke is else probed a second later."""
    monkeypatch.setattr(probe, "_GRACE_SECS", 0.05)
    monkeypatch.setattr(probe, "_SCAN_SECS", 0.02)
