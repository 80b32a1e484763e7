"""PROXY protocol headers, in as many pieces as they may come."""

from __future__ import annotations

import struct
from ipaddress import ip_address

import pytest

from proxy.errors import MalformedRequest
from proxy.http.proxy_protocol import Preface

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def v2(command: int, family: int, body: bytes, length: int | None = None) -> bytes:
    return SIGNATURE + struct.pack("!BBH", command, family, len(body) if length is None else length) + body


def addresses(source: str) -> bytes:
    packed = ip_address(source).packed
    return packed * 2 + b"\x12\x34\x00\x50"


@pytest.mark.parametrize(
    ("header", "address"),
    [
        (b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 80\r\n", "203.0.113.9"),
        (b"PROXY TCP6 2001:DB8::9 ::1 4711 80\r\n", "2001:db8::9"),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", None),
        (v2(0x21, 0x11, addresses("203.0.113.9")), "203.0.113.9"),
        (v2(0x21, 0x21, addresses("2001:db8::9")), "2001:db8::9"),
        (v2(0x21, 0x11, addresses("203.0.113.9") + b"\x03\x00\x04abcd"), "203.0.113.9"),  # a TLV behind
        (v2(0x20, 0x00, b""), None),  # LOCAL: the balancer's own check
        (v2(0x20, 0x11, addresses("203.0.113.9")), None),
        (v2(0x21, 0x31, b"/run/socket".ljust(216, b"\0")), None),  # a UNIX socket
        (v2(0x21, 0x00, b""), None),
    ],
)
def test_header(header: bytes, address: str | None) -> None:
    for size in (1, 5, 1000):
        preface = Preface()
        pieces = [header[at : at + size] for at in range(0, len(header), size)]
        pieces[-1] += b"GET /"
        rests = [preface.feed(piece) for piece in pieces]
        assert rests == [None] * (len(pieces) - 1) + [b"GET /"]
        assert preface.address == address


@pytest.mark.parametrize(
    "header",
    [
        b"GET / HTTP/1.1\r\n",
        b"PROXY\r\n",
        b"PROXY \r\n",
        b"PROXY TCP4\r\n",
        b"PROXY UDP4 203.0.113.9 10.0.0.1 1 2\r\n",
        b"PROXY TCP4 203.0.113.9 10.0.0.1 1\r\n",
        b"PROXY TCP4  203.0.113.9 10.0.0.1 1 2\r\n",
        b"PROXY TCP4 203.0.113.999 10.0.0.1 1 2\r\n",
        b"PROXY TCP4 2001:db8::9 ::1 1 2\r\n",
        b"PROXY TCP6 203.0.113.9 10.0.0.1 1 2\r\n",
        b"PROXY TCP6 fe80::1%a\nX-Evil:1 ::1 1 2\r\n",
        b"PROXY TCP4 " + b"1" * 200,
        b"\r\n\r\nGET",
        v2(0x11, 0x11, addresses("203.0.113.9")),
        v2(0x22, 0x11, addresses("203.0.113.9")),
        v2(0x21, 0x11, b"\1\2\3\4"),
        b"\x16\x03\x01",
    ],
)
def test_no_header(header: bytes) -> None:
    with pytest.raises(MalformedRequest):
        Preface().feed(header)
