"""The request reader alone: bytes in, whole requests and an error out."""

from __future__ import annotations

from itertools import count

from proxy.errors import RequestError
from proxy.http.message import Request
from proxy.http.peer import Peer
from proxy.http.request_reader import RequestReader
from tests.fakes.client_side import http_settings

HOST = b"Host: a\r\n"


def new_reader(**settings: object) -> RequestReader:
    numbers = count(1)
    peer = Peer("192.0.2.7", scheme=b"http", is_trusted=False, pseudonym=b"fifo-proxy-test")
    return RequestReader(http_settings(**settings), lambda: b"id-%d" % next(numbers), peer)  # type: ignore[arg-type]


def items(reader: RequestReader) -> list[Request | RequestError]:
    return list(reader.ready or ())


def told(reader: RequestReader) -> list[object]:
    """Targets with bodies and trailers, and the status of an error."""
    return [
        item.status
        if isinstance(item, RequestError)
        else (item.target, item.body and item.body.read(0, item.body.size), item.trailers)
        for item in items(reader)
    ]


_readers: list[RequestReader] = []


def drop_bodies() -> None:
    """Of every reader made here: a test is over."""
    while _readers:
        _readers.pop().drop_bodies()


def read(*pieces: bytes, **settings: object) -> RequestReader:
    reader = new_reader(**settings)
    _readers.append(reader)
    for piece in pieces:
        if not reader.is_deaf:
            reader.feed(piece)
    return reader


def error_of(*pieces: bytes, **settings: object) -> RequestError:
    """The only thing that these bytes make: an error."""
    (item,) = items(read(*pieces, **settings))
    assert isinstance(item, RequestError)
    return item


def chunked(body: bytes, head: bytes = b"Transfer-Encoding: chunked\r\n") -> bytes:
    return b"POST / HTTP/1.1\r\n" + HOST + head + b"\r\n" + body
