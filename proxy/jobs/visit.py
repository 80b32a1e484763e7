"""One request that is answered here, not by a node: a receipt, a page of the jobs, a stored answer.

Always: the client hears one whole answer, or a broken connection; the request's body is closed by whoever takes it,
else at the end. The work goes on when the client has left; it asks `is_gone` where that saves something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from email.utils import formatdate
from http import HTTPStatus

from proxy.errors import RequestError
from proxy.forwarder import Forwarder
from proxy.http.listener import ClientConnection
from proxy.http.message import Field, Request, trailer_bytes
from proxy.http.response import problem_response
from proxy.http.spool import Spool
from proxy.tasks import Tasks

Work = Callable[["Visit"], Awaitable[None]]


class Visit:
    """The receiver of such a request. `work` answers it, or raises the RequestError that does."""

    def __init__(
        self,
        connection: ClientConnection,
        request: Request,
        forwarder: Forwarder,
        tasks: Tasks,
        work: Work,
    ) -> None:
        self.request = request
        self.client_address = connection.peer.address
        self._connection: ClientConnection | None = connection
        self._forwarder = forwarder
        self._tasks = tasks
        self._work = work
        self._has_room = asyncio.Event()
        self._is_chunked = False

    # --- what the connection calls

    def begin(self) -> None:
        self._tasks.spawn(self._answer(), "answer a visit")

    def client_left(self) -> None:
        self._connection = None
        self._has_room.set()

    def client_half_closed(self) -> bool:
        return True

    def client_drained(self) -> None:
        self._has_room.set()

    async def _answer(self) -> None:
        try:
            await self._work(self)
        except RequestError as error:
            self._refuse(error)
        except BaseException:
            if self._connection is not None:
                self._connection.cut()
            raise
        finally:
            if self.request.body is not None:
                self.request.body.close()
                self.request.body = None

    # --- what the work calls

    @property
    def is_gone(self) -> bool:
        return self._connection is None

    @property
    def _keeps_alive(self) -> bool:
        return self.request.keeps_alive and not self._forwarder.is_stopping

    def take_body(self) -> Spool | None:
        """The request's body, which is the caller's to close from now on."""
        body, self.request.body = self.request.body, None
        return body

    def answer(self, status: int, fields: Iterable[Field], body: bytes = b"") -> None:
        """A whole answer of ours."""
        extra = [(b"Content-Length", b"%d" % len(body)), (b"Cache-Control", b"no-store")]
        self.send_head(status, [*fields, *extra])
        if body and not self.request.is_head:
            self._send(body)
        self._finish()

    def send_head(self, status: int, fields: Iterable[Field]) -> None:
        """What follows is `send`, and at its end `end`."""
        try:
            reason = HTTPStatus(status).phrase
        except ValueError:
            reason = ""
        lines = [b"HTTP/1.1 %d %b\r\n" % (status, reason.encode())]
        names = set()
        for name, value in fields:
            names.add(name.lower())
            lines.append(b"%b: %b\r\n" % (name, value))
        if b"date" not in names:
            lines.append(b"Date: %b\r\n" % formatdate(usegmt=True).encode())
        if b"x-request-id" not in names:
            lines.append(b"X-Request-Id: %b\r\n" % self.request.request_id)
        lines.append(b"Connection: keep-alive\r\n\r\n" if self._keeps_alive else b"Connection: close\r\n\r\n")
        self._has_room.set()
        self._send(b"".join(lines))

    def send_endless_head(self, status: int, fields: Iterable[Field]) -> None:
        """Of an answer whose length nobody knows."""
        self._is_chunked = not self.request.is_http10
        if self._is_chunked:
            fields = [*fields, (b"Transfer-Encoding", b"chunked")]
        else:
            self.request.keeps_alive = False  # the connection's end is the answer's
        self.send_head(status, fields)

    async def send(self, data: bytes) -> None:
        """A piece of the body, at the client's pace."""
        self._send(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)
        await self._has_room.wait()

    def end(self, trailers: Sequence[Field] = ()) -> None:
        if self._is_chunked:
            self._send(trailer_bytes(list(trailers)))
        self._finish()

    def break_off(self) -> None:
        """The body cannot be sent whole: the client must see that."""
        if self._connection is not None:
            self._connection.cut()
            self._connection = None

    def _send(self, data: bytes) -> None:
        if self._connection is not None and not self._connection.send(data):
            self._has_room.clear()

    def _finish(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.finish(keeps_alive=self._keeps_alive)

    def _refuse(self, error: RequestError) -> None:
        keeps_alive = self._keeps_alive and not error.closes
        request = self.request
        self._send(
            problem_response(error, request.request_id, 0.0, keeps_alive=keeps_alive, is_head=request.is_head)
        )
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.finish(keeps_alive=keeps_alive)
