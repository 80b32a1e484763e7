"""A node's response on its way to the client: the head made once, the body framed for who reads it.

What always holds: what one read from the node brings leaves in one write, head included; the client can tell a whole
answer from one that broke off, or its connection is reset.
"""

from __future__ import annotations

from proxy.http.listener import ClientConnection
from proxy.http.message import Field, Request, trailer_bytes
from proxy.http.response import Framing, Response, client_head, own_fields


class Answer:
    """`queue_secs`, `node_secs`: how long it waited, and how long its node took to its first byte. `may_keep`: the
    client's connection may go on after it."""

    __slots__ = (
        "_client",
        "_is_chunked",
        "_is_delimited",
        "_keeps_client",
        "_node_secs",
        "_out",
        "_queue_secs",
        "_request",
        "_response",
    )

    def __init__(
        self,
        client: ClientConnection,
        request: Request,
        response: Response,
        queue_secs: float,
        node_secs: float,
        *,
        may_keep: bool,
    ) -> None:
        is_endless = response.is_endless
        self._client = client
        self._is_chunked = is_endless and not request.is_http10
        self._is_delimited = self._is_chunked or response.framing is Framing.LENGTH
        # For an HTTP/1.0 client the end of the connection is what ends a body of unknown length.
        self._keeps_client = may_keep and request.keeps_alive and (self._is_chunked or not is_endless)
        self._queue_secs = queue_secs
        self._node_secs = node_secs
        self._request = request
        # The head is made when the first bytes leave, for by then the node has its next request.
        self._response: Response | None = response
        self._out: list[bytes] = [b""]

    def add(self, data: bytes) -> None:
        if self._is_chunked:
            self._out += (b"%x\r\n" % len(data), data, b"\r\n")
        else:
            self._out.append(data)

    def flush(self) -> bool:
        """Send what has been added; False: the client has no room, let its node wait."""
        out = self._out
        if not out:
            return True
        response = self._response
        if response is not None:
            self._response = None
            own = own_fields(self._request.request_id, self._queue_secs, self._node_secs)
            out[0] = client_head(self._request, response, own, self._is_chunked, self._keeps_client)
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return self._client.send(data)

    def end(self, trailers: list[Field]) -> None:
        """It is whole."""
        if self._is_chunked:
            self._out.append(trailer_bytes(trailers))
        self.flush()
        self._client.finish(keeps_alive=self._keeps_client)

    def break_off(self) -> None:
        """Its node broke off: the client must see that."""
        self.flush()
        self._client.cut(is_delimited=self._is_delimited)
