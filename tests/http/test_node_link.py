"""One request and its response on a link to a node, and whether the link may be used again."""

from __future__ import annotations

import pytest

from tests.fakes.node_side import UPGRADE, NodeSide, answered, make_request

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n3\r\ncde\r\n0\r\nX-Sum: 9\r\n\r\n"
)


# --- whole responses


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize(
    ("response", "body", "trailers"),
    [
        pytest.param(OK, b"ok", [], id="length"),
        pytest.param(CHUNKED, b"abcde", [(b"X-Sum", b"9")], id="chunked"),
        pytest.param(b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", b"", [], id="no body, no reason"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", [], id="204"),
        pytest.param(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", b"", [], id="304"),
        pytest.param(
            b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", b"ok", [], id="1.0"
        ),
    ],
)
def test_whole_and_kept(response: bytes, body: bytes, trailers: list[object], size: int) -> None:
    """However it is cut; and the next request finds the link as new."""
    node = answered(response, size=size)
    assert node.what == ["head", "body", "ended"] if body else ["head", "ended"]
    assert (node.body, node.told("ended")) == (body, trailers)
    assert node.link.is_idle
    assert node.link.is_reused
    node.heard.clear()
    node.send()
    node.feed(OK)
    assert (node.what, node.body) == (["head", "body", "ended"], b"ok")


@pytest.mark.parametrize("length", [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b""])
def test_response_to_head(length: bytes) -> None:
    node = answered(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n", method=b"HEAD")
    assert node.what == ["head", "ended"]
    assert node.link.is_idle
    node.send()
    node.feed(OK)
    assert node.body == b"ok"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\n\r\n",
        OK + b"x",
        b"HTTP/1.1 204 No Content\r\n\r\nbody of a 204",
    ],
    ids=["close", "among tokens", "1.0", "a second response", "a byte more", "a body where none may be"],
)
def test_whole_and_closed(head: bytes) -> None:
    for size in (1000, len(head) - 1):
        node = answered(head, size=size)
        assert node.what[-1] == "ended"
        assert node.transport.is_closed
        assert not node.link.is_idle


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\nX: y\r\n\r\n"])
def test_response_that_ends_with_its_connection(head: bytes) -> None:
    node = answered(head + b"some ", b"text")
    assert node.what == ["head", "body"]
    node.eof()
    assert (node.what, node.body) == (["head", "body", "ended"], b"some text")
    assert node.transport.is_closed
    node.transport.lose()
    assert node.what[-1] == "ended"


def test_a_connection_field_among_the_trailers_ends_the_link() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
    assert answered(chunked + b"X: y\r\n\r\n", size=5).link.is_idle
    node = answered(chunked + b"Connection: close\r\n\r\n", size=5)
    assert node.what == ["head", "body", "ended"]
    assert not node.link.is_idle


def test_interim_responses() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    node = answered(early + b"HTTP/1.1 102 Processing\r\n\r\n" + OK, size=5)
    assert node.what == ["interim", "interim", "head", "body", "ended"]
    assert node.heard[0][1].interim_bytes() == early
    assert node.link.is_idle


def test_interim_responses_do_not_add_up_to_too_large_a_head() -> None:
    node = answered(*[b"HTTP/1.1 103 Early Hints\r\nLink: </" + b"a" * 900 + b">\r\n\r\n"] * 5, OK)
    assert node.what == ["interim"] * 5 + ["head", "body", "ended"]


def test_each_read_is_flushed_once() -> None:
    """What comes together leaves together, at once."""
    node = answered(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n", b"1\r\nc\r\n"
    )
    assert [name for name, _ in node.heard] == ["head", "body", "body", "flush", "body", "flush"]


# --- the link while it is idle


def test_closed_while_idle() -> None:
    """From the node's FIN on, not a turn of the loop later, it is not used again."""
    node = answered(OK)
    node.eof()
    assert not node.link.is_idle
    node.transport.lose()
    assert node.what[-1] == "ended"


def test_bytes_that_nobody_asked_for() -> None:
    node = answered(OK)
    node.feed(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
    assert node.transport.is_closed
    assert not node.link.is_idle


# --- the request's body


def test_small_body_leaves_with_its_head() -> None:
    node = NodeSide()
    sent = node.send(make_request(b"POST", body=b"hello"))
    assert sent.endswith(b"\r\nContent-Length: 5\r\n" + sent.partition(b"Content-Length: 5\r\n")[2])
    assert sent.endswith(b"\r\n\r\nhello")


def test_large_body_at_the_nodes_pace() -> None:
    body = bytes(range(256)) * 4096
    node = NodeSide()
    node.transport.room = 0
    request = make_request(b"POST", body=body)
    sent = node.send(request)
    assert len(sent) < len(body)
    while not sent.endswith(body):
        node.transport.drain()
        sent += node.transport.take()
    node.feed(OK)
    assert node.link.is_idle
    assert request.body is not None
    request.body.close()


def test_chunked_only_for_the_sake_of_trailers() -> None:
    request = make_request(b"POST", body=b"hello")
    request.length = None
    request._after_host = request._after_host.replace(b"Content-Length: 5\r\n", b"")
    assert NodeSide().send(request).endswith(b"\r\nContent-Length: 5\r\n\r\nhello")
    request.trailers = [(b"X-Sum", b"9")]
    sent = NodeSide().send(request)
    assert sent.endswith(b"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 9\r\n\r\n")
    assert b"Content-Length" not in sent


def test_node_answers_before_it_has_read_the_body() -> None:
    """Its answer counts; the link ends at once, or the rest of the body would wait for ever to be read."""
    node = NodeSide()
    node.transport.room = 0
    request = make_request(b"POST", body=b"x" * 1_000_000)
    node.send(request)
    node.feed(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
    assert node.what == ["head", "body", "ended"]
    assert node.transport.is_aborted
    assert request.body is not None
    request.body.close()


# --- holding back, upgrading


def test_held_link_reads_again_for_the_next_request() -> None:
    node = answered(OK[:-1])
    node.link.pause_reading()
    assert not node.transport.is_reading()
    node.link.data_received(OK[-1:])
    assert node.transport.is_reading()


def test_switching_protocols() -> None:
    node = NodeSide()
    node.send(make_request(b"GET", *UPGRADE))
    node.feed(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00"
    )
    assert node.heard == [("switched", b"\x81\x00")]


def test_upgrade_refused() -> None:
    node = NodeSide()
    node.send(make_request(b"GET", *UPGRADE))
    refused = (
        b"HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: h3\r\nContent-Length: 2\r\n\r\nno"
    )
    node.feed(refused)
    assert node.what == ["head", "body", "ended"]
    assert node.told("head").fields.startswith(b"Content-Length: 2\r\nConnection: Upgrade\r\nUpgrade: h3\r\n")
    assert node.link.is_idle
