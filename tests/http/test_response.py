"""The head a client gets, and the answers that are ours."""

from __future__ import annotations

import json

import pytest

from proxy.errors import LineFull, MalformedRequest, MethodRefused, NodeAnsweredBadly, NodeBroke
from proxy.http.message import Field
from proxy.http.response import Framing, Response, check_response, client_head, own_fields, problem_response
from tests.fakes.node_side import UPGRADE, make_request


def checked(*lines: bytes, status: int = 200, version: str = "1.1", method: bytes = b"GET") -> Response:
    fields: list[Field] = []
    for line in lines:
        name, _, value = line.partition(b": ")
        fields.append((name, value))
    return check_response(make_request(method), status, b"Fine", version, fields)


def test_fields_keep_order_case_repetitions_and_bytes() -> None:
    lines = [
        b"Set-Cookie: a",
        b"X: caf\xe9",
        b"set-cookie: b",
        b"Content-Encoding: gzip",
        b"Location: /x?",
        b"Via: 1.1 y",
    ]
    response = checked(*lines, b"Content-Length: 5")
    assert response.fields == b"\r\n".join([*lines, b"Content-Length: 5", b""])
    assert (response.framing, response.length) == (Framing.LENGTH, 5)


def test_hop_by_hop_fields_end_here() -> None:
    response = checked(
        b"Connection: X-Mine, close",
        b"x-mine: 1",
        b"X-B: 1",
        b"Keep-Alive: timeout=5",
        b"Proxy-Connection: close",
        b"Transfer-Encoding: chunked",
        b"Upgrade: h2c",
        b"X-Request-Id: the node's",
    )
    assert response.fields == b"X-B: 1\r\n"
    assert response.framing is Framing.CHUNKED


def test_length_cannot_be_named_away() -> None:
    assert checked(b"Connection: Content-Length", b"Content-Length: 5").fields == b"Content-Length: 5\r\n"


@pytest.mark.parametrize(
    ("lines", "status", "method", "framing"),
    [
        ([b"Content-Length: 0"], 200, b"GET", Framing.LENGTH),
        ([b"Transfer-Encoding: Chunked"], 200, b"GET", Framing.CHUNKED),
        ([], 200, b"GET", Framing.EOF),
        ([b"Content-Length: 5"], 200, b"HEAD", Framing.NONE),
        ([b"Transfer-Encoding: chunked"], 200, b"HEAD", Framing.NONE),
        ([], 204, b"GET", Framing.NONE),
        ([b"Content-Length: 5"], 304, b"GET", Framing.NONE),
        ([], 103, b"GET", Framing.NONE),
        ([b"Content-Length: 0"], 100, b"GET", Framing.NONE),
        ([], 205, b"GET", Framing.EOF),
        ([], 999, b"GET", Framing.EOF),
    ],
)
def test_framing(lines: list[bytes], status: int, method: bytes, framing: Framing) -> None:
    assert checked(*lines, status=status, method=method).framing is framing


@pytest.mark.parametrize(
    ("lines", "version", "is_kept"),
    [
        ([b"Content-Length: 0"], "1.1", True),
        ([b"Content-Length: 0", b"Connection: Close"], "1.1", False),
        ([b"Content-Length: 0", b"Connection: keep-alive, close"], "1.1", False),
        ([b"Content-Length: 0", b"Connection: close", b"Connection: keep-alive"], "1.1", False),
        ([b"Content-Length: 0"], "1.0", False),
        ([b"Content-Length: 0", b"Connection: Keep-Alive"], "1.0", True),
        ([], "1.1", False),
        ([b"Transfer-Encoding: chunked"], "1.1", True),
    ],
)
def test_keeping_the_link(lines: list[bytes], version: str, is_kept: bool) -> None:
    assert checked(*lines, version=version).keeps_alive is is_kept


@pytest.mark.parametrize(
    ("lines", "status", "version"),
    [
        ([], 200, "2.0"),
        ([], 200, "0.9"),
        ([], 99, "1.1"),
        ([b"Transfer-Encoding: gzip"], 200, "1.1"),
        ([b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"], 200, "1.1"),
        ([b"Upgrade: x"], 101, "1.1"),
        ([b"Content-Length: 3"], 103, "1.1"),
    ],
)
def test_refused(lines: list[bytes], status: int, version: str) -> None:
    with pytest.raises(NodeAnsweredBadly):
        checked(*lines, status=status, version=version)


def test_switching() -> None:
    asked = make_request(b"GET", *UPGRADE)
    fields = [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"), (b"Sec-WebSocket-Accept", b"x")]
    response = check_response(asked, 101, b"Switching Protocols", "1.1", fields)
    assert not response.is_interim
    assert response.switching_bytes(b"X-Ours: 1\r\n") == (
        b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\n"
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nX-Ours: 1\r\n\r\n"
    )
    with pytest.raises(NodeAnsweredBadly):
        check_response(asked, 101, b"Switching Protocols", "1.1", fields[:1])


@pytest.mark.parametrize(
    ("version", "is_chunked", "keeps_alive", "ours"),
    [
        ("1.1", True, True, b"Transfer-Encoding: chunked\r\n"),
        ("1.1", True, False, b"Transfer-Encoding: chunked\r\nConnection: close\r\n"),
        ("1.1", False, True, b""),
        ("1.0", False, True, b"Connection: keep-alive\r\n"),
        ("1.0", False, False, b"Connection: close\r\n"),
    ],
)
def test_client_head(version: str, is_chunked: bool, keeps_alive: bool, ours: bytes) -> None:
    response = checked(b"X: y")
    head = client_head(make_request(version=version), response, b"Ours: 1\r\n", is_chunked, keeps_alive)
    assert head == b"HTTP/1.1 200 Fine\r\nX: y\r\nOurs: 1\r\n" + ours + b"\r\n"


def test_problem() -> None:
    answer = problem_response(LineFull("4096 wait", retry_after_secs=7), b"id-1", 1.23456, keeps_alive=True)
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 429 Too Many Requests"
    assert set(lines[2:]) == {
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        'Proxy-Status: fifo-proxy; error=connection_limit_reached; outcome="not_sent"',
        "Cache-Control: no-store",
        "X-Request-Id: id-1",
        "Retry-After: 7",
        "Connection: keep-alive",
    }
    assert json.loads(body) == {
        "type": "about:blank",
        "title": "Too Many Requests",
        "status": 429,
        "detail": "4096 wait",
        "request_id": "id-1",
        "outcome": "not_sent",
        "waited_secs": 1.235,
    }


def test_problems_differ() -> None:
    assert b'outcome="unknown"' in problem_response(NodeBroke("x"), b"id", 0, keeps_alive=True)
    assert b"\r\nAllow: GET, " in problem_response(MethodRefused("x"), b"id", 0, keeps_alive=False)
    head = problem_response(MalformedRequest("x"), b"id", 0, keeps_alive=False, is_head=True)
    assert head.endswith(b"Connection: close\r\n\r\n")


@pytest.mark.parametrize(
    ("secs", "written"),
    [
        (0.0, b"0.0"),
        (0.00126, b"1.2"),
        (0.0999, b"99.9"),
        (0.1, b"100.0"),
        (12.34567, b"12345.7"),
        (-0.5, b"-500.0"),
    ],
)
def test_times_are_written_in_milliseconds(secs: float, written: bytes) -> None:
    fields = own_fields(b"id-1", secs, secs)
    assert fields == b"Server-Timing: queue;dur=%b, node;dur=%b\r\nX-Request-Id: id-1\r\n" % (
        written,
        written,
    )
