"""Who is at the other end of a client's connection: what we add about it to the heads of its requests.

Always: what a client says of itself is believed only where it is a trusted proxy (`trusted_proxies`).
"""

from __future__ import annotations


class Peer:
    """Who is at the other end of a client's connection, and what is added to its requests."""

    __slots__ = ("_cached", "_cached_host", "address", "is_trusted", "pseudonym", "scheme")

    def __init__(self, address: str, *, scheme: bytes, is_trusted: bool, pseudonym: bytes) -> None:
        self.address = address
        self.scheme = scheme
        self.is_trusted = is_trusted
        self.pseudonym = pseudonym
        self._cached_host: bytes | None = None
        self._cached = b""

    def forwarding_fields(self, host: bytes, is_http10: bool, came: dict[bytes, list[bytes]]) -> bytes:
        """X-Forwarded-*, Forwarded and Via: after what came in from a trusted peer, else in its place."""
        if not self.is_trusted:
            came = {}
            if host == self._cached_host and not is_http10:
                return self._cached
        address = self.address.encode()
        node = b'"[%b]"' % address if b":" in address else address or b"unknown"
        own = b"for=%b;proto=%b" % (node, self.scheme) + (b';host="%b"' % host if host else b"")
        lines = [
            b"X-Forwarded-For: " + b", ".join([*came.get(b"x-forwarded-for", ()), address or b"unknown"]),
            b"X-Forwarded-Proto: " + b", ".join(came.get(b"x-forwarded-proto", ())[:1] or (self.scheme,)),
            b"Forwarded: " + b", ".join([*came.get(b"forwarded", ()), own]),
            b"Via: "
            + b", ".join(
                [*came.get(b"via", ()), b"%b %b" % (b"1.0" if is_http10 else b"1.1", self.pseudonym)]
            ),
        ]
        if forwarded_host := came.get(b"x-forwarded-host", [host])[0]:
            lines.insert(2, b"X-Forwarded-Host: " + forwarded_host)
        fields = b"\r\n".join(lines) + b"\r\n"
        if not self.is_trusted and not is_http10:
            self._cached_host, self._cached = host, fields
        return fields
