"""Requests of one connection: in order, one after the other, each answered before the next, refusals last."""

from __future__ import annotations

import pytest

from proxy.errors import LineFull
from proxy.http.response import problem_response
from tests.fakes.client_side import ClientSide, Owed, http_settings

GET = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
UPGRADE = b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BAD = b"GET /bad HTTP/1.1\r\nHost : a\r\n\r\n"


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# --- pipelining


def test_pipelined_requests_are_handed_over_one_after_the_other() -> None:
    client = ClientSide()
    client.feed(GET % 1 + POST % 2 + GET % 3)
    assert client.targets == [b"/1"]
    client.owed[0].answer()
    assert client.targets == [b"/1", b"/2"]
    assert client.owed[1].body == b"body"
    client.owed[1].answer()
    client.owed[2].answer()
    assert client.transport.take() == OK * 3
    assert not client.transport.is_closed


def test_answers_at_once_need_no_stack() -> None:
    """A thousand pipelined requests, each answered inside its own hand-over."""
    client = ClientSide(at_once=Owed.answer)
    assert client.feed(b"".join(GET % number for number in range(1000))) == OK * 1000


def test_error_is_answered_after_what_came_before_it() -> None:
    client = ClientSide()
    assert client.feed(GET % 1 + GET % 2 + BAD + GET % 4) == b""
    client.owed[0].answer()
    client.owed[1].answer()
    answers = client.transport.take()
    assert answers.startswith(OK * 2 + b"HTTP/1.1 400 Bad Request\r\n")
    assert client.targets == [b"/1", b"/2"]
    assert client.transport.is_ended  # closed, but not before the client can have read it
    assert client.feed(GET % 5) == b""
    assert [error.status for error in client.refusals] == [400]


def test_nothing_is_answered_after_close_was_asked_for() -> None:
    """What follows such a request is no request (RFC 9112, 9.6)."""
    close = b"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    for at_once in (None, Owed.answer):
        client = ClientSide(at_once=at_once)
        client.feed(close + GET % 2)
        if at_once is None:
            client.owed[0].answer()
            assert client.transport.take() == OK
        assert client.targets == [b"/1"]
        assert client.transport.is_ended
        assert not client.refusals


def test_refused_at_once_with_more_behind_it() -> None:
    """The line is full: the answer ends the connection where the client said so, and nothing is written after."""

    def refuse(owed: Owed) -> None:
        owed.connection.send(problem_response(LineFull("full"), b"id", 0.0, keeps_alive=False))
        owed.connection.finish(keeps_alive=False)

    client = ClientSide(at_once=refuse)
    assert status_of(client.feed(GET % 1 + GET % 2 + BAD)) == 429
    assert client.targets == [b"/1"]
    assert client.transport.is_ended


def test_reading_stops_while_enough_waits_behind() -> None:
    client = ClientSide()
    client.feed(*[GET % number for number in range(70)])
    assert not client.transport.is_reading()
    for number in range(10):
        client.owed[number].answer()
    assert client.transport.is_reading()


# --- how an answer ends the connection


@pytest.mark.parametrize(
    ("version", "field", "is_kept"),
    [
        ("1.1", "", True),
        ("1.1", "Connection: close\r\n", False),
        ("1.1", "Connection: Keep-Alive, CLOSE\r\n", False),
        ("1.0", "", False),
        ("1.0", "Connection: Keep-Alive\r\n", True),
        ("1.0", "Connection: keep-alive, close\r\n", False),
    ],
)
def test_persistence(version: str, field: str, is_kept: bool) -> None:
    client = ClientSide()
    client.feed(f"GET / HTTP/{version}\r\nHost: a\r\n{field}\r\n".encode())
    client.owed[0].answer()
    assert client.transport.take() == OK
    assert client.transport.is_ended is not is_kept


