"""What comes whole, what is refused, and that how the bytes are cut changes nothing."""

from __future__ import annotations

import pytest

from proxy.http.message import Request
from tests.fakes.reader import chunked, error_of, items, read, told

STREAM = (
    b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
    b"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
    b"\r\n"  # an empty line before a request line is let pass (RFC 9112, 2.2)
    b"POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'3;name="a;b"\r\nabc\r\n0A\r\n0123456789\r\n00\r\nDigest: x\r\nX-T:  y \r\n\r\n'
    b"POST /4 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
    b"GET /bad HTTP/1.1\r\nHost : a\r\n\r\n"
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_cuts_change_nothing(size: int) -> None:
    reader = read(*(STREAM[at : at + size] for at in range(0, len(STREAM), size)))
    assert told(reader) == [
        (b"/1", None, None),
        (b"/2", b"hello", None),
        (b"/3", b"abc0123456789", [(b"Digest", b"x"), (b"X-T", b"y")]),
        (b"/4", None, None),
        400,
    ]


@pytest.mark.parametrize("size", [1, 1000])
def test_one_more_byte_than_the_head_may_have(size: int) -> None:
    """2,000 bytes are allowed; the line's and the fields' separators count."""

    def told_of(count: int) -> list[object]:
        head = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
        head += b"x" * (count - len(head) - 4) + b"\r\n\r\n"
        return told(read(*(head[at : at + size] for at in range(0, len(head), size))))

    assert told_of(1990) == [(b"/", None, None)]
    assert told_of(2020) == [431]


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        pytest.param([b"GET /" + b"a" * 3000], 431, id="a target without end"),
        pytest.param(
            [b"GET / HTTP/1.1\r\nHost: a\r\n", *[b"X: " + b"x" * 90 + b"\r\n"] * 30], 431, id="fields"
        ),
        pytest.param(
            [b"GET / HTTP/1.1\r\nHost: a\r\nX: ", *[b"x" * 100] * 30], 431, id="a field without end"
        ),
        pytest.param(
            [chunked(b"0\r\n"), *[b"X: " + b"x" * 90 + b"\r\n"] * 30],
            431,
            id="trailers",
        ),
        pytest.param([b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5001\r\n\r\n"], 413, id="a length"),
        pytest.param([chunked(b""), *[b"3e8\r\n" + b"x" * 1000 + b"\r\n"] * 6], 413, id="chunks"),
        pytest.param([chunked(b"ffffffffff\r\n" + b"x" * 6000)], 413, id="a chunk without end"),
        pytest.param([chunked(b"1;"), *[b"x" * 1000] * 5], 413, id="a chunk's extension without end"),
        pytest.param([chunked(b""), *[b"0" * 1000] * 5], 413, id="a chunk's size without end"),
    ],
)
def test_too_large(pieces: list[bytes], status: int) -> None:
    error = error_of(*pieces)
    assert (error.status, error.closes) == (status, True)


def test_small_chunks_are_no_abuse() -> None:
    """Each byte in a chunk of its own, sizes padded as some clients do."""
    reader = read(chunked(b"00000001\r\nx\r\n" * 3000 + b"0\r\n\r\n"))
    assert told(reader) == [(b"/", b"x" * 3000, None)]


def test_as_large_as_may_be() -> None:
    assert told(read(chunked(b"1388\r\n" + b"x" * 5000 + b"\r\n0\r\n\r\n"))) == [(b"/", b"x" * 5000, None)]


def test_disk_is_full() -> None:
    error = error_of(chunked(b"7d0\r\n" + b"x" * 2000), max_spool_bytes=1500)
    assert (error.status, error.retry_after_secs) == (503, 10)


@pytest.mark.parametrize("name", [b"Host", b"Authorization", b"Cookie", b"TE", b"Content-Type", b"Trailer"])
def test_trailers_that_route_or_authenticate_are_dropped(name: bytes) -> None:
    reader = read(chunked(b"1\r\nx\r\n0\r\n%b: 1\r\nX-Sum: 1\r\n\r\n" % name))
    assert told(reader) == [(b"/", b"x", [(b"X-Sum", b"1")])]


@pytest.mark.parametrize("field", [b"Content-Length: 3", b"Transfer-Encoding: chunked"])
def test_trailers_that_frame_are_refused(field: bytes) -> None:
    assert error_of(chunked(b"1\r\nx\r\n0\r\n" + field + b"\r\n\r\n")).status == 400


def test_expecting() -> None:
    reader = read(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n")
    assert reader.awaits_word


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5001\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nExpect: a-miracle\r\nContent-Length: 5\r\n\r\n", 417),
        (b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 405),
    ],
)
def test_refused_before_the_body(head: bytes, status: int) -> None:
    reader = read(head)
    assert told(reader) == [status]
    assert not reader.awaits_word


def test_nothing_to_expect() -> None:
    """No body, or HTTP/1.0: no 100 is due."""
    assert not read(b"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n").awaits_word
    head = b"POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    assert not read(head).awaits_word


def test_what_follows_an_upgrade_is_kept_apart() -> None:
    head = b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    reader = read(head + b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert told(reader) == [(b"/ws", None, None)]
    assert bytes(reader.early or b"") == b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
    reader.feed(reader.start_over())
    assert told(reader)[1:] == [(b"/2", None, None)]
    assert reader.early is None


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_upgrade_with_a_body_is_an_ordinary_request(size: int, version: bytes) -> None:
    """As Java's HttpClient asks for h2c. The parser alone would leave the body unread."""
    head = (
        b"POST /h2c HTTP/%b\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" % version
    )
    head += b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
    stream = head + b"Content-Length: 3\r\n\r\nabc"
    expected: list[object] = [(b"/h2c", b"abc", None)]
    if version == b"1.1":
        stream += head + b"Transfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n"
        stream += b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
        expected += [(b"/h2c", b"de", [(b"X", b"y")]), (b"/next", None, None)]
    reader = read(*(stream[at : at + size] for at in range(0, len(stream), size)))
    assert told(reader) == expected
    assert reader.early is None
    (first, *_) = items(reader)
    assert isinstance(first, Request)
    assert first.upgrade is None
    assert b"pgrade" not in first.head_for(None)


def test_too_large_a_body_of_an_upgrade() -> None:
    head = b"POST /h2c HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
    assert error_of(head + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n", b"x" * 6000).status == 413


def test_bodies_are_dropped_with_the_connection() -> None:
    reader = read(chunked(b"7d0\r\n" + b"x" * 2000 + b"\r\n0\r\n\r\n") + chunked(b"7d0\r\n" + b"y" * 1500))
    assert reader.settings.spool_budget.used == 3500
    reader.drop_bodies()
    assert reader.settings.spool_budget.used == 0
