"""The PROXY protocol, versions 1 and 2: who is behind a TCP balancer (haproxy.org, proxy-protocol.txt, 2.1 and 2.2)."""

from __future__ import annotations

import struct
from ipaddress import ip_address

from proxy.errors import MalformedRequest

_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_V1_MAX = 107
_ADDRESS_LENGTHS = {0x11: 4, 0x12: 4, 0x21: 16, 0x22: 16}  # family and transport -> bytes of one address


class Preface:
    """The header in front of a connection's first bytes. `address` is None where it names nobody (LOCAL, UNKNOWN)."""

    __slots__ = ("_buffer", "address")

    def __init__(self) -> None:
        self._buffer = b""
        self.address: str | None = None

    def feed(self, data: bytes) -> bytes | None:
        """What follows the header; None while it is not whole. Raises `MalformedRequest` where there is none."""
        self._buffer += data
        start = self._buffer[: len(_SIGNATURE)]
        if start == _SIGNATURE:
            return self._read_v2()
        if self._buffer.startswith(b"PROXY "):
            return self._read_v1()
        if _SIGNATURE.startswith(start) or b"PROXY ".startswith(start):
            return None
        raise MalformedRequest("no PROXY protocol header")

    def _read_v1(self) -> bytes | None:
        line, found, rest = self._buffer.partition(b"\r\n")
        if len(line) + 2 > _V1_MAX:
            raise MalformedRequest("the PROXY line is too long")
        if not found:
            return None
        parts = line.decode("latin-1").split(" ")
        if parts[1] == "UNKNOWN":
            return rest
        if len(parts) != 6 or parts[1] not in ("TCP4", "TCP6"):
            raise MalformedRequest("the PROXY line is malformed")
        try:
            address = ip_address(parts[2])
        except ValueError as error:
            raise MalformedRequest("the PROXY line has no address") from error
        if address.version != int(parts[1][-1]) or "%" in parts[2]:  # a scope may hold any byte
            raise MalformedRequest("the PROXY line's address is of another family")
        self.address = str(address)
        return rest

    def _read_v2(self) -> bytes | None:
        if len(self._buffer) < 16:
            return None
        version, family, length = struct.unpack_from("!BBH", self._buffer, 12)
        if version not in (0x20, 0x21):
            raise MalformedRequest("the PROXY header's version or command is unknown")
        if len(self._buffer) < 16 + length:
            return None
        size = _ADDRESS_LENGTHS.get(family)
        if version == 0x21 and size is not None:
            if length < 2 * size + 4:
                raise MalformedRequest("the PROXY header is too short for its addresses")
            self.address = str(ip_address(self._buffer[16 : 16 + size]))
        return self._buffer[16 + length :]
