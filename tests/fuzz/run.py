"""One input to one side, and what must hold whatever it is.

A client's side: no exception; every request that was handed over ends once; no body is kept; at most one refusal, last.
A node's side: no exception; the receiver hears at most one end, last; a link that is idle serves the next request.
"""

from __future__ import annotations

from random import Random

from proxy.http.tunnel import Tunnel
from tests.fakes.client_side import ClientSide, Owed, http_settings
from tests.fakes.node_side import UPGRADE, NodeSide, make_request
from tests.fuzz import inputs

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_LAST = ("ended", "failed", "switched")
_SENT = [
    make_request(b"GET"),
    make_request(b"HEAD"),
    make_request(b"POST", body=b"hello"),
    make_request(b"GET", *UPGRADE),
    make_request(b"GET", version="1.0"),
]


def run(seed: int) -> None:
    """The input that this number makes; raises AssertionError, or whatever the parser's side raised."""
    random = Random(seed)
    if seed % 2:
        _client(random, inputs.requests(random))
    else:
        _node(random, inputs.responses(random))


def _client(random: Random, pieces: list[bytes]) -> None:
    at_once = random.random() < 0.5
    client = ClientSide(
        http_settings(memory_bytes=random.choice((4, 1000)), max_spool_bytes=random.choice((8, 100_000))),
        is_tls=random.random() < 0.2,
        half_closed=random.random() < 0.5,
        at_once=Owed.answer if at_once else None,
    )
    if random.random() < 0.2:
        client.transport.room = 0
    answered = 0
    for piece in pieces:
        client.feed(piece)
        if not at_once and random.random() < 0.3 and answered < len(client.owed):
            answered = _answer(random, client, answered)
    ending = random.randrange(4)
    while not at_once and answered < len(client.owed) and not client.transport.is_closed and ending:
        answered = _answer(random, client, answered)
    if ending == 1 and not client.transport.is_closed and not client.connection.eof_received():
        client.transport.close()
    if ending == 2:
        for _ in range(4):
            client.connection.on_deadline(1e9)
        assert client.transport.is_closed or client.connection.is_answering, (
            "a connection that stays for ever"
        )
    client.transport.lose(None if random.random() < 0.5 else ConnectionResetError("reset"))
    assert len(client.refusals) <= 1
    assert not client.connections
    assert client.connection.request is None
    assert client.connection.ready is None
    assert all("left" in owed.heard for owed in client.owed if owed.request.body is not None)
    assert client.settings.spool_budget.used == 0, "a body is kept"


def _answer(random: Random, client: ClientSide, answered: int) -> int:
    owed = client.owed[answered]
    if client.connection.is_answering and not client.transport.is_closed:
        owed.answer(b"x" * random.choice((0, 2, 70_000)))
        client.transport.drain()
    return answered + 1


def _node(random: Random, pieces: list[bytes]) -> None:
    node = NodeSide()
    request = random.choice(_SENT)
    node.send(request)
    for piece in pieces:
        node.feed(piece)
        if node.what[-1:] == ["switched"]:
            _tunnel(node)
            return
        if "ended" in node.what:
            break
    ending = random.randrange(3)
    if ending == 1:
        node.eof()
    if node.link.is_idle:
        assert node.what[-1] == "ended"
        node.heard.clear()
        node.send()
        node.feed(_OK)
        assert (node.what, node.body) == (["head", "body", "ended"], b"ok"), (
            "an idle link that does not serve"
        )
    node.transport.lose(None if ending < 2 else ConnectionResetError("reset"))
    ends = [name for name in node.what if name in _LAST]
    assert len(ends) == 1, f"ends: {ends}"
    assert node.what[-1] in _LAST
    assert node.what.count("head") <= 1
    assert "body" not in node.what or node.what.index("head") < node.what.index("body")


def _tunnel(node: NodeSide) -> None:
    client = ClientSide()
    client.feed(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    ends: list[bool] = []
    tunnel = Tunnel(client.connection, node.link, ends.append)
    node.link.tunnel = tunnel
    client.connection.upgrade(tunnel, b"")
    node.feed(b"HTTP/1.1 anything")
    node.eof()
    node.transport.lose()
    client.transport.lose()
    assert ends == [True]
