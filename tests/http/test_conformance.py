"""RFC 9112 from outside: raw bytes to a real proxy with a real node, and what comes back until the end.

The ground is that of uNetworking's h1spec; a request that is refused never reaches the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fakes.proxy_here import proxy_here
from tests.fakes.wire_node import WireNode

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOST = b"Host: a\r\n"
CLOSE = b"Connection: close\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ends() -> AsyncIterator[tuple[int, WireNode]]:
    """One proxy for all: its port, and its node."""
    async with WireNode() as node, proxy_here([node.url]) as proxy:
        yield proxy.port, node


async def exchange(port: int, sent: bytes, *, pieces: int = 1) -> list[bytes]:
    """The answers to these bytes, one for each, up to the end of the connection; each starts with its status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    size = -(-len(sent) // pieces)
    for at in range(0, len(sent), size):
        writer.write(sent[at : at + size])
        await writer.drain()
        if pieces > 1:
            await asyncio.sleep(0)
    async with asyncio.timeout(10):
        data = await reader.read()
    writer.close()
    return [answer[:3] for answer in data.split(b"HTTP/1.1 ")[1:]]


def get(*fields: bytes, start: bytes = b"GET / HTTP/1.1\r\n") -> bytes:
    return start + b"".join(fields) + b"\r\n"


def post(fields: bytes, body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\n" + HOST + CLOSE + fields + b"\r\n" + body


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        # what must be understood
        pytest.param(get(HOST, CLOSE), [b"200"], id="a request"),
        pytest.param(get(b"hOsT:a\r\n", CLOSE), [b"200"], id="names in any case, no space after the colon"),
        pytest.param(get(b"Host: \t a \t\r\n", CLOSE), [b"200"], id="white space around a value"),
        pytest.param(get(HOST, b"X:\r\n", CLOSE), [b"200"], id="an empty value"),
        pytest.param(get(HOST, CLOSE, b"X: \xff\xfe\r\n"), [b"200"], id="obs-text in a value"),
        pytest.param(b"\r\n" + get(HOST, CLOSE), [b"200"], id="an empty line before the request"),
        pytest.param(get(HOST, CLOSE, start=b"GET http://a/x?y HTTP/1.1\r\n"), [b"200"], id="absolute-form"),
        pytest.param(get(HOST, CLOSE, start=b"OPTIONS * HTTP/1.1\r\n"), [b"200"], id="asterisk-form"),
        pytest.param(get(start=b"GET / HTTP/1.0\r\n"), [b"200"], id="HTTP/1.0 without Host, and closed"),
        pytest.param(get(HOST) * 2 + get(HOST, CLOSE), [b"200"] * 3, id="pipelined"),
        pytest.param(post(b"Content-Length: 5\r\n", b"hello"), [b"200"], id="a body of a length"),
        pytest.param(post(b"Content-Length: 0\r\n", b""), [b"200"], id="an empty body"),
        pytest.param(post(CHUNKED, b"5\r\nhello\r\n0\r\n\r\n"), [b"200"], id="a chunked body"),
        pytest.param(
            post(CHUNKED, b"A;x=y\r\n0123456789\r\n000\r\nX: y\r\n\r\n"), [b"200"], id="extension, trailer"
        ),
        pytest.param(post(b"Transfer-Encoding: CHUNKED\r\n", b"0\r\n\r\n"), [b"200"], id="CHUNKED"),
        pytest.param(
            post(b"Expect: 100-continue\r\nContent-Length: 5\r\n", b"hello"),
            [b"100", b"200"],
            id="100-continue",
        ),
        # what must be refused
        pytest.param(get(CLOSE), [b"400"], id="no Host"),
        pytest.param(get(HOST, HOST), [b"400"], id="two Hosts"),
        pytest.param(get(b"Host: a b\r\n"), [b"400"], id="an impossible Host"),
        pytest.param(get(b"Host : a\r\n"), [b"400"], id="space before a colon"),
        pytest.param(get(HOST, b"X: y\r\n z\r\n"), [b"400"], id="a folded line"),
        pytest.param(get(HOST, b"X: y\0z\r\n"), [b"400"], id="NUL"),
        pytest.param(get(HOST, b"X(: y\r\n"), [b"400"], id="a name that is no token"),
        pytest.param(b"GET / HTTP/1.1\nHost: a\n\n", [b"400"], id="bare line feeds"),
        pytest.param(get(HOST, start=b"G\xc3\x89T / HTTP/1.1\r\n"), [b"400"], id="a method that is no token"),
        pytest.param(get(HOST, start=b"GET / HTTP/3.0\r\n"), [b"400"], id="a version not spoken"),
        pytest.param(get(HOST, start=b"GET / HTTPS/1.1\r\n"), [b"400"], id="another protocol"),
        pytest.param(
            post(b"Content-Length: 5\r\nContent-Length: 6\r\n", b"hello!"), [b"400"], id="two lengths"
        ),
        pytest.param(post(b"Content-Length: -1\r\n", b""), [b"400"], id="a negative length"),
        pytest.param(
            post(b"Content-Length: 5\r\n" + CHUNKED, b"0\r\n\r\n"), [b"400"], id="length and chunked"
        ),
        pytest.param(post(b"Transfer-Encoding: gzip\r\n", b"x"), [b"400"], id="a coding that is not chunked"),
        pytest.param(post(CHUNKED, b"5\r\nhelloX\r\n0\r\n\r\n"), [b"400"], id="a chunk longer than its size"),
        pytest.param(post(CHUNKED, b"x\r\nhello\r\n0\r\n\r\n"), [b"400"], id="a chunk without size"),
        pytest.param(
            get(HOST) + get(b"Host : a\r\n") + get(HOST), [b"200", b"400"], id="an error between two"
        ),
        pytest.param(get(HOST, b"X: " + b"x" * 70_000 + b"\r\n"), [b"431"], id="too large a head"),
        pytest.param(post(b"Content-Length: 2000000000\r\n", b""), [b"413"], id="too large a body"),
        pytest.param(
            post(b"Expect: the-unexpected\r\nContent-Length: 1\r\n", b""), [b"417"], id="expectations"
        ),
        pytest.param(get(b"Host: a:443\r\n", start=b"CONNECT a:443 HTTP/1.1\r\n"), [b"405"], id="CONNECT"),
    ],
)
@pytest.mark.parametrize("pieces", [1, 9])
async def test_conformance(
    ends: tuple[int, WireNode], sent: bytes, statuses: list[bytes], pieces: int
) -> None:
    port, node = ends
    node.seen.clear()
    assert await exchange(port, sent, pieces=pieces) == statuses
    assert len(node.seen) == statuses.count(b"200")
