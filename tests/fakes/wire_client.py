"""A client of raw sockets: it can leave at any point, and tells a broken end from a clean one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tests.fakes.wire_node import reset

_ANSWER_SECS = 60.0  # rather a failure than a test that hangs


@dataclass(slots=True)
class Answer:
    """`is_whole`: it ended as its framing says, and not by a reset."""

    status: int
    fields: dict[str, str]
    body: bytes = b""
    is_whole: bool = False

    @property
    def problem(self) -> dict[str, Any]:
        assert self.fields["content-type"] == "application/problem+json"
        problem: dict[str, Any] = json.loads(self.body)
        assert problem["status"] == self.status
        return problem

    @property
    def outcome(self) -> tuple[int, str]:
        """What an error of ours says of the request: status and outcome."""
        return self.status, self.problem["outcome"]


class WireClient:
    """One connection to the proxy on this machine; `async with WireClient(port) as client`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> WireClient:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.close()

    def send(
        self,
        target: str = "/",
        *,
        method: str = "GET",
        body: bytes = b"",
        fields: str = "",
        version: str = "1.1",
    ) -> None:
        """Write a whole request."""
        if body or method == "POST":
            fields += f"Content-Length: {len(body)}\r\n"
        self.writer.write(f"{method} {target} HTTP/{version}\r\nHost: x\r\n{fields}\r\n".encode() + body)

    async def head(self) -> Answer:
        """The head of the answer."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.split(":", 1) for line in lines[1:-2])
        return Answer(int(lines[0].split(" ")[1]), {name.lower(): value.strip() for name, value in pairs})

    async def answer(self) -> Answer:
        """The whole answer, or as much of it as came."""
        async with asyncio.timeout(_ANSWER_SECS):
            answer = await self.head()
            await self._read_body(answer)
        return answer

    async def _read_body(self, answer: Answer) -> None:
        try:
            if "content-length" in answer.fields:
                left = int(answer.fields["content-length"])
                while left and (data := await self.reader.read(left)):
                    answer.body += data
                    left -= len(data)
                answer.is_whole = not left
            elif answer.fields.get("transfer-encoding") == "chunked":
                while (piece := await self.chunk()) is not None:
                    answer.body += piece
                answer.is_whole = True
            else:
                while data := await self.reader.read(65536):
                    answer.body += data
                answer.is_whole = True
        except (ConnectionError, asyncio.IncompleteReadError):
            answer.is_whole = False

    async def chunk(self) -> bytes | None:
        """The next chunk of a chunked answer; None at its end."""
        size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
        data = await self.reader.readexactly(size + 2)
        return data[:-2] if size else None

    def half_close(self) -> None:
        self.writer.write_eof()

    def leave(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        reset(self.writer)


async def ask(
    port: int,
    target: str = "/",
    *,
    method: str = "GET",
    body: bytes = b"",
    fields: str = "",
    version: str = "1.1",
) -> Answer:
    """One request on a connection of its own."""
    async with WireClient(port) as client:
        client.send(target, method=method, body=body, fields=fields, version=version)
        return await client.answer()
