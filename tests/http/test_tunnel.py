"""Opaque bytes both ways through real ends: a client connection and a node link, upgraded."""

from __future__ import annotations

import asyncio

import pytest

from proxy.http import tunnel as tunnel_module
from proxy.http.tunnel import Tunnel
from tests.fakes.client_side import ClientSide
from tests.fakes.node_side import UPGRADE, NodeSide, make_request

ASKED = b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


class Upgraded:
    """`ends`: how the tunnel ended, told once."""

    def __init__(self, early: bytes = b"", *, is_tls: bool = False) -> None:
        self.ends: list[bool] = []
        self.client, self.node = ClientSide(is_tls=is_tls), NodeSide()
        self.client.feed(ASKED + early)
        self.node.send(make_request(b"GET", *UPGRADE))
        self.node.feed(SWITCHED)
        self.tunnel = Tunnel(self.client.connection, self.node.link, self.ends.append)
        self.node.link.tunnel = self.tunnel
        self.client.connection.upgrade(self.tunnel, SWITCHED)


async def test_bytes_both_ways() -> None:
    both = Upgraded(early=b"early ")
    assert both.client.transport.take() == SWITCHED
    both.client.feed(b"GET / HTTP/1.1\r\n")
    assert both.node.transport.take() == b"early GET / HTTP/1.1\r\n"
    both.node.feed(b"HTTP/1.1 nothing\r\n\r\n")
    assert both.client.transport.take() == b"HTTP/1.1 nothing\r\n\r\n"


async def test_each_side_waits_for_the_other() -> None:
    both = Upgraded()
    both.client.transport.room = both.node.transport.room = 0
    both.node.feed(b"x" * 70_000)
    assert not both.node.transport.is_reading()
    assert both.client.connection.deadline == float("inf")  # idle for hours is no fault
    both.client.transport.drain()
    assert both.node.transport.is_reading()
    both.client.feed(b"y" * 300_000)
    assert not both.client.transport.is_reading()
    both.node.transport.drain()
    assert both.client.transport.is_reading()


async def test_node_ends_it() -> None:
    both = Upgraded()
    both.node.feed(b"bye")
    both.node.eof()
    assert both.ends == [True]
    assert both.client.transport.take() == SWITCHED + b"bye"
    assert both.client.transport.is_closed
    assert not both.client.transport.is_aborted
    both.node.transport.lose()
    both.client.transport.lose()
    assert both.ends == [True]


@pytest.mark.parametrize("error", [ConnectionResetError("reset"), None])
async def test_node_breaks_off(error: Exception | None) -> None:
    both = Upgraded()
    both.node.transport.lose(error)
    assert both.ends == [error is None]
    assert both.client.transport.is_aborted is (error is not None)


async def test_client_ends_its_side_first() -> None:
    """The node may still have something to say."""
    both = Upgraded()
    assert both.client.connection.eof_received()
    assert both.node.transport.is_ended
    both.node.feed(b"last words")
    both.node.eof()
    assert both.ends == [True]
    assert both.client.transport.take().endswith(b"last words")


async def test_node_that_never_ends_after_its_client_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel_module, "_HALF_OPEN_SECS", 0.0)
    both = Upgraded()
    assert both.client.connection.eof_received()
    await asyncio.sleep(0.01)
    assert both.ends == [False]
    assert both.node.transport.is_aborted
    assert both.client.transport.is_aborted


async def test_client_breaks_off() -> None:
    both = Upgraded()
    both.client.transport.lose(ConnectionResetError("reset"))
    assert both.ends == [False]
    assert both.node.transport.is_aborted


async def test_client_behind_tls_cannot_end_its_side_alone() -> None:
    both = Upgraded(is_tls=True)
    assert not both.client.connection.eof_received()


async def test_reader_that_takes_nothing_of_the_last_words_is_cut() -> None:
    both = Upgraded()
    both.client.transport.room = 0
    both.node.feed(b"x" * 1000)
    both.node.eof()
    for _ in range(2):
        assert not both.client.transport.is_aborted
        both.client.connection.on_deadline(both.client.connection.deadline)
    assert both.client.transport.is_aborted
