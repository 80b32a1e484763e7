"""Nodes' addresses, and their TLS: verified, and resumed on the next connection."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from proxy.http.address import Address, client_context, parse_address
from proxy.http.node_link import open_link
from tests.fakes.node_side import NodeSide, make_request
from tests.fakes.until import until


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://10.0.0.5:8188", Address("10.0.0.5", 8188, False, b"10.0.0.5:8188", False)),
        ("http://10.0.0.5", Address("10.0.0.5", 80, False, b"10.0.0.5", False)),
        ("http://[2001:db8::5]:8188/", Address("2001:db8::5", 8188, False, b"[2001:db8::5]:8188", False)),
        ("http://localhost:8188", Address("localhost", 8188, False, b"localhost:8188", False)),
        ("http://a.localhost:1", Address("a.localhost", 1, False, b"a.localhost:1", False)),
        ("https://x-8188.example.cn", Address("x-8188.example.cn", 443, True, b"x-8188.example.cn", True)),
        ("https://Node.Example:8443/", Address("node.example", 8443, True, b"Node.Example:8443", True)),
        ("http://user:pass@node:1", Address("node", 1, False, b"node:1", True)),
        ("http://münchen.example", Address("münchen.example", 80, False, b"xn--mnchen-3ya.example", True)),
    ],
)
def test_address(url: str, address: Address) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize(
    "url", ["", "10.0.0.5:80", "ftp://a", "http://", "//a", "http://a:99999", "http://a:b"]
)
def test_no_address(url: str) -> None:
    with pytest.raises(ValueError):
        parse_address(url)


@asynccontextmanager
async def tls_node(ca: trustme.CA, name: str = "127.0.0.1") -> AsyncIterator[tuple[Address, list[bool]]]:
    """A node behind TLS; it notes of each connection whether its session was resumed."""
    resumed: list[bool] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        resumed.append(writer.get_extra_info("ssl_object").session_reused)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1], True, b"node", False), resumed


@pytest.fixture
def ca_file(tmp_path: Path) -> tuple[trustme.CA, Path]:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return ca, tmp_path / "ca.pem"


async def ask(address: Address, context: object) -> bytes:
    link = await open_link(address, context, 65536)  # type: ignore[arg-type]
    receiver = NodeSide()
    request = make_request()
    link.send(request, request.head_for(None), receiver)
    await until(lambda: "ended" in receiver.what or "failed" in receiver.what, "an answer")
    await until(lambda: link._transport is None, "the link is closed")
    return receiver.body


async def test_session_is_resumed(ca_file: tuple[trustme.CA, Path]) -> None:
    ca, file = ca_file
    context = client_context(verify=True, ca_file=file)
    async with tls_node(ca) as (address, resumed):
        assert [await ask(address, context) for _ in range(3)] == [b"ok"] * 3
        assert resumed == [False, True, True]


async def test_unknown_authority_is_refused(ca_file: tuple[trustme.CA, Path]) -> None:
    async with tls_node(trustme.CA()) as (address, _):
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(address, client_context(verify=True, ca_file=ca_file[1]))


async def test_another_name_is_refused(ca_file: tuple[trustme.CA, Path]) -> None:
    async with tls_node(ca_file[0], "elsewhere.example") as (address, _):
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(address, client_context(verify=True, ca_file=ca_file[1]))


async def test_not_verified_where_told_so(ca_file: tuple[trustme.CA, Path]) -> None:
    async with tls_node(trustme.CA(), "elsewhere.example") as (address, _):
        assert await ask(address, client_context(verify=False, ca_file=None)) == b"ok"


def test_file_that_is_no_authority(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(OSError):
        client_context(verify=True, ca_file=tmp_path / "ca.pem")
