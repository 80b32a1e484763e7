"""Requests made from a seed: most of them as clients write them, many of them wrong in one place."""

from __future__ import annotations

from random import Random

_METHODS = [b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"PROPFIND", b"TRACE"]
_TARGETS = [
    b"/", b"/?", b"/a/b?c=d&c=e", b"/%2e%2e/%2F", b"//x//y/", b"/./a/../b", b"/~u;p=1", b"/q?url=http://h/?x", b"http://a/abs",
    b"http://a:80/?q", b"/" + b"long" * 300, b"/%zz%", b"/'()!$*+,=:@",
]  # fmt: skip
_FIELDS = [
    b"Accept: */*", b"accept-encoding: gzip, br", b"Cookie: a=b; c=d", b"COOKIE: e=f", b"X-Text: caf\xc3\xa9 \xe9\xff",
    b"X-Empty:", b"X-Space: \t two  words \t", b"X-NoSpace:v", b"X-A: 1", b"X-A: 2", b'If-Match: "x", W/"y"',
    b"Range: bytes=0-4,9-", b"Authorization: Bearer abc", b"User-Agent: t/1.0 (a; b)", b"X-Forwarded-For: 1.2.3.4",
    b"Forwarded: for=1.2.3.4", b"Via: 1.1 edge", b"X-Forwarded-Proto: https", b"Connection: x-hop, x-a", b"X-Hop: 1",
    b"Keep-Alive: timeout=5", b"Proxy-Connection: keep-alive", b"TE: trailers", b"Upgrade: h2c",
    b"X-Long: " + b"v" * 3000,
    b"Referer: http://a/?b#c", b"Origin: null", b"X-Odd_Name.1~!#$%&'*+^`|: v", b"Content-Type: text/plain; charset=x",
    b"Expect: 100-continue",
]  # fmt: skip
_PUT_IN = [
    b"\n", b"\r", b"\0", b" ", b"\t", b":", b"\r\n", b"\r\n ", b"\xff", b"\x7f", b"\x0b", b"\r\n\r\n", b",",
    b"Host: b\r\n", b"Content-Length: 3\r\n", b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n", b"Expect: x\r\n", b"-1", b"0x", b"HTTP/1.1", b"1", b"5",
]  # fmt: skip


def make_valid(random: Random) -> bytes:
    """A request as RFC 9112 has it."""
    method = random.choice(_METHODS)
    is_10 = random.random() < 0.1
    fields = random.sample(_FIELDS, random.randrange(8))
    if not is_10 or random.random() < 0.5:
        fields.insert(
            random.randrange(len(fields) + 1), random.choice((b"Host: a", b"host:a:80", b"HOST: [::1]:8080 "))
        )
    body = b""
    if method in (b"POST", b"PUT", b"PATCH") or random.random() < 0.1:
        body = random.randbytes(random.choice((0, 1, 5, 100, 5000)))
        if not is_10 and random.random() < 0.4:
            fields.insert(random.randrange(len(fields) + 1), b"Transfer-Encoding: chunked")
            body = _chunked(random, body)
        else:
            fields.insert(random.randrange(len(fields) + 1), b"Content-Length: %d" % len(body))
    version = b"1.0" if is_10 else b"1.1"
    start = b"%b %b HTTP/%b\r\n" % (method, random.choice(_TARGETS), version)
    return start + b"".join(field + b"\r\n" for field in fields) + b"\r\n" + body


def make(random: Random) -> bytes:
    """A request, every second one with a fault that may or may not matter."""
    data = make_valid(random)
    if random.random() < 0.5:
        return data
    head_end = data.index(b"\r\n\r\n") + 4
    at = random.randrange(head_end if random.random() < 0.8 else len(data))
    what = random.randrange(6)
    if what == 0:  # at the start of a line
        at = data.find(b"\r\n", at) + 2
    if what < 3:
        return data[:at] + random.choice(_PUT_IN) + data[at:]
    if what == 3:
        return data[:at] + bytes((random.randrange(256),)) + data[at + 1 :]
    if what == 4:
        return data[:at] + data[at + 1 :]
    return data.replace(
        *random.choice(((b"Host", b"Most"), (b": ", b" : "), (b"\r\n", b"\n"), (b"1.1", b"2.0"))), 1
    )


def _chunked(random: Random, body: bytes) -> bytes:
    pieces = []
    while body:
        size = random.randrange(1, len(body) + 1)
        extension = random.choice((b"", b"", b";a", b';a="b;c"'))
        form = random.choice((b"%x", b"%X", b"0%x"))
        pieces.append(form % size + extension + b"\r\n" + body[:size] + b"\r\n")
        body = body[size:]
    trailers = random.choice((b"", b"", b"X-Sum: 1\r\n"))
    return b"".join(pieces) + b"0\r\n" + trailers + b"\r\n"
