"""The head a node gets: what is the client's, byte for byte, and what is ours."""

from __future__ import annotations

import pytest

from proxy.errors import HeadTooLarge, LoopDetected, RequestError
from proxy.http.message import Field, Request, allowed_trailers, check_request, trailer_bytes
from proxy.http.peer import Peer

OURS = (
    b"X-Request-Id: new\r\n"
    b"X-Forwarded-For: 192.0.2.7\r\n"
    b"X-Forwarded-Proto: http\r\n"
    b"X-Forwarded-Host: a\r\n"
    b'Forwarded: for=192.0.2.7;proto=http;host="a"\r\n'
    b"Via: 1.1 fifo-proxy-test\r\n"
)


def peer(address: str = "192.0.2.7", *, is_trusted: bool = False, scheme: bytes = b"http") -> Peer:
    return Peer(address, scheme=scheme, is_trusted=is_trusted, pseudonym=b"fifo-proxy-test")


def parsed(
    *lines: bytes, start: bytes = b"GET / HTTP/1.1", of: Peer | None = None, max_header_bytes: int = 5000
) -> Request:
    method, target, version = start.split(b" ")
    fields: list[Field] = []
    for line in lines:
        name, _, value = line.partition(b": ")
        fields.append((name, value))
    return check_request(
        method,
        target,
        version[5:].decode(),
        fields,
        of or peer(),
        b"new",
        max_header_bytes=max_header_bytes,
        max_body_bytes=1000,
    )


def sent(*lines: bytes, start: bytes = b"GET / HTTP/1.1", of: Peer | None = None) -> list[bytes]:
    """The lines of the head that a node gets."""
    head = parsed(*lines, start=start, of=of).head_for(None)
    assert head.endswith(b"\r\n\r\n")
    return head[:-4].split(b"\r\n")


def values(head: list[bytes], name: bytes) -> list[bytes]:
    return [line.partition(b": ")[2] for line in head if line.lower().startswith(name.lower() + b":")]


@pytest.mark.parametrize(
    "target",
    [
        b"/", b"/?", b"/a?b=c&b=c&", b"/%2e%2E/%2f%5C", b"//a//b/", b"/a/../b/./c", b"/a;b=c/d", b"/%zz%",
        b"/?q=a+b%20c", b"/a#b", b"http://elsewhere/a?b", b"*", b"/" + b"x" * 4000,
    ],
)  # fmt: skip
def test_target_is_untouched(target: bytes) -> None:
    assert sent(b"Host: a", start=b"GET " + target + b" HTTP/1.1")[0] == b"GET " + target + b" HTTP/1.1"


def test_fields_keep_order_case_repetitions_and_bytes() -> None:
    lines = [
        b"accept: */*",
        b"X-B: 2",
        b"hOsT: a",
        b"X-A: 1",
        b"X-B: 1, 2",
        b"Cookie: a=b",
        b"COOKIE: c=d",
        b"X-Text: caf\xc3\xa9 \xe9\xff",
        b'X-Odd: ",;=\t"',
        b"X-Empty: ",
        b"Accept-Encoding: gzip, br",
        b"Range: bytes=0-9, 20-",
        b"Content-Length: 5",
        b"Authorization: Bearer x",
    ]
    start = b"POST / HTTP/1.1"
    assert b"\r\n".join(sent(*lines, start=start)) + b"\r\n" == b"\r\n".join([start, *lines]) + b"\r\n" + OURS


def test_host_is_replaced_where_it_stood() -> None:
    head = parsed(b"X-A: 1", b"host: a", b"X-B: 2").head_for(b"node.example")
    assert head.startswith(b"GET / HTTP/1.1\r\nX-A: 1\r\nhost: node.example\r\nX-B: 2\r\n")
    assert b"X-Forwarded-Host: a\r\n" in head


@pytest.mark.parametrize(
    "host", [b"a", b"a:80", b"[::1]:8080", b"10.0.0.1", b"xn--e1a.example", b"a_b.c", b""]
)
def test_hosts(host: bytes) -> None:
    assert values(sent(b"Host: " + host), b"Host") == [host]


def test_http10_needs_no_host() -> None:
    head = parsed(start=b"GET / HTTP/1.0").head_for(b"node:1")
    assert head.startswith(b"GET / HTTP/1.1\r\nHost: node:1\r\n")
    assert b"Forwarded-Host" not in head
    assert b"Via: 1.0 fifo-proxy-test\r\n" in head


# --- hop by hop


def test_hop_by_hop_fields_end_here() -> None:
    head = sent(
        b"Host: a",
        b"Connection: close, X-Mine, x-b",
        b"Connection: X-C",
        b"x-mine: 1",
        b"X-B: 1",
        b"X-C: 1",
        b"X-D: 1",
        b"Keep-Alive: timeout=5",
        b"Proxy-Connection: keep-alive",
        b"TE: trailers",
        b"Upgrade: websocket",
    )
    assert head[1:3] == [b"Host: a", b"X-D: 1"]
    assert b"\r\n".join(head[3:]) + b"\r\n" == OURS


def test_what_a_node_needs_cannot_be_named_away() -> None:
    names = [b"Host", b"Content-Length", b"Content-Type", b"Authorization"]
    lines = [b"Host: a", b"Content-Length: 5", b"Content-Type: x", b"Authorization: y"]
    assert sent(*lines, b"Connection: " + b", ".join(names), start=b"PUT / HTTP/1.1")[1:5] == lines


def test_te_trailers_is_asked_for_by_us() -> None:
    assert sent(b"Host: a", b"TE: gzip, Trailers", b"Connection: TE")[2:4] == [
        b"TE: trailers",
        b"Connection: TE",
    ]
    assert not values(sent(b"Host: a", b"TE: gzip", b"Connection: TE"), b"TE")


