"""Writes past the transport: what the kernel does not take, or must not be given, goes through it, in order."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from proxy.http.direct_write import NO_DESCRIPTOR, descriptor_of, send_file_now, write_now


class Transport(asyncio.Transport):
    """Keeps what it is given; `unsent` bytes are in it already."""

    def __init__(self, unsent: int = 0, extra: dict[str, Any] | None = None) -> None:
        super().__init__(extra)
        self.given = b""
        self._unsent = unsent

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.given += bytes(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._unsent


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_the_kernel_takes_it(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    transport = Transport()
    write_now(transport, ours.fileno(), b"request")
    assert (theirs.recv(100), transport.given) == (b"request", b"")


def test_nothing_overtakes_what_the_transport_still_has(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    transport = Transport(unsent=1)
    write_now(transport, ours.fileno(), b"second")
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        theirs.recv(100)
    assert transport.given == b"second"


def test_what_the_kernel_does_not_take_goes_through_the_transport(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    transport = Transport()
    sent = b""
    while not transport.given:
        piece = os.urandom(5000)
        sent += piece
        write_now(transport, ours.fileno(), piece)
    theirs.setblocking(False)
    received = b""
    while len(received) < len(sent) - len(transport.given):
        received += theirs.recv(65536)
    assert received + transport.given == sent
    full = Transport()
    ours.setblocking(False)
    while True:
        try:
            ours.send(bytes(5000))
        except BlockingIOError:
            break
    write_now(full, ours.fileno(), b"later")
    assert full.given == b"later"


def test_a_broken_connection_is_the_transports_to_find(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.close()
    transport = Transport()
    write_now(transport, ours.fileno(), b"lost")
    assert transport.given == b"lost"


def test_a_file_is_sent_from_where_it_is_as_far_as_there_is_room(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    content = os.urandom(3_000_000)
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(content)
        transport = Transport()
        sent = received = 0
        while count := send_file_now(transport, ours.fileno(), file.fileno(), sent, len(content) - sent):
            sent += count
        assert 0 < sent < len(content)
        while received < sent:
            piece = theirs.recv(65536)
            assert piece == content[received : received + len(piece)]
            received += len(piece)
        assert send_file_now(Transport(unsent=1), ours.fileno(), file.fileno(), 0, 10) == 0
        assert send_file_now(transport, NO_DESCRIPTOR, file.fileno(), 0, 10) == 0
        theirs.close()
        assert send_file_now(transport, ours.fileno(), file.fileno(), 0, 10) == 0


def test_tls_goes_through_the_transport(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = ends
    assert descriptor_of(Transport(extra={"socket": ours, "ssl_object": object()})) == NO_DESCRIPTOR
    assert descriptor_of(Transport(extra={"socket": ours})) == ours.fileno()
    secret = Transport()
    write_now(secret, NO_DESCRIPTOR, b"in TLS")
    assert secret.given == b"in TLS"
