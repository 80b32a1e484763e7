"""Certificates of the users' port are renewed while it runs."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.fakes.proxy_here import proxy_here
from tests.fakes.wire_node import WireNode


def issue(ca: trustme.CA, folder: Path) -> None:
    certificate = ca.issue_cert("localhost")
    (folder / "cert.pem").write_bytes(certificate.cert_chain_pems[0].bytes())
    (folder / "key.pem").write_bytes(certificate.private_key_pem.bytes())


async def serial_of(port: int, context: ssl.SSLContext) -> str:
    """The serial number of the certificate that a new connection is shown."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    serial = str(writer.get_extra_info("peercert")["serialNumber"])
    writer.close()
    await writer.wait_closed()
    return serial


async def test_a_reload_takes_renewed_files_and_keeps_the_old_where_they_are_bad(tmp_path: Path) -> None:
    ca = trustme.CA()
    issue(ca, tmp_path)
    trusting = ssl.create_default_context()
    ca.configure_trust(trusting)
    files: dict[str, Any] = {
        "tls_cert_file": str(tmp_path / "cert.pem"),
        "tls_key_file": str(tmp_path / "key.pem"),
    }
    async with WireNode() as node, proxy_here([node.url], **files) as proxy:
        first = await serial_of(proxy.port, trusting)
        assert await serial_of(proxy.port, trusting) == first

        issue(ca, tmp_path)
        assert await serial_of(proxy.port, trusting) == first, "not before the reload"
        assert proxy.app.reload(proxy.app.config) == []
        second = await serial_of(proxy.port, trusting)
        assert second != first

        (tmp_path / "cert.pem").write_text("not a certificate")
        with pytest.raises(ssl.SSLError):
            proxy.app.reload(proxy.app.config)
        assert await serial_of(proxy.port, trusting) == second
