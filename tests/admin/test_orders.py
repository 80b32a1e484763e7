"""Orders over HTTP: the shapes that the page and the command line rely on, refusals, and who may give them."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import ClientSession
from yarl import URL

from proxy.admin.actions import Who
from proxy.errors import NotPossibleNow
from tests.admin.conftest import Rig
from tests.admin.test_server import problem

AT = "2027-01-15T08:00:00.000Z"


async def post(rig: Rig, http: ClientSession, path: str, **request: Any) -> tuple[int, dict[str, Any]]:
    request.setdefault("json", {})
    async with http.post(rig.url(path), **request) as response:
        if response.status == 200:
            told: dict[str, Any] = await response.json()
            return 200, told
        return response.status, await problem(response)


@pytest.mark.parametrize(
    ("path", "body", "action", "target", "told"),
    [
        ("/api/nodes/n-1/drain", {}, "drain_node", "n-1", ("drain", "n-1")),
        ("/api/nodes/id-1/replace", {}, "replace_node", "id-1", ("replace", "n-1")),
        ("/api/nodes/n-1/resume", {}, "resume_node", "n-1", ("restore", "n-1")),
        ("/api/scaling/nodes", {"count": 4}, "set_nodes", "4", ("reach", 4)),
        ("/api/scaling/hold", {}, "hold_scaling", "", ("hold", None)),
    ],
)
async def test_an_order_reaches_the_scaler_and_is_answered_as_it_is_kept(
    path: str, body: dict[str, Any], action: str, target: str, told: object, rig: Rig, http: ClientSession
) -> None:
    await rig.serve()
    rig.dispatcher.add("n-1", 1000.0, id="id-1")
    code, answer = await post(rig, http, path, json=body | {"by": "alice"})
    assert (code, rig.orders.told) == (200, [told])
    assert answer == {
        "at": AT,
        "by": "alice",
        "client": "127.0.0.1",
        "action": action,
        "target": target,
        "result": answer["result"],
    }
    async with http.get(rig.url("/api/actions")) as response:
        assert await response.json() == [answer]


async def test_holds_are_shown_refused_twice_and_taken_back(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    for what in ("scaling", "dispatch"):
        assert (await post(rig, http, f"/api/{what}/resume"))[0] == 409
        assert (await post(rig, http, f"/api/{what}/hold", json={"by": "alice"}))[0] == 200
        async with http.get(rig.url("/api/status")) as response:
            assert (await response.json())["held"][what] == {"by": "alice", "at": AT}
        code, told = await post(rig, http, f"/api/{what}/hold")
        assert (code, told["detail"]) == (409, "held already, by alice")
        assert (await post(rig, http, f"/api/{what}/resume"))[0] == 200
        async with http.get(rig.url("/api/status")) as response:
            assert (await response.json())["held"][what] is None
    assert not rig.dispatcher.is_held


async def test_a_waiting_request_is_removed_by_its_id(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    code, told = await post(rig, http, "/api/queue/waits/remove")
    assert (code, told["action"], told["target"]) == (200, "remove_request", "waits")
    code, told = await post(rig, http, "/api/queue/none/remove")
    assert (code, told["detail"]) == (404, "no request none waits")
    url = URL(rig.url("/api/queue/a%2Fb%3Fc/remove"), encoded=True)
    async with http.post(url, json={}) as response:  # clients may give such ids
        assert (await problem(response))["detail"] == "no request a/b?c waits"


async def test_refusals_are_problems_and_kept_too(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    assert (await post(rig, http, "/api/nodes/nobody/drain"))[0] == 404
    rig.dispatcher.add("n-1", 1000.0)
    rig.orders.refusal = NotPossibleNow("it is drained already")
    code, told = await post(rig, http, "/api/nodes/n-1/drain", json={"by": "bob"})
    assert (code, told["detail"]) == (409, "it is drained already")
    kept = [(action.who.name, action.result) for action in rig.actions.journal]
    assert kept == [("bob", "refused: it is drained already"), ("", "refused: there is no node nobody")]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/scaling/hold", b"[]"),
        ("/api/scaling/hold", b"{"),
        ("/api/scaling/hold", b"\xff"),
        ("/api/scaling/hold", b'{"bye": "alice"}'),
        ("/api/scaling/hold", b'{"count": 1}'),
        ("/api/scaling/hold", b'{"by": 1}'),
        ("/api/scaling/hold", b'{"by": "a\\nb"}'),
        ("/api/scaling/hold", b'{"by": "' + b"x" * 65 + b'"}'),
        ("/api/scaling/nodes", b"{}"),
        ("/api/scaling/nodes", b'{"count": -1}'),
        ("/api/scaling/nodes", b'{"count": 1.5}'),
        ("/api/scaling/nodes", b'{"count": true}'),
        ("/api/scaling/nodes", b'{"count": "2"}'),
        ("/api/scaling/nodes", b'{"count": 1000001}'),
    ],
)
async def test_a_bad_body_changes_nothing(path: str, body: bytes, rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    headers = {"Content-Type": "application/json"}
    code, told = await post(rig, http, path, data=body, json=None, headers=headers)
    assert (code, rig.orders.told, len(rig.actions.journal)) == (400, [], 0)
    assert "expected" in told["detail"]


async def test_a_body_that_is_too_large_is_413(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    assert (await post(rig, http, "/api/scaling/hold", json={"by": "x" * 5000}))[0] == 413


async def test_the_journal_is_bounded(rig: Rig) -> None:
    for _ in range(300):
        rig.actions.hold_scaling(Who("", "10.0.0.9"))
        rig.actions.resume_scaling(Who("", "10.0.0.9"))
    assert (len(rig.actions.journal), rig.actions.count) == (200, 600)


# who may


async def test_with_a_token_an_order_needs_it_and_nothing_else(rig: Rig, http: ClientSession) -> None:
    await rig.serve(admin_token="s3cret")
    path = "/api/scaling/hold"
    assert (await post(rig, http, path))[0] == 401
    assert (await post(rig, http, path, headers={"Authorization": "Bearer wrong"}))[0] == 401
    assert rig.orders.told == []
    right = {"Authorization": "Bearer s3cret", "Origin": "https://elsewhere.example"}
    assert (await post(rig, http, path, json=None, headers=right))[0] == 200


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:8081"}, 200),
        ({"Origin": "http://localhost:8081"}, 200),
        ({"Origin": "http://LOCALHOST:8081"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:3000"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Host": "evil.example"}, 403),
    ],
)
async def test_without_a_token_only_our_own_page_and_programs_give_orders(
    headers: dict[str, str], expected: int, rig: Rig, http: ClientSession
) -> None:
    await rig.serve()
    headers = {"Host": "localhost:8081", "Content-Type": "application/json"} | headers
    code, _ = await post(rig, http, "/api/scaling/hold", data=b"{}", json=None, headers=headers)
    assert (code, len(rig.orders.told)) == (expected, expected == 200)


async def test_an_order_is_no_get(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    async with http.get(rig.url("/api/scaling/hold")) as response:
        assert (response.status, response.headers["Allow"]) == (405, "POST")
