"""Who talks to whom: what a connection calls on the exchange that it serves.

One object, the exchange, hears its client's connection and its node's link; neither knows the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from proxy.errors import RequestError
    from proxy.http.listener import ClientConnection
    from proxy.http.message import Field, Request
    from proxy.http.response import Response


class RequestHandler(Protocol):
    """Where requests go; `app.py` gives the exchanges' one."""

    def handle(self, connection: ClientConnection, request: Request) -> ClientReceiver:
        """Make the receiver of this request. Nothing is decided yet: `begin` follows."""

    def begin(self, receiver: ClientReceiver) -> None:
        """The connection is ready to hear the answer."""

    def refused(self, error: RequestError, request: Request | None, request_id: bytes, client: str) -> None:
        """The connection itself has answered with this error."""

    def left_while_sending(self, request: Request | None, client: str) -> None:
        """A client closed before its request was whole; None: before its head was."""


class JobDesk(Protocol):
    """Who takes requests that are to become jobs, and those for the jobs' own pages. `path`: where these are, with a
    slash at its end."""

    path: bytes

    def receive(self, connection: ClientConnection, request: Request) -> OwnReceiver | None:
        """The receiver of this request; None: it is one like any other."""


class ClientReceiver(Protocol):
    """Whoever has the request and owes the answer."""

    def client_left(self) -> None:
        """The connection is gone."""

    def client_half_closed(self) -> bool:
        """The client ended its side; False: that means it left, and nothing more will be answered."""

    def client_drained(self) -> None:
        """After `send` returned False: everything is on its way, more may be sent."""


class OwnReceiver(ClientReceiver, Protocol):
    """One that answers without a node."""

    def begin(self) -> None:
        """The connection is ready to hear the answer."""


class NodeReceiver(Protocol):
    """Whoever sent the request to the node."""

    def node_interim(self, response: Response) -> None:
        """A 1xx, before the head."""

    def node_head(self, response: Response) -> None: ...
    def node_body(self, data: bytes) -> None: ...
    def node_flush(self) -> None:
        """All that this read brought has been told, and the response goes on."""

    def node_ended(self, trailers: list[Field]) -> None:
        """The response is whole; the link may be used again if it is idle."""

    def node_failed(self, error: RequestError, *, heard: bool) -> None:
        """The link is closed. `heard`: at least one byte of a response had come."""

    def node_switched(self, response: Response, first: bytes) -> None:
        """101, the last call: `tunnel` must be set for what follows. `first`: the bytes right behind it."""
