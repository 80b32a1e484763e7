"""Time limits of a connection, and clients that take their answers slowly."""

from __future__ import annotations

from time import monotonic

import pytest

from tests.fakes.client_side import ClientSide, http_settings

GET = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"
LONG = 10_000.0


def status_of(answer: bytes) -> int | None:
    return int(answer.split(b" ", 2)[1]) if answer else None


def secs_left(client: ClientSide) -> int:
    """The time limit that runs, in whole seconds; -1: none."""
    left = client.connection.deadline - monotonic()
    return round(left) if left < 1e6 else -1


def time_is_up(client: ClientSide) -> bytes:
    client.connection.on_deadline(monotonic() + LONG)
    return client.transport.take()


# --- 408 and idle connections: head 30 s, body 60 s, keep-alive 75 s


@pytest.mark.parametrize(
    ("came", "limit", "status"),
    [
        pytest.param([], 30, None, id="nothing"),
        pytest.param([b"GE"], 30, None, id="not yet a request"),
        pytest.param([b"GET / HTTP/1.1\r\nHo", b"st: a\r\n"], 30, 408, id="a head"),
        pytest.param([b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo"], 60, 408, id="a body"),
        pytest.param(
            [b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"],
            60,
            408,
            id="chunks",
        ),
    ],
)
def test_too_slow(came: list[bytes], limit: int, status: int | None) -> None:
    client = ClientSide()
    client.feed(*came)
    assert secs_left(client) == limit
    assert status_of(time_is_up(client)) == status
    assert client.transport.is_ended or client.transport.is_closed
    assert not client.owed


def test_the_head_has_one_limit_the_body_one_for_each_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("proxy.http.listener.monotonic", lambda: now)
    client = ClientSide()
    client.feed(b"POST / HTTP/1.1\r\n")
    now = 1020.0
    client.feed(b"Host: a\r\n")
    assert client.connection.deadline == 1030
    client.feed(b"Content-Length: 4\r\n\r\n")
    now = 1050.0
    client.feed(b"b")
    assert client.connection.deadline == 1110
    client.feed(b"ody")
    assert client.connection.deadline == float("inf")  # it waits: that is not the client's doing
    client.owed[0].answer()
    assert client.connection.deadline == 1125


def test_empty_lines_do_not_hold_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("proxy.http.listener.monotonic", lambda: now)
    client = ClientSide()
    for _ in range(3):
        now += 9
        client.feed(b"\r\n")
    assert client.connection.deadline == 1030


def test_slow_request_behind_another() -> None:
    """Its time begins when it is its turn; the error comes after the answer."""
    client = ClientSide()
    client.feed(GET % 1 + b"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo")
    assert secs_left(client) == -1
    client.owed[0].answer()
    assert secs_left(client) == 60
    client.transport.take()
    assert status_of(time_is_up(client)) == 408


def test_refused_client_that_goes_on_sending_is_cut() -> None:
    client = ClientSide()
    client.feed(b"nonsense\r\n\r\n")
    assert secs_left(client) == 2
    assert time_is_up(client) == b""
    assert client.transport.is_aborted


# --- slow readers


def test_what_a_slow_client_leaves_is_spooled() -> None:
    client = ClientSide()
    client.transport.room = 0
    client.feed(GET % 1)
    owed = client.owed[0]
    pieces = [bytes([65 + number]) * 30_000 for number in range(6)]
    assert [owed.connection.send(piece) for piece in pieces[:4]] == [True] * 4
    assert client.settings.spool_budget.used == 30_000
    owed.connection.finish(keeps_alive=True)  # the node is done; the client is not
    taken = client.feed(GET % 2)
    assert client.targets == [b"/1"]
    client.transport.drain()
    assert taken + client.transport.take() == b"".join(pieces[:4])
    assert client.settings.spool_budget.used == 0
    assert client.targets == [b"/1", b"/2"]


def test_past_the_spool_the_node_is_held() -> None:
    client = ClientSide(http_settings(max_spool_bytes=50_000))
    client.transport.room = 0
    client.feed(GET % 1)
    owed = client.owed[0]
    pieces = [bytes([65 + number]) * 30_000 for number in range(7)]
    assert [owed.connection.send(piece) for piece in pieces] == [True] * 4 + [False] * 3
    while not owed.heard:
        client.transport.drain()
    assert owed.heard == ["drained"]
    assert client.transport.take() == b"".join(pieces)
    assert owed.connection.send(b"more")
    assert client.transport.take() == b"more"


def test_reader_that_takes_nothing_is_cut_one_that_takes_little_is_not() -> None:
    client = ClientSide()
    client.transport.room = 0
    client.feed(GET % 1)
    client.owed[0].connection.send(b"x" * 100_000)
    assert secs_left(client) == 60
    for _ in range(3):
        client.transport.drain(1000)
        time_is_up(client)
        assert not client.transport.is_closed
    time_is_up(client)
    assert client.transport.is_aborted
    client.transport.lose()
    assert client.owed[0].heard == ["left"]


def test_end_of_the_connection_waits_for_a_slow_reader() -> None:
    """The answer is whole and the connection is to end; the client still takes it."""
    client = ClientSide()
    client.transport.room = 0
    client.feed(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")
    client.owed[0].answer(b"x" * 50_000)
    assert client.transport.is_ended
    client.transport.drain(10_000)
    time_is_up(client)
    assert not client.transport.is_closed
    client.transport.drain(10_000)
    time_is_up(client)
    assert not client.transport.is_closed
    time_is_up(client)  # it has taken nothing since
    assert client.transport.is_aborted


def test_closing_does_not_wait_for_ever() -> None:
    """An idle connection whose last answer was never taken."""
    client = ClientSide()
    client.transport.room = 0
    client.feed(GET % 1)
    client.owed[0].answer(b"x" * 50_000)
    assert secs_left(client) == 75
    for _ in range(4):
        time_is_up(client)
    assert client.transport.is_aborted


def test_spooled_answer_of_a_client_that_leaves() -> None:
    client = ClientSide()
    client.transport.room = 0
    client.feed(GET % 1)
    for _ in range(5):
        client.owed[0].connection.send(b"x" * 30_000)
    client.transport.lose()
    assert client.settings.spool_budget.used == 0


# --- the end of the proxy


def test_only_idle_connections_are_closed() -> None:
    for came, is_closed in ((b"", True), (b"GET / HT", False), (GET % 1, False)):
        client = ClientSide()
        client.feed(came)
        client.connection.close_if_idle()
        assert client.transport.is_closed is is_closed