def test_upgrade() -> None:
    request = parsed(
        b"Host: a", b"Connection: keep-alive, upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: x"
    )
    assert request.upgrade == b"websocket"
    assert b"Sec-WebSocket-Key: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" in request.head_for(None)
    h2c = [b"Host: a", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAM"]
    assert sent(*h2c)[2:5] == [
        b"Upgrade: h2c",
        b"HTTP2-Settings: AAM",
        b"Connection: Upgrade, HTTP2-Settings",
    ]


@pytest.mark.parametrize(
    ("start", "lines"),
    [
        (b"GET / HTTP/1.0", [b"Connection: Upgrade", b"Upgrade: x"]),
        (b"GET / HTTP/1.1", [b"Upgrade: x"]),
        (b"GET / HTTP/1.1", [b"Connection: Upgrade"]),
        (b"POST / HTTP/1.1", [b"Connection: Upgrade", b"Upgrade: x", b"Content-Length: 1"]),
    ],
)
def test_no_upgrade(start: bytes, lines: list[bytes]) -> None:
    request = parsed(b"Host: a", *lines, start=start)
    assert request.upgrade is None
    assert b"pgrade" not in request.head_for(None)


# --- who was here before

BEFORE = [
    b"X-Forwarded-For: 198.51.100.1",
    b"X-Forwarded-For: 198.51.100.2",
    b"X-Forwarded-Proto: https",
    b"X-Forwarded-Host: public.example",
    b"Forwarded: for=198.51.100.1",
    b"Via: 1.1 edge",
]


def test_a_trusted_peer_is_believed() -> None:
    head = sent(b"Host: a", *BEFORE, of=peer(is_trusted=True))
    assert head[3:] == [
        b"X-Forwarded-For: 198.51.100.1, 198.51.100.2, 192.0.2.7",
        b"X-Forwarded-Proto: https",
        b"X-Forwarded-Host: public.example",
        b'Forwarded: for=198.51.100.1, for=192.0.2.7;proto=http;host="a"',
        b"Via: 1.1 edge, 1.1 fifo-proxy-test",
    ]


def test_any_other_is_not() -> None:
    both = peer()
    for _ in range(2):  # what is kept for the next request of the connection is the same
        assert b"\r\n".join(sent(b"Host: a", *BEFORE, of=both)[2:]) + b"\r\n" == OURS
    assert values(sent(b"Host: b", of=both), b"X-Forwarded-Host") == [b"b"]
    assert values(sent(b"Host: b", start=b"GET / HTTP/1.0", of=both), b"Via") == [b"1.0 fifo-proxy-test"]


def test_ipv6_and_tls() -> None:
    head = sent(b"Host: a", of=peer("2001:db8::7", scheme=b"https"))
    assert values(head, b"X-Forwarded-For") == [b"2001:db8::7"]
    assert values(head, b"X-Forwarded-Proto") == [b"https"]
    assert values(head, b"Forwarded") == [b'for="[2001:db8::7]";proto=https;host="a"']


def test_nobody_known() -> None:
    assert values(sent(b"Host: a", of=peer("")), b"X-Forwarded-For") == [b"unknown"]


@pytest.mark.parametrize("is_trusted", [False, True])
def test_loop(is_trusted: bool) -> None:
    with pytest.raises(LoopDetected):
        parsed(
            b"Host: a", b"Via: 1.1 edge", b"via: 1.1 fifo-proxy-test, 1.0 x", of=peer(is_trusted=is_trusted)
        )


@pytest.mark.parametrize(
    ("line", "given"),
    [
        (b"X-Request-Id: mine-1", b"mine-1"),
        (b"X-Request-Id: " + b"x" * 129, b"new"),
        (b'X-Request-Id: a"b', b"new"),
        (b"X-Request-Id: ", b"new"),
        (b"X-Other: y", b"new"),
    ],
)
def test_request_id(line: bytes, given: bytes) -> None:
    request = parsed(b"Host: a", line)
    assert request.request_id == given
    assert values(request.head_for(None).split(b"\r\n"), b"X-Request-Id") == [given]


# --- limits, trailers


def test_size_counts_every_byte() -> None:
    parsed(b"Host: a", b"X: " + b"x" * 4000)
    with pytest.raises(HeadTooLarge):
        parsed(b"Host: a", *[b"X: y"] * 1000)
    with pytest.raises(HeadTooLarge):
        parsed(b"Host: a", start=b"GET /" + b"x" * 5000 + b" HTTP/1.1")


@pytest.mark.parametrize(
    ("lines", "start", "status"),
    [
        ([b"Content-Length: 1001"], b"PUT / HTTP/1.1", 413),
        ([b"Expect: 200-ok"], b"PUT / HTTP/1.1", 417),
        ([], b"CONNECT a:80 HTTP/1.1", 405),
        ([], b"GET / HTTP/2.0", 400),
    ],
)
def test_refused(lines: list[bytes], start: bytes, status: int) -> None:
    with pytest.raises(RequestError) as caught:
        parsed(b"Host: a", *lines, start=start)
    assert (caught.value.status, caught.value.outcome, caught.value.closes) == (status, "not_sent", True)


def test_trailers() -> None:
    kept = [(b"X-Sum", b"1"), (b"x-sum", b"2")]
    assert allowed_trailers([(b"X-Sum", b" 1 "), (b"Cookie", b"a"), (b"x-sum", b"2"), (b"Via", b"b")]) == kept
    assert trailer_bytes(kept) == b"0\r\nX-Sum: 1\r\nx-sum: 2\r\n\r\n"
    assert trailer_bytes(None) == b"0\r\n\r\n"
