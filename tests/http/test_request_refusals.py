"""What could be read in two ways is not read at all: 400, the connection ends, and nothing behind it is a request."""

from __future__ import annotations

import pytest

from tests.fakes.reader import chunked, error_of


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"GET / HTTP/1.1\nHost: a\r\n\r\n", id="bare LF after the request line"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", id="bare LF after a field"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\n\n", id="bare LF as the head's end"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n", id="bare CR in a field"),
        pytest.param(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", id="space before a colon"),
        pytest.param(b"GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", id="tab before a colon"),
        pytest.param(b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", id="space before the first field"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", id="obs-fold"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\tc\r\n\r\n", id="obs-fold of an empty value"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n", id="NUL in a value"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n", id="NUL in a name"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX\xe9: b\r\n\r\n", id="obs-text in a name"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", id="no name"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", id="no colon"),
        pytest.param(b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", id="NUL in the target"),
        pytest.param(b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", id="space in the target"),
        pytest.param(b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", id="unencoded bytes in the target"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="no Host"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", id="two Hosts"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", id="a path in Host"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", id="a space in Host"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", id="a user in Host"),
        pytest.param(b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", id="version 2.0"),
        pytest.param(b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", id="version 0.9"),
        pytest.param(b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", id="version 1.2"),
        pytest.param(b"GET / http/1.1\r\nHost: a\r\n\r\n", id="version in small letters"),
        pytest.param(b"GET /\r\n\r\nX", id="HTTP/0.9"),
        pytest.param(b"get / HTTP/1.1\r\nHost: a\r\n\r\n", id="method in small letters"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2's preface"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="TLS"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", id="SSH"),
    ],
)
def test_malformed_head(head: bytes) -> None:
    error = error_of(head)
    assert (error.status, error.closes, error.outcome) == (400, True, "not_sent")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", id="length and chunked"),
        pytest.param(b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", id="chunked and length"),
        pytest.param(b"Content-Length: 5\r\nContent-Length: 6\r\n", id="two lengths"),
        pytest.param(b"Content-Length: 5\r\nContent-Length: 5\r\n", id="the same length twice"),
        pytest.param(b"Content-Length: 5, 5\r\n", id="a list of lengths"),
        pytest.param(b"Content-Length: 5 5\r\n", id="two numbers"),
        pytest.param(b"Content-Length: +5\r\n", id="a sign"),
        pytest.param(b"Content-Length: -5\r\n", id="a negative length"),
        pytest.param(b"Content-Length: 0x5\r\n", id="a hexadecimal length"),
        pytest.param(b"Content-Length: 5.0\r\n", id="a fraction"),
        pytest.param(b"Content-Length: \xd9\xa5\r\n", id="digits that are not ASCII"),
        pytest.param(b"Content-Length:\r\n", id="an empty length"),
        pytest.param(b"Content-Length: 18446744073709551621\r\n", id="2**64 + 5"),
        pytest.param(b"Content-Length:\r\n 5\r\n", id="a folded length"),
        pytest.param(b"Transfer-Encoding: gzip\r\n", id="gzip alone"),
        pytest.param(b"Transfer-Encoding: gzip, chunked\r\n", id="gzip, chunked"),
        pytest.param(b"Transfer-Encoding: chunked, chunked\r\n", id="chunked twice"),
        pytest.param(
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", id="two fields chunked"
        ),
        pytest.param(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", id="then identity"),
        pytest.param(b"Transfer-Encoding: identity\r\n", id="identity"),
        pytest.param(b"Transfer-Encoding: xchunked\r\n", id="nearly chunked"),
        pytest.param(b"Transfer-Encoding: \x0bchunked\r\n", id="a vertical tab"),
        pytest.param(b'Transfer-Encoding: "chunked"\r\n', id="quoted"),
        pytest.param(b"Transfer-Encoding: chunked;q=1\r\n", id="with a parameter"),
        pytest.param(b"Transfer-Encoding:\r\n", id="empty"),
        pytest.param(b"Transfer-Encoding : chunked\r\n", id="space before the colon"),
    ],
)
def test_framing_that_can_be_read_in_two_ways(fields: bytes) -> None:
    """Nothing of what follows is taken for a request."""
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    assert error_of(chunked(b"5\r\nhello\r\n0\r\n\r\n" + smuggled, fields)).status == 400


def test_chunked_in_http10() -> None:
    head = b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert error_of(head + b"0\r\n\r\n").status == 400


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"0x5\r\nhello\r\n0\r\n\r\n", id="0x"),
        pytest.param(b"-1\r\nhello\r\n0\r\n\r\n", id="negative"),
        pytest.param(b"5 \r\nhello\r\n0\r\n\r\n", id="space after the size"),
        pytest.param(b" 5\r\nhello\r\n0\r\n\r\n", id="space before the size"),
        pytest.param(b"\r\nhello\r\n0\r\n\r\n", id="no size"),
        pytest.param(b"g\r\nhello\r\n0\r\n\r\n", id="not a number"),
        pytest.param(b"10000000000000005\r\nhello\r\n0\r\n\r\n", id="2**64 + 5"),
        pytest.param(b"5\nhello\r\n0\r\n\r\n", id="bare LF after the size"),
        pytest.param(b"5\r\nhello\n0\r\n\r\n", id="bare LF after the data"),
        pytest.param(b"5\r\nhelloXX0\r\n\r\n", id="more data than told"),
        pytest.param(b"5;a\nb\r\nhello\r\n0\r\n\r\n", id="bare LF in an extension"),
        pytest.param(b"5\r\nhello\r\n0\r\nX : y\r\n\r\n", id="a malformed trailer"),
        pytest.param(b"5\r\nhello\r\n0\r\nX: y\n\r\n", id="bare LF after a trailer"),
        pytest.param(b"5\r\nhello\r\n0\r\nX: y\0\r\n\r\n", id="NUL in a trailer"),
    ],
)
def test_malformed_chunks(body: bytes) -> None:
    assert error_of(chunked(body)).status == 400
