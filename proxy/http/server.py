"""The users' port: accepts connections, keeps their time limits, stops accepting."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from itertools import count
from typing import cast

from proxy.http.listener import ClientConnection
from proxy.http.roles import RequestHandler
from proxy.http.settings import HttpSettings

_BACKLOG = 4096  # connections that the kernel keeps for us while we are busy: a burst must not be refused


class HttpServer:
    """Listens between `start` and `stop_accepting`. `sweep` is to be called a few times a second."""

    def __init__(self, settings: HttpSettings, handler: RequestHandler) -> None:
        self.connections: set[ClientConnection] = set()
        self._settings = settings
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._prefix = secrets.token_hex(5)
        self._numbers = count(1)

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Raises OSError where the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, host, port, ssl=tls, backlog=_BACKLOG)

    @property
    def port(self) -> int:
        """The port it listens on, also where 0 was asked for."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def is_accepting(self) -> bool:
        return self._server is not None and self._server.is_serving()

    def stop_accepting(self) -> None:
        """Close the port and the idle connections; the others end with their answer."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.close_if_idle()

    def cut_all(self) -> None:
        for connection in list(self.connections):
            connection.cut()

    def sweep(self, now: float) -> None:
        """Deadlines are numbers looked through in one go: 8,000 cost less here than a timer for each."""
        due = [connection for connection in self.connections if connection.deadline <= now]
        for connection in due:
            connection.on_deadline(now)

    def _connect(self) -> asyncio.Protocol:
        connection = ClientConnection(self._settings, self._handler, self.connections, self._next_id)
        return cast(asyncio.Protocol, connection)

    def _next_id(self) -> bytes:
        return f"{self._prefix}-{next(self._numbers):x}".encode()
