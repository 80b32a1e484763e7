"""A client's connection as the listener has it: bytes in, bytes out, and a handler that answers as told."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from itertools import count

from proxy.errors import RequestError
from proxy.http.listener import ClientConnection
from proxy.http.message import Request
from proxy.http.roles import ClientReceiver
from proxy.http.settings import HttpSettings
from proxy.http.spool import SpoolBudget
from tests.fakes.transport import FakeTransport


def http_settings(
    *, memory_bytes: int = 1000, max_spool_bytes: int = 100_000, trusted: str = "", **changed: object
) -> HttpSettings:
    settings = HttpSettings(
        spool_budget=SpoolBudget(memory_bytes, max_spool_bytes),
        pseudonym=b"fifo-proxy-test",
        header_timeout_secs=30,
        body_timeout_secs=60,
        keepalive_timeout_secs=75,
        max_header_bytes=2000,
        max_body_bytes=5000,
        trusted_proxies=(ip_network(trusted),) if trusted else (),
    )
    for name, value in changed.items():
        setattr(settings, name, value)
    return settings


class Owed:
    """A request at its receiver. `heard`: what the connection told, in order."""

    def __init__(self, connection: ClientConnection, request: Request, *, half_closed: bool = True) -> None:
        self.connection = connection
        self.request = request
        self.heard: list[str] = []
        self._half_closed = half_closed

    @property
    def body(self) -> bytes | None:
        spool = self.request.body
        return None if spool is None else spool.read(0, spool.size)

    def answer(self, body: bytes = b"ok", *, keeps_alive: bool | None = None) -> None:
        """As an exchange does: the head and body, then the end."""
        self.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        if self.request.body is not None:
            self.request.body.close()
            self.request.body = None
        self.connection.finish(keeps_alive=self.request.keeps_alive if keeps_alive is None else keeps_alive)

    def client_left(self) -> None:
        self.heard.append("left")
        if self.request.body is not None:
            self.request.body.close()

    def client_half_closed(self) -> bool:
        self.heard.append("half closed")
        return self._half_closed

    def client_drained(self) -> None:
        self.heard.append("drained")


class ClientSide:
    """`owed`: every request handed over, in order; `at_once` answers it inside `begin`."""

    def __init__(
        self,
        settings: HttpSettings | None = None,
        *,
        peer: str = "192.0.2.7",
        is_tls: bool = False,
        at_once: Callable[[Owed], None] | None = None,
        half_closed: bool = True,
    ) -> None:
        numbers = count(1)
        self.settings = settings or http_settings()
        self.owed: list[Owed] = []
        self.refusals: list[RequestError] = []
        self.left_sending = 0
        self.connections: set[ClientConnection] = set()
        self._at_once = at_once
        self._half_closed = half_closed
        self.connection = ClientConnection(
            self.settings, self, self.connections, lambda: b"id-%d" % next(numbers)
        )
        self.transport = FakeTransport(self.connection, peer, is_tls=is_tls)

    def feed(self, *pieces: bytes) -> bytes:
        """These bytes come, read by read, for as long as it reads; returns what it writes."""
        for piece in pieces:
            if not self.transport.is_closed:
                self.connection.data_received(piece)
        return self.transport.take()

    @property
    def targets(self) -> list[bytes]:
        return [owed.request.target for owed in self.owed]

    # the handler

    def handle(self, connection: ClientConnection, request: Request) -> ClientReceiver:
        owed = Owed(connection, request, half_closed=self._half_closed)
        self.owed.append(owed)
        return owed

    def begin(self, receiver: ClientReceiver) -> None:
        assert isinstance(receiver, Owed)
        if self._at_once is not None:
            self._at_once(receiver)

    def refused(self, error: RequestError, request: Request | None, request_id: bytes, client: str) -> None:
        self.refusals.append(error)

    def left_while_sending(self, request: Request | None, client: str) -> None:
        self.left_sending += 1
