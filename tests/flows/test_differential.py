"""A node behind the proxy gets what it would get from the client itself, and what we refuse, others refuse, too.

The second opinion is h11. It lets pass some of what RFC 9112 forbids or lets a server refuse; `STRICTER` is the whole
list of where we do not. Where h11 is the stricter one, `LENIENT` says why that does no harm: a head is always built
anew, so what reaches the node is well-formed.
"""

from __future__ import annotations

import asyncio
import re
from random import Random

import h11
import pytest

from tests.fakes.generated import make
from tests.fakes.proxy_here import proxy_here
from tests.fakes.wire_node import Turn, WireNode

STRICTER = {
    "a bare LF (RFC 9112, 2.2)": rb"(?<!\r)\n",
    "a folded line (5.2)": rb"\r\n[ \t]",
    "a length given twice, even if equal (6.3)": rb"(?is)\ncontent-length:.*\ncontent-length:",
    "a list of lengths (6.3)": rb"(?i)\ncontent-length:[^\r]*,",
    "length and chunked (6.1)": rb"(?is)\n(content-l|transfer-e)[^\n]*:.*\n(?!\1)(content-l|transfer-e)",
    "chunked in HTTP/1.0 (6.1)": rb"(?is)^[^\r]*HTTP/1.0\r\n.*\ntransfer-encoding:",
    "an expectation we cannot meet (RFC 9110, 10.1.1)": rb"(?i)\nexpect:(?![ \t]*100-continue[ \t]*\r)",
    "CONNECT (9.3.6)": rb"^CONNECT ",
    "a method that the parser does not know": rb"^(?!(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|PROPFIND|TRACE) )",
    "a target in none of the four forms (3.2)": rb"^[A-Z]+ (?!/|\*|http://)",
    "a target whose authority is none (3.2.2)": rb"^[A-Z]+ http://[^/? ]*[^A-Za-z0-9\-._~%!$&'()*+,;=:\[\]@/? ]",
    "a version that is not 1.0 or 1.1 (2.3)": rb"^[^\r]* HTTP/(?!1\.[01]\r)",
    "a Host that is no authority (3.2)": rb"(?i)\nhost:[ \t]*[^\r]*[^A-Za-z0-9\-._~%!$&'()*+,;=:\[\]\r \t][^\r]*\r",
    "white space inside Host (3.2)": rb"(?i)\nhost:[ \t]*[^\r \t]+[ \t]+[^\r \t]",
    "a control character (RFC 9110, 5.5)": rb"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]",
}
STRICTER_IN_BODY = {
    "white space or signs around a chunk's size (7.1)": rb"\r\n[0-9A-Fa-f]*[ \t][^\r]*\r\n",
    "an extension that is no token (7.1.1)": rb'\r\n[0-9A-Fa-f]+;(?!a(="b;c")?\r)[^\r]*\r\n',
    "a trailer that frames (6.5.1)": rb"(?i)\r\n(content-length|transfer-encoding):",
}
LENIENT = {
    "white space in the request line": rb"^[A-Z]+ ( |[^\r]*  )",
    "an empty line, or half of one, before it (2.2)": rb"^[\r\n]",
    "a target with characters that should be encoded": rb"^[A-Z]+ [^\r ]*[^!-~]",
}
OURS = frozenset(
    b"connection keep-alive proxy-connection te transfer-encoding content-length upgrade expect host http2-settings"
    b" x-request-id x-forwarded-for x-forwarded-proto x-forwarded-host forwarded via".split()
)


def second_opinion(data: bytes) -> tuple[str, int]:
    """whole, incomplete or refused, by h11; and the bytes of the first request."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=65536)
    try:
        connection.receive_data(data)
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                return "incomplete", len(data)
            if isinstance(event, h11.EndOfMessage):
                return "whole", len(data) - len(connection.trailing_data[0])
    except h11.RemoteProtocolError:
        return "refused", len(data)


def is_listed(data: bytes, in_head: dict[str, bytes], in_body: dict[str, bytes] | None = None) -> bool:
    head, _, body = data.partition(b"\r\n\r\n")
    return any(re.search(pattern, head + b"\r\n") for pattern in in_head.values()) or any(
        re.search(pattern, b"\r\n" + body) for pattern in (in_body or {}).values()
    )


async def answer(port: int, data: bytes, *, is_incomplete: bool) -> int | None:
    """The status of the first final answer; None: closed without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    if is_incomplete:
        writer.write_eof()  # nothing more will come
    try:
        async with asyncio.timeout(10):
            while (status := int((await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1])) < 200:
                pass
            return status
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return None
    finally:
        writer.close()


def end_to_end(turn: Turn) -> tuple[list[bytes], list[tuple[bytes, bytes]], bytes]:
    """What of a request is not ours: its method and target, its fields in order, its body."""
    start, *lines = turn.head[:-4].split(b"\r\n")
    fields = [(name, value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in lines)]
    nominated = {
        token.strip().lower()
        for name, value in fields
        if name.lower() == b"connection"
        for token in value.split(b",")
    } - {b"authorization", b"content-type"}
    kept = [field for field in fields if field[0].lower() not in OURS | nominated]
    return start.split()[:2], kept, turn.body


@pytest.mark.parametrize("seed", range(4))
async def test_what_reaches_the_node(seed: int) -> None:
    random = Random(seed)
    counts = dict.fromkeys(("whole", "incomplete", "refused"), 0)
    surprises: list[str] = []
    async with (
        WireNode() as node,
        proxy_here([node.url], header_timeout_secs=0.3, body_timeout_secs=0.3) as proxy,
    ):
        for number in range(600):
            data = make(random)
            opinion, size = second_opinion(data)
            data = data[:size]
            node.seen.clear()
            status = await answer(proxy.port, data, is_incomplete=opinion == "incomplete")
            if status == 200:
                ours = "whole"
                is_right = opinion == ours or is_listed(data, LENIENT)
                (through,) = node.seen
                await answer(node.port, data.lstrip(b"\r\n"), is_incomplete=False)
                is_right &= end_to_end(through) == end_to_end(node.seen[-1])
            else:
                ours = "incomplete" if status in (None, 408) else "refused"
                # We see some faults as soon as they come, h11 at the end of the head.
                is_right = not node.seen and (
                    opinion == ours
                    or (opinion == "incomplete" and second_opinion(data + b"\r\n\r\n")[0] == "refused")
                    or is_listed(data, STRICTER, STRICTER_IN_BODY)
                )
            counts[ours] += 1
            if not is_right:
                surprises.append(f"seed {seed}, {number}: h11 {opinion}, we {status}: {data[:800]!r}")
    assert not surprises, "\n".join(surprises)
    assert counts["whole"] > 300, counts
    assert min(counts.values()) > 0, counts
