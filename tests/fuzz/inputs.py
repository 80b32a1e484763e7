"""Inputs that are nearly HTTP: whole transcripts, changed in a few places, cut anywhere. The seed fixes them all."""

from __future__ import annotations

from random import Random

_REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD /a%20b?c=d HTTP/1.1\r\nHost: a:80\r\nAccept: */*\r\nCookie: x=y\r\n\r\n",
    b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world",
    b"PUT /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n",
    b"POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello",
    b"POST /h2c HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nab",
    b"GET /10 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close, x-a\r\nX-A: b\r\nVia: 1.1 x\r\n\r\n",
    b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET http://b/ HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n",
]
_RESPONSES = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
    b"HTTP/1.0 200 OK\r\nX: y\r\n\r\nuntil the end",
    b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n",
]
_PIECES = [
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b"\r\n\r\n", b"0\r\n\r\n", b"Content-Length: 5\r\n", b"\xff", b",",
    b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"HTTP/1.1", b"ffffffffffffffff",
    b"Expect: 100-continue\r\n", b"Upgrade: x\r\nConnection: upgrade\r\n", b"1;" + b"e" * 3000, b"Host: b\r\n",
    b"x" * 3000, b"-1", b"\r\n ", b"HTTP/1.0",
]  # fmt: skip


def requests(random: Random) -> list[bytes]:
    """What a client may send, in the reads in which it comes."""
    return _made(random, _REQUESTS)


def responses(random: Random) -> list[bytes]:
    """What a node may answer."""
    return _made(random, _RESPONSES)


def _made(random: Random, seeds: list[bytes]) -> list[bytes]:
    if random.random() < 0.05:
        data = bytearray(random.randbytes(random.randrange(200)))
    else:
        data = bytearray(b"".join(random.choices(seeds, k=random.choice((1, 1, 2, 3)))))
        for _ in range(random.choice((0, 1, 1, 2, 5))):
            _mutate(random, data)
    return _cut(random, bytes(data))


def _mutate(random: Random, data: bytearray) -> None:
    at = random.randrange(len(data) + 1)
    what = random.randrange(5)
    if what == 0:
        data[at : at + 1] = bytes((random.randrange(256),))
    elif what == 1:
        data[at:at] = random.choice(_PIECES)
    elif what == 2:
        del data[at : at + random.choice((1, 2, 10, 1000))]
    elif what == 3:
        end = at + random.randrange(40)
        data[at:at] = data[at:end]
    else:
        end = at + random.randrange(40)
        data[at:end] = random.choice(_PIECES)


def _cut(random: Random, data: bytes) -> list[bytes]:
    count = random.choice((0, 0, 1, 2, 5, len(data)))
    if count >= len(data):
        return [data[at : at + 1] for at in range(len(data))]
    cuts = sorted(random.sample(range(1, len(data)), count)) if count and len(data) > count + 1 else []
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
