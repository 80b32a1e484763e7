"""Probes over real sockets: what only a real server can refuse."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trustme

from proxy.config import Config
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.nodes import Node
from proxy.probe import Prober, open_client


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # it keeps connections open, and serves no other one meanwhile
    seen: ClassVar[list[dict[str, str]]]

    def do_GET(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.send_header("Set-Cookie", "visited=1")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: Any) -> None: ...


@contextlib.contextmanager
def single_threaded_node(tls: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[dict[str, str]]]]:
    class Handler(_Handler):
        seen: ClassVar[list[dict[str, str]]] = []

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port, Handler.seen
        finally:
            server.shutdown()
            thread.join()


@contextlib.asynccontextmanager
async def probing(
    url: str, *, close_idle_link: Callable[[Node], None] = lambda _: None, **settings: Any
) -> AsyncIterator[tuple[Dispatcher, Node]]:
    config = Config(node_refresh_interval_secs=0.3, probe_timeout_secs=0.5, **settings)
    dispatcher = Dispatcher(capacity=1, grant=lambda _, lease: None)
    node = dispatcher.add("a", time.monotonic(), id="a", url=url, is_running=True)
    async with open_client(config) as client:
        prober = Prober(dispatcher, config, close_idle_link, client)
        prober.start()
        try:
            yield dispatcher, node
        finally:
            await prober.stop()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110  (a node tells nobody that it was probed)
            await asyncio.sleep(0.01)


async def test_probe_leaves_no_connection_and_no_cookie_behind() -> None:
    """A second one on a node that serves one connection at a time would else hang."""
    with single_threaded_node() as (port, seen):
        async with probing(f"http://127.0.0.1:{port}") as (_, node):
            await until(lambda: len(seen) >= 3)
            assert node.state == "idle"
    assert {headers["connection"] for headers in seen} == {"close"}
    assert seen[0]["host"] == f"127.0.0.1:{port}"
    assert not any("cookie" in headers for headers in seen)


async def test_our_idle_link_is_not_held_against_a_single_threaded_node() -> None:
    with single_threaded_node() as (port, seen), socket.create_connection(("127.0.0.1", port)) as link:
        closed: list[Node] = []

        def close_idle_link(node: Node) -> None:
            closed.append(node)
            link.close()

        link.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.to_thread(link.recv, 1000)
        async with probing(f"http://127.0.0.1:{port}", close_idle_link=close_idle_link) as (dispatcher, node):
            dispatcher.ready(node, time.monotonic())
            await until(lambda: len(seen) >= 2)
            await until(lambda: node.last_probe is not None)
            assert node.last_probe
            assert node.last_probe.status == 200
            assert node.state == "idle"
        assert closed == [node]


@pytest.mark.parametrize(
    ("verifies", "knows_ca", "is_ready"), [(True, True, True), (True, False, False), (False, False, True)]
)
async def test_certificates_are_verified_as_configured(
    tmp_path: Path, verifies: bool, knows_ca: bool, is_ready: bool
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    settings: dict[str, Any] = {
        "node_tls_verify": verifies,
        "node_ca_file": str(tmp_path / "ca.pem") if knows_ca else None,
    }
    with single_threaded_node(tls) as (port, _):
        async with probing(f"https://127.0.0.1:{port}", **settings) as (_, node):
            await until(lambda: node.last_probe is not None)
            assert node.last_probe
            assert (node.last_probe.status == 200) is is_ready
            assert is_ready or "CERTIFICATE_VERIFY_FAILED" in str(node.last_probe.error)
            assert node.state == ("idle" if is_ready else "starting")
