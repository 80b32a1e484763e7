"""Responses that are none, or break off: one failure, told last, and the link is cut."""

from __future__ import annotations

import pytest

from tests.fakes.node_side import NodeSide, answered

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n3\r\ncde\r\n0\r\nX-Sum: 9\r\n\r\n"
)


def failure(node: NodeSide) -> tuple[int, str, bool]:
    """Status, outcome, and whether a byte had come; the link is cut."""
    assert node.transport.is_aborted
    assert not node.link.is_idle
    assert node.heard[-1][0] == "failed"
    error, heard = node.told("failed")
    return error.status, error.outcome, heard


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(b"\x15\x03\x01\x00\x02\x02\x16", id="TLS alert"),
        pytest.param(b"<html>hello</html>", id="HTTP/0.9"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", id="SSH"),
        pytest.param(b"HTTP/1.1 2OO OK\r\n\r\n", id="letters for a status"),
        pytest.param(b"HTTP/1.1 099 X\r\n\r\n", id="status 099"),
        pytest.param(b"HTTP/2.0 200 OK\r\n\r\n", id="version 2.0"),
        pytest.param(b"HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok", id="bare LF"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n", id="space before a colon"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: y\0\r\n\r\n", id="NUL"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n", id="obs-fold"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", id="two lengths"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", id="negative length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            id="both lengths",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
            id="and reversed",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx", id="gzip"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", id="gzip, chunked"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 3000 + b"\r\n\r\n", id="too large a head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 3000, id="a head without end"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", id="101 without Upgrade"),
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
            id="101 not asked for",
        ),
        pytest.param(
            b"HTTP/1.1 103 Early Hints\r\nContent-Length: 2\r\n\r\nok", id="an interim response's body"
        ),
        pytest.param(
            b"HTTP/1.1 103 X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="and a chunked one"
        ),
        pytest.param(
            b"HTTP/1.1 103 X\r\nContent-Length: 2\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            id="and one that is missing",
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_response_that_is_not_http(response: bytes, size: int) -> None:
    node = answered(response, size=size)
    assert failure(node) == (502, "unknown", True)
    assert node.what == ["failed"]


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"zz\r\n", id="no size"),
        pytest.param(b"2\r\nabc\r\n", id="more than its size"),
        pytest.param(b"2\nab\r\n", id="bare LF"),
        pytest.param(b"0\r\nX : y\r\n\r\n", id="malformed trailer"),
        pytest.param(b"0\r\nX: " + b"y" * 3000 + b"\r\n\r\n", id="trailers too large"),
    ],
)
def test_malformed_chunks(rest: bytes) -> None:
    node = answered(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", rest)
    assert failure(node) == (502, "unknown", True)
    assert "ended" not in node.what


@pytest.mark.parametrize(
    ("came", "heard"),
    [
        (b"", False),
        (b"HTTP/1.1 200", True),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour", True),
        (CHUNKED[:-2], True),
    ],
    ids=[
        "before",
        "in the head",
        "after an interim one",
        "before the body",
        "in the body",
        "in the trailers",
    ],
)
@pytest.mark.parametrize("error", [None, ConnectionResetError("reset")], ids=["FIN", "RST"])
def test_node_breaks_off(came: bytes, heard: bool, error: Exception | None) -> None:
    node = answered(*[came] if came else [])
    if error is None:
        node.eof()
    node.transport.lose(error)
    told, was_heard = node.told("failed")
    assert (told.status, told.outcome, was_heard) == (502, "unknown", heard)
    assert "ended" not in node.what


def test_reset_is_no_end_of_a_response_without_length() -> None:
    node = answered(b"HTTP/1.1 200 OK\r\n\r\nsome")
    node.transport.lose(ConnectionResetError("reset"))
    assert node.what == ["head", "body", "failed"]
