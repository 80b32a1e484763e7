"""A node link without a node: what it writes, what it is told, and what its receiver hears."""

from __future__ import annotations

from typing import Any

from proxy.errors import RequestError
from proxy.http.address import parse_address
from proxy.http.message import Field, Request, check_request
from proxy.http.node_link import NodeLink
from proxy.http.peer import Peer
from proxy.http.response import Response
from proxy.http.spool import Spool, SpoolBudget
from tests.fakes.transport import FakeTransport

PEER = Peer("192.0.2.7", scheme=b"http", is_trusted=False, pseudonym=b"fifo-proxy-test")


def make_request(
    method: bytes = b"GET",
    *fields: Field,
    target: bytes = b"/",
    version: str = "1.1",
    body: bytes | None = None,
    memory_bytes: int = 1000,
) -> Request:
    """A checked request, its body spooled."""
    given = [(b"Host", b"node"), *fields]
    if body is not None:
        given.append((b"Content-Length", b"%d" % len(body)))
    request = check_request(
        method, target, version, given, PEER, b"id-1", max_header_bytes=65536, max_body_bytes=1 << 30
    )
    if body:
        request.body = Spool(SpoolBudget(memory_bytes, 1 << 30))
        request.body.append(body)
    return request


UPGRADE = (b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")


class NodeSide:
    """`heard`: the calls of the receiver, as (what, value)."""

    def __init__(self, max_header_bytes: int = 2000) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.link = NodeLink(parse_address("http://127.0.0.1:9000"), max_header_bytes)
        self.transport = FakeTransport(self.link)

    def send(self, request: Request | None = None) -> bytes:
        request = request or make_request()
        self.link.send(request, request.head_for(None), self)
        return self.transport.take()

    def feed(self, *pieces: bytes) -> None:
        """These bytes come, read by read, for as long as it reads."""
        for piece in pieces:
            if not self.transport.is_closed:
                self.link.data_received(piece)

    def eof(self) -> None:
        """The node's FIN: the transport closes unless it is told not to."""
        if not self.transport.is_closed and not self.link.eof_received():
            self.transport.close()

    @property
    def what(self) -> list[str]:
        """The calls, bodies joined to one, flushes left out."""
        names = [name for name, _ in self.heard if name != "flush"]
        return [name for at, name in enumerate(names) if name != "body" or names[at - 1 : at] != ["body"]]

    @property
    def body(self) -> bytes:
        return b"".join(value for name, value in self.heard if name == "body")

    def told(self, what: str) -> Any:
        """The value of the only call of this name."""
        (value,) = (value for name, value in self.heard if name == what)
        return value

    # the receiver

    def node_interim(self, response: Response) -> None:
        self.heard.append(("interim", response))

    def node_head(self, response: Response) -> None:
        self.heard.append(("head", response))

    def node_body(self, data: bytes) -> None:
        self.heard.append(("body", data))

    def node_flush(self) -> None:
        self.heard.append(("flush", None))

    def node_ended(self, trailers: list[Field]) -> None:
        self.heard.append(("ended", trailers))

    def node_failed(self, error: RequestError, *, heard: bool) -> None:
        self.heard.append(("failed", (error, heard)))

    def node_switched(self, response: Response, first: bytes) -> None:
        self.heard.append(("switched", first))


def answered(*pieces: bytes, method: bytes = b"GET", size: int | None = None) -> NodeSide:
    """The request is out, and this comes back, cut into reads of `size`."""
    node = NodeSide()
    node.send(make_request(method))
    data = b"".join(pieces)
    node.feed(*([data[at : at + size] for at in range(0, len(data), size)] if size else pieces))
    return node
