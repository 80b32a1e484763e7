"""Raw-protocol clients, each a program of its own on the load's cores; they print one line of JSON."""

from __future__ import annotations


def request_head(method: str, target: str, *, length: int = 0, seq: int | None = None) -> bytes:
    """A head as a small HTTP library would send it."""
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: images.example.test",
        "User-Agent: benchmark/1.0",
        "Accept: */*",
        "Accept-Encoding: gzip, deflate",
        "Content-Type: application/octet-stream",
    ]
    if length:
        lines.append(f"Content-Length: {length}")
    if seq is not None:
        lines.append(f"X-Seq: {seq}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def body_length(head: bytes) -> int:
    """The Content-Length of a 200 response; raises ValueError for any other answer."""
    if not head.startswith(b"HTTP/1.1 200"):
        raise ValueError(f"not a 200: {head[:80]!r}")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    raise ValueError("a response without a length")
