"""What a Python client library gets: `python client.py LIBRARY URL`; prints JSON, name -> [status, length, SHA-256]."""

import asyncio
import hashlib
import json
import sys
from collections.abc import Iterator

SMALL, LARGE = b"\x01" * 1024, bytes(range(256)) * 20480


def pieces() -> Iterator[bytes]:
    for start in range(0, len(LARGE), 65536):
        yield LARGE[start : start + 65536]


def plan(url: str) -> dict[str, tuple[str, str, object]]:
    return {
        "hello": ("GET", f"{url}/hello", None),
        "head": ("HEAD", f"{url}/hello", None),
        "empty": ("POST", f"{url}/echo", b""),
        "small": ("POST", f"{url}/echo", SMALL),
        "large": ("POST", f"{url}/echo", LARGE),
        "chunked": ("POST", f"{url}/echo", pieces),
        "down": ("GET", f"{url}/bytes?n={len(LARGE)}", None),
    }


def told(status: int, body: bytes) -> list[object]:
    return [status, len(body), hashlib.sha256(body).hexdigest()]


def by_requests(url: str) -> dict[str, list[object]]:
    import requests

    found = {}
    with requests.Session() as session:
        for name, (method, target, data) in plan(url).items():
            response = session.request(method, target, data=data() if callable(data) else data)
            found[name] = told(response.status_code, response.content)
    return found


def by_httpx(url: str) -> dict[str, list[object]]:
    import httpx

    found = {}
    with httpx.Client(timeout=60) as client:
        for name, (method, target, data) in plan(url).items():
            response = client.request(method, target, content=data() if callable(data) else data)
            found[name] = told(response.status_code, response.content)
    return found


def by_aiohttp(url: str) -> dict[str, list[object]]:
    import aiohttp

    async def stream():
        for piece in pieces():
            yield piece

    async def talk() -> dict[str, list[object]]:
        found = {}
        async with aiohttp.ClientSession() as session:
            for name, (method, target, data) in plan(url).items():
                body = stream() if callable(data) else data
                async with session.request(method, target, data=body) as response:
                    found[name] = told(response.status, await response.read())
        return found

    return asyncio.run(talk())


print(
    json.dumps({"requests": by_requests, "httpx": by_httpx, "aiohttp": by_aiohttp}[sys.argv[1]](sys.argv[2]))
)