def test_tls_has_no_half_close() -> None:
    client = ClientSide(is_tls=True)
    client.feed(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")
    client.owed[0].answer()
    assert client.transport.is_closed
    assert client.owed[0].request.head_for(None).count(b"X-Forwarded-Proto: https\r\n") == 1


def test_head_request_is_refused_without_a_body() -> None:
    client = ClientSide()
    answer = client.feed(b"HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    assert status_of(answer) == 400
    assert answer.endswith(b"\r\n\r\n")


# --- Expect


def test_continue_at_once() -> None:
    client = ClientSide()
    head = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    assert client.feed(head) == CONTINUE
    client.feed(b"body")
    client.owed[0].answer()
    assert client.feed(head) == OK + CONTINUE


def test_continue_waits_for_the_answers_before_it() -> None:
    client = ClientSide()
    head = b"POST /3 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    assert client.feed(GET % 1 + GET % 2 + head) == b""
    client.owed[0].answer()
    assert client.transport.take() == OK
    client.owed[1].answer()
    assert client.transport.take() == OK + CONTINUE
    client.feed(b"body")
    assert client.owed[2].body == b"body"
    client.owed[2].answer()


def test_continue_is_needless_when_the_body_has_come() -> None:
    client = ClientSide()
    head = b"POST /2 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody"
    client.feed(GET % 1 + head)
    client.owed[0].answer()
    assert client.transport.take() == OK
    client.owed[1].answer()


# --- Upgrade


def test_refused_upgrade_is_an_ordinary_answer() -> None:
    client = ClientSide()
    client.feed(UPGRADE + GET % 2)
    client.owed[0].answer()
    assert client.targets == [b"/ws", b"/2"]
    client.owed[1].answer()
    assert client.transport.take() == OK * 2


def test_bytes_behind_an_upgrade_are_not_read_before_its_answer() -> None:
    """Neither by the answer to what came before it, nor piece by piece."""
    client = ClientSide()
    client.feed(GET % 1 + UPGRADE + b"GET /opaque", b" HTTP/1.1\r\n")
    client.owed[0].answer()
    assert client.targets == [b"/1", b"/ws"]
    client.feed(b"Host: a\r\n\r\n")
    assert bytes(client.connection.early or b"") == b"GET /opaque HTTP/1.1\r\nHost: a\r\n\r\n"


def test_too_much_behind_an_upgrade_is_left_in_the_kernel() -> None:
    client = ClientSide()
    client.feed(UPGRADE, b"x" * 70_000)
    assert not client.transport.is_reading()


# --- leaving


def test_client_leaves() -> None:
    client = ClientSide()
    client.feed(POST % 1 + POST % 2)
    client.transport.lose()
    assert client.owed[0].heard == ["left"]
    assert client.targets == [b"/1"]
    assert not client.connections


def test_client_leaves_while_sending() -> None:
    for part in (b"GET / HT", (POST % 1)[:-2]):
        client = ClientSide()
        client.feed(part)
        client.transport.lose()
        assert client.left_sending == 1
    client = ClientSide()
    client.transport.lose()
    assert client.left_sending == 0


def test_half_closed_client_is_answered_and_let_go() -> None:
    client = ClientSide()
    client.feed(GET % 1 + GET % 2)
    assert client.connection.eof_received() is True
    client.owed[0].answer()
    client.owed[1].answer()
    assert client.transport.take() == OK * 2
    assert client.transport.is_closed  # nothing can follow


def test_half_closed_client_that_left() -> None:
    client = ClientSide(half_closed=False)
    client.feed(GET % 1)
    assert not client.connection.eof_received()
    assert client.owed[0].heard == ["half closed"]


# --- PROXY protocol


def test_address_from_the_balancer() -> None:
    client = ClientSide(http_settings(proxy_protocol=True), peer="10.0.0.1")
    client.feed(b"PROXY TCP4 203.0.", b"113.9 10.0.0.2 4711 80\r\nGET / HT", b"TP/1.1\r\nHost: a\r\n\r\n")
    assert b"X-Forwarded-For: 203.0.113.9\r\n" in client.owed[0].request.head_for(None)


def test_balancer_speaks_for_itself() -> None:
    """A health check of the balancer's own."""
    client = ClientSide(http_settings(proxy_protocol=True), peer="10.0.0.1")
    client.feed(b"PROXY UNKNOWN\r\n" + GET % 1)
    assert b"X-Forwarded-For: 10.0.0.1\r\n" in client.owed[0].request.head_for(None)


def test_no_header_from_the_balancer() -> None:
    client = ClientSide(http_settings(proxy_protocol=True))
    assert client.feed(GET % 1) == b""
    assert client.transport.is_aborted
    assert not client.owed
