"""Transcripts: what a client sends, what the node gets and answers, what the client gets; all on real sockets."""

from __future__ import annotations

import asyncio
import re
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.fakes.proxy_here import proxy_here
from tests.fakes.until import until
from tests.fakes.wire_node import Behaviour, Turn, WireNode

pytestmark = pytest.mark.usefixtures("probed_soon")

ASK = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
ASK_10 = b"GET / HTTP/1.0\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
WS = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def says(*pieces: bytes, closes: bool = False) -> Behaviour:
    """The node answers with these bytes, each in its own time."""

    async def behave(turn: Turn) -> None:
        for piece in pieces:
            if piece is not pieces[0]:
                await asyncio.sleep(0.002)  # a read of its own
            turn.write(piece)
            await turn.writer.drain()
        if closes:
            turn.close()

    return behave


async def talk(port: int, sent: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """All that comes back until the end, without what differs each time."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls, server_hostname="localhost" if tls else None
    )
    writer.write(sent)
    async with asyncio.timeout(10):
        try:
            came = await reader.read()
        except ConnectionResetError:
            came = b"(reset)"
    writer.close()
    return re.sub(rb"(Server-Timing|X-Request-Id|Date): [^\r]*\r\n", b"", came)


@pytest.mark.parametrize(
    ("asked", "answered", "closes", "got"),
    [
        pytest.param(
            ASK,
            [b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nsome ", b"text"],
            True,
            b"HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            b"5\r\nsome \r\n4\r\ntext\r\n0\r\n\r\n",
            id="until the end, for 1.1",
        ),
        pytest.param(
            ASK_10,
            [b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nsome ", b"text"],
            True,
            b"HTTP/1.1 200 OK\r\nX: y\r\nConnection: close\r\n\r\nsome text",
            id="until the end, for 1.0",
        ),
        pytest.param(
            ASK,
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n",
                b"0\r\nX-Sum: 1\r\nHost: b\r\n\r\n",
            ],
            False,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            b"1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n",
            id="chunked with a trailer, for 1.1",
        ),
        pytest.param(
            ASK_10,
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
                b"1\r\nb\r\n0\r\nX-Sum: 1\r\n\r\n",
            ],
            False,
            b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nab",
            id="chunked, for 1.0",
        ),
        pytest.param(
            b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + ASK_10,
            [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"],
            False,
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\na"
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na",
            id="1.0 kept alive",
        ),
        pytest.param(
            ASK,
            [b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"],
            True,
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
            id="from 1.0",
        ),
        pytest.param(
            ASK,
            [
                b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 None\r\n\r\n",
            ],
            False,
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 None\r\nConnection: close\r\n\r\n",
            id="103, then 204; our 100 is the only one",
        ),
        pytest.param(
            ASK_10,
            [b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 None\r\n\r\n"],
            False,
            b"HTTP/1.1 204 None\r\nConnection: close\r\n\r\n",
            id="no 103 for 1.0",
        ),
        pytest.param(
            HEAD,
            [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"],
            False,
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\n",
            id="HEAD",
        ),
        pytest.param(
            ASK,
            [b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nETag: x\r\n\r\n"],
            False,
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nETag: x\r\nConnection: close\r\n\r\n",
            id="304",
        ),
        pytest.param(
            WS.replace(b"Upgrade\r\n", b"Upgrade, close\r\n", 1),
            [b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"],
            False,
            b"HTTP/1.1 403 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
            id="an Upgrade refused",
        ),
        pytest.param(
            WS,
            [b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81", b"\x00"],
            True,
            b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00",
            id="an Upgrade",
        ),
    ],
)
async def test_transcript(asked: bytes, answered: list[bytes], closes: bool, got: bytes) -> None:
    async with WireNode(says(*answered, closes=closes)) as node, proxy_here([node.url]) as proxy:
        assert await talk(proxy.port, asked) == got


@pytest.mark.parametrize(
    ("answered", "status"),
    [
        pytest.param([b"220 mail.example ESMTP\r\n"], b"502", id="another protocol"),
        pytest.param([b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000], b"502", id="a head without end"),
        pytest.param(
            [b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"], b"502", id="101 unasked"
        ),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"], b"502", id="two lengths"
        ),
    ],
)
async def test_answer_that_is_none(answered: list[bytes], status: bytes) -> None:
    async with WireNode(says(*answered)) as node, proxy_here([node.url]) as proxy:
        head, _, body = (await talk(proxy.port, ASK)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 " + status)
        assert b'"outcome": "unknown"' in body


@pytest.mark.parametrize(
    "answered",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\nnonsense\r\n",
    ],
    ids=["length", "chunked", "chunked, then nonsense"],
)
async def test_half_an_answer_has_no_clean_end(answered: bytes) -> None:
    async with WireNode(says(answered, closes=True)) as node, proxy_here([node.url]) as proxy:
        got = await talk(proxy.port, ASK)
        assert b"0\r\n\r\n" not in got
        assert b"502" not in got


# --- the request's way


async def test_trailers_and_te_reach_the_node() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\nTrailer: X-Sum\r\n"
    body = b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nAuthorization: no\r\n\r\n"
    async with WireNode() as node, proxy_here([node.url]) as proxy:
        await talk(proxy.port, head + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    (turn,) = node.seen
    assert b"\r\nTE: trailers\r\nConnection: TE\r\n" in turn.head
    assert b"\r\nTrailer: X-Sum\r\n" in turn.head
    assert turn.head.endswith(b"\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert turn.body == b"hello"


async def test_answer_before_the_body_is_read() -> None:
    """The node refuses a large upload by its head; the client gets that, and the link is not used again."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await gone.wait()
        writer.close()

    gone = asyncio.Event()
    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, proxy_here([url], counts_files=False) as proxy:
        size = 20_000_000
        head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size
        got = await talk(proxy.port, head + b"x" * size)
        assert got == b"HTTP/1.1 413 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
        assert (await talk(proxy.port, ASK)).startswith(b"HTTP/1.1 200")
        gone.set()


# --- links


async def test_extra_bytes_end_the_link_not_the_next_answer() -> None:
    node_says = says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 Not yours\r\n\r\n")
    async with WireNode(node_says) as node, proxy_here([node.url]) as proxy:
        for _ in range(5):
            assert (await talk(proxy.port, ASK)).endswith(b"\r\n\r\nok")


@pytest.mark.parametrize(
    ("method", "idle_secs", "connections"),
    [(b"GET", 0, 1), (b"GET", 3, 1), (b"GET", 6, 2), (b"POST", 0, 1), (b"POST", 3, 2)],
)
async def test_a_link_that_rested_is_used_for_a_while_and_longer_by_safe_methods(
    method: bytes, idle_secs: int, connections: int
) -> None:
    ask = method + b" / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    async with WireNode() as node, proxy_here([node.url]) as proxy:
        await talk(proxy.port, ask)
        (link,) = proxy.app.forwarder.links.values()
        link.idle_since -= idle_secs
        await talk(proxy.port, ask)
        assert len({turn.writer for turn in node.seen}) == connections


# --- the client's side


async def test_tls(tmp_path: Path) -> None:
    ca = trustme.CA()
    certificate = ca.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    context = ssl.create_default_context()
    ca.configure_trust(context)
    files: dict[str, Any] = {
        "tls_cert_file": str(tmp_path / "cert.pem"),
        "tls_key_file": str(tmp_path / "key.pem"),
    }
    large = says(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 500_000, closes=True)
    async with WireNode(large) as node, proxy_here([node.url], **files) as proxy:
        got = await talk(proxy.port, ASK_10, context)
        assert got.partition(b"\r\n\r\n")[2] == b"x" * 500_000
        assert (await talk(proxy.port, b"nonsense\r\n\r\n", context)).startswith(b"HTTP/1.1 400 ")
    assert b"X-Forwarded-Proto: https\r\n" in node.seen[0].head


async def test_proxy_protocol_and_trust() -> None:
    """The balancer is believed to be in front of 203.0.113.9, and that one to be trusted."""
    settings: dict[str, Any] = {"proxy_protocol": True, "trusted_proxies": ["203.0.113.0/24"]}
    async with WireNode() as node, proxy_here([node.url], **settings) as proxy:
        preface = b"PROXY TCP4 203.0.113.9 10.0.0.2 4711 80\r\n"
        await talk(
            proxy.port, preface + ASK.replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n")
        )
        assert await talk(proxy.port, ASK) in (b"", b"(reset)")
    assert [b"X-Forwarded-For: 198.51.100.1, 203.0.113.9\r\n" in turn.head for turn in node.seen] == [True]


async def test_slow_client_gets_every_byte() -> None:
    """More than the kernel, the connection and the memory take; it reads last what the node sent long ago."""
    body = b"".join(b"%08d" % number for number in range(1_500_000))
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with (
        WireNode(says(head + body)) as node,
        proxy_here([node.url], max_spool_bytes=2_000_000) as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port, limit=1000)
        writer.write(ASK)
        budget = proxy.app.settings.spool_budget
        await until(lambda: budget.used > 1_000_000, "its answer is on disk")
        got = await reader.read()
        writer.close()
        assert got.endswith(body)
        assert len(got.partition(b"\r\n\r\n")[2]) == len(body)
