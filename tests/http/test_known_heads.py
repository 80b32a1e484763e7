"""Heads that came before are not parsed again: nothing can be told from reading them as if they were new."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.http.message import Request
from tests.fakes.node_side import NodeSide, make_request
from tests.fakes.reader import drop_bodies, items, read, told

GET = b"GET /poll HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"
POST = b"POST /draw HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
MESSAGES = (
    GET,
    POST + b"cats",
    POST + b"GET ",  # a body that looks like a head
    POST + b"\r\n\r\n",
    b"GET /poll HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: b\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 1\r\n\r\nx",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ncats\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nno",
    b"\r\n",
    b"P",
    b"HEAD / HTTP/1.1\r\nHost: a\r\nX: ",
    b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MESSAGES), st.integers(1, 3)), max_size=4), st.data())
def test_reads_cut_anywhere_bring_the_same_requests(
    repeated: list[tuple[bytes, int]], data: st.DataObject
) -> None:
    messages = [message for message, times in repeated for _ in range(times)]
    stream = b"".join(messages)
    borders = set(itertools.accumulate(map(len, messages)))
    healed = data.draw(st.sets(st.sampled_from(sorted(borders)), max_size=2)) if borders else set()
    more = data.draw(st.sets(st.integers(0, len(stream)), max_size=2))
    cuts = [0, *sorted((borders - healed) | more), len(stream)]
    pieces = [stream[start:end] for start, end in itertools.pairwise(cuts) if start < end]

    by_byte = told(read(*(stream[at : at + 1] for at in range(len(stream)))))
    assert told(read(*pieces)) == by_byte
    drop_bodies()


def heads(*pieces: bytes) -> list[bytes]:
    return [item.head_for(None) for item in items(read(*pieces)) if isinstance(item, Request)]


def test_each_has_an_id_of_its_own_unless_it_brought_one() -> None:
    first, *others = heads(*[GET] * 4)
    assert b"X-Request-Id: id-1\r\n" in first
    assert others == [first.replace(b"id-1", b"id-%d" % number) for number in (2, 3, 4)]
    named = GET.replace(b"Accept", b"X-Request-Id: mine\r\nAccept")
    assert len(set(heads(*[named] * 4))) == 1


def test_a_head_after_a_stray_byte_is_not_that_head() -> None:
    """It would hide from us what whoever is in front of us has seen."""
    assert told(read(GET, GET, GET, b"P", GET)) == [*[(b"/poll", None, None)] * 3, 400]


def test_nothing_follows_the_last_request() -> None:
    last = GET.replace(b"Accept: */*", b"Connection: close")
    assert told(read(GET, GET, last, GET))[2:] == [(b"/poll", None, None), 400]


def test_an_upgrade_is_one_each_time() -> None:
    upgrade = b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    reader = read(GET, upgrade)
    for _ in range(2):
        assert reader.early is not None, "what follows is not read as HTTP"
        reader.start_over()
        reader.feed(upgrade)


def test_a_body_that_finds_no_room() -> None:
    large = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 600\r\n\r\n" + b"x" * 600
    reader = read(large, large, large, memory_bytes=500, max_spool_bytes=2000)
    assert len(told(reader)) == 3
    reader.feed(large)
    assert told(reader)[3:] == [503]


def test_limits_that_changed_meanwhile() -> None:
    reader = read(POST + b"cats", POST + b"cats", POST + b"cats")
    reader.settings.max_body_bytes = 3
    reader.feed(POST + b"cats")
    assert told(reader)[3:] == [413]


# --- nodes

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ncats"
RESPONSES = (
    OK,
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ncats\r\n0\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n",
    b"\r\n" + OK,
    OK + b"X",
    OK[:-1],
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ncats",
)


def what_is_heard(responses: list[tuple[bytes, bytes]], size: int | None) -> list[object]:
    """Of requests (method, response) one after the other on a link, cut into reads of `size`, until it closes."""
    node = NodeSide()
    for method, response in responses:
        if node.transport.is_closed:
            break
        node.send(make_request(method))
        step = size or len(response)
        node.feed(*(response[at : at + step] for at in range(0, len(response), step)))
        if not node.link.is_idle and not node.transport.is_closed:
            node.eof()
            node.transport.lose()
    told: list[object] = []
    for name, value in node.heard:
        if name == "body" and told and isinstance(told[-1], bytes):
            told[-1] += value
        elif name in ("head", "interim"):
            told.append((name, value.status, value.fields))
        elif name != "flush":
            told.append(value if name == "body" else name)
    return [*told, node.transport.is_closed]


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from((b"GET", b"GET", b"HEAD", b"POST")), st.sampled_from(RESPONSES), st.integers(1, 3)
        ),
        max_size=4,
    )
)
def test_responses_read_whole_are_those_read_by_the_byte(repeated: list[tuple[bytes, bytes, int]]) -> None:
    responses = [(method, response) for method, response, times in repeated for _ in range(times)]
    whole, by_byte = what_is_heard(responses, None), what_is_heard(responses, 1)
    assert whole == by_byte


def test_the_parser_is_not_asked_again() -> None:
    """Else the tests above would hold nothing."""
    node = NodeSide()
    for _ in range(2):
        node.send()
        node.feed(OK)
    first, second = (value for name, value in node.heard if name == "head")
    assert first is second
    reader = read(GET, GET, GET)
    second_request, third = items(reader)[1:]
    assert isinstance(second_request, Request)
    assert isinstance(third, Request)
    assert second_request.target is third.target
