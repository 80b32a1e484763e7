"""Bytes of one node connection -> one response at a time. No sockets here.

What always holds: `is_done` is set when the response is whole, from then on anything more is `saw_more`: bytes that
belong to no response, so that the link is not used again. An error is kept in `error`, never raised through the
parser. Heads and bodies go to the receiver as they come; the rest of a body of known length is counted by `body_left`
and never seen by the parser.

Nor is a head that this node has sent before, byte for byte: a busy node repeats it (Date changes once a second), and
what llhttp made of these bytes it would make of them again. So it is with a response that comes whole, in one read;
everything else, and everything new, is parsed. Both readers' memory takes 10 us of 19 from a request that finds its
heads known, and costs one that does not 2 (tests/http/test_known_heads.py: both read the same).
"""

from __future__ import annotations

import httptools

from proxy.errors import NodeAnsweredBadly, RequestError
from proxy.http.message import Field, Request, fields_size
from proxy.http.response import Framing, Response, check_response
from proxy.http.roles import NodeReceiver

_KNOWN_MAX = 2048  # bytes of a head that is kept


class ResponseReader:
    """A base class, like `RequestReader`, so that the parser calls straight into the link."""

    __slots__ = (
        "_fed",
        "_fields",
        "_is_fresh",
        "_known_head",
        "_known_response",
        "_max_header_bytes",
        "_parser",
        "_reason",
        "_trailer_bytes",
        "body_left",
        "body_seen",
        "error",
        "has_heard",
        "is_done",
        "receiver",
        "request",
        "response",
        "saw_more",
        "switched",
    )

    def __init__(self, max_header_bytes: int) -> None:
        self._max_header_bytes = max_header_bytes
        self._parser = httptools.HttpResponseParser(self)
        self._known_head = b""  # the last one, and what it was found to be
        self._known_response: Response | None = None
        self.receiver: NodeReceiver | None = None
        # of the request that is out
        self.request: Request | None
        self.response: Response | None
        self.error: RequestError | None
        self._fields: list[Field]
        self._reason: bytes
        self._fed: int  # bytes given to the parser
        self._is_fresh: bool  # none of this response has been read
        self._trailer_bytes: int
        self.body_left: int  # bytes to come of a body that is counted past the parser; -1: it is not
        self.body_seen: int
        self.has_heard: bool
        self.is_done: bool
        self.saw_more: bool
        self.switched: bytes | None  # after a 101: what came right behind it
        self._forget()

    def feed(self, data: bytes) -> None:
        """Read on; afterwards `is_done`, `error` or `switched` tell whether this response has ended."""
        self.has_heard = True
        if self.body_left > 0:
            self._count(data)
            return
        is_first, self._is_fresh = self._is_fresh, False
        if is_first and self._read_known(data):
            return
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self.response is not None and self.response.status == 101 and self.error is None:
                self.switched = data[upgrade.args[0] :]
            elif self.error is None:
                self.error = NodeAnsweredBadly("the node switched protocols without being asked to")
        except httptools.HttpParserCallbackError:
            raise  # a fault of ours: asyncio logs it and ends the connection
        except httptools.HttpParserError as error:
            self.saw_more = True
            if not self.is_done and self.error is None:
                self.error = NodeAnsweredBadly(f"the node's response is not HTTP: {error}")
        if self.response is not None:
            if self.response.framing is Framing.LENGTH:
                if not self.is_done:
                    self.body_left = self.response.length - self.body_seen
                elif is_first and not self.saw_more:
                    self._remember(data, self.response)
        elif self._fed > self._max_header_bytes and self.error is None:
            self.error = NodeAnsweredBadly("the node's response head is too large")

    def _read_known(self, data: bytes) -> bool:
        """Whether this is a known head with its whole body, and nothing else; if so it has been told."""
        response, receiver, head = self._known_response, self.receiver, self._known_head
        if (
            response is None
            or len(data) != len(head) + response.length
            or not data.startswith(head)
            or receiver is None
            or self.request is None
            or self.request.is_head
        ):
            return False
        self.response = response
        receiver.node_head(response)
        if response.length and self.receiver is not None:
            receiver.node_body(data[len(head) :])
        self.is_done = True
        return True

    def _remember(self, data: bytes, response: Response) -> None:
        """It came whole in one read, and alone: its head is what comes before its body."""
        size = len(data) - response.length
        # No interim response is before it, and no empty line that the parser skips.
        is_head = self._fed == len(data) and data.startswith(b"HTTP/")
        if size <= _KNOWN_MAX and is_head and data.find(b"\r\n\r\n") == size - 4:
            self._known_head, self._known_response = data[:size], response

    def start_over(self) -> None:
        """Ready for the next response."""
        # The old parser still waits for a body where we counted it, or where HEAD had none.
        if self.body_left >= 0 or (self.response is not None and self.response.framing is Framing.NONE):
            self._parser = httptools.HttpResponseParser(self)
        self._forget()

    @property
    def trailers(self) -> list[Field]:
        """After a chunked body: the fields that came behind it."""
        return self._fields

    def _forget(self) -> None:
        self.request = None
        self.response = None
        self.error = None
        self._fields = []
        self._reason = b""
        self._fed = self._trailer_bytes = self.body_seen = 0
        self._is_fresh = True
        self.body_left = -1
        self.has_heard = self.is_done = self.saw_more = False
        self.switched = None

    def _count(self, data: bytes) -> None:
        """The rest of a body of known length goes by count, not through the parser: no copy, no callback."""
        self.body_left -= len(data)
        if self.body_left < 0:
            self.saw_more = True
            data = data[: self.body_left]
        if self.receiver is not None:
            self.receiver.node_body(data)
        self.is_done = self.body_left <= 0

    # --- the parser's side

    def on_message_begin(self) -> None:
        if self.is_done:
            self.saw_more = True

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name, value))
        if self.response is not None:  # a trailer
            self._trailer_bytes += len(name) + len(value)
            if name.lower() == b"connection":
                self.saw_more = True  # framing has no business here, but the parser obeys it
            if self._trailer_bytes > self._max_header_bytes and self.error is None:
                self.error = NodeAnsweredBadly("the node's trailers are too large")

    def on_headers_complete(self) -> None:
        if self.is_done or self.error is not None or self.request is None:
            return
        # What was fed holds the head and maybe some of the body: only when it is a lot is it worth counting.
        if self._fed > self._max_header_bytes and fields_size(self._fields) > self._max_header_bytes:
            self.error = NodeAnsweredBadly("the node's response head is too large")
            return
        parser = self._parser
        try:
            response = check_response(
                self.request, parser.get_status_code(), self._reason, parser.get_http_version(), self._fields
            )
        except NodeAnsweredBadly as error:
            self.error = error
            return
        self._fields = []
        self._reason = b""
        self.response = response
        if response.is_interim:
            return
        if response.status != 101 and self.receiver is not None:
            self.receiver.node_head(response)
            if response.framing is Framing.NONE:
                self.is_done = True

    def on_body(self, data: bytes) -> None:
        if self.is_done:
            self.saw_more = True  # a body where none can be: HEAD, 204, 304
        elif self.error is None and self.receiver is not None:
            self.body_seen += len(data)
            self.receiver.node_body(data)

    def on_message_complete(self) -> None:
        response = self.response
        if self.is_done or self.error is not None or response is None:
            return
        if response.is_interim:
            self.response = None
            self._fed = 0
            if self.receiver is not None:
                self.receiver.node_interim(response)
        elif response.status != 101:
            self.is_done = True
