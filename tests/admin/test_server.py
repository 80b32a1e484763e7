"""A real server on a free port, asked as browsers, Prometheus and load balancers do."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession
from prometheus_client.parser import text_string_to_metric_families

from proxy.admin import events
from proxy.admin.status import status
from proxy.dispatch.line import Ticket
from tests.admin.conftest import Rig

FACTS = (
    "/metrics",
    "/api/status",
    "/api/config",
    "/api/queue",
    "/api/actions",
    "/api/history",
    "/api/events",
    "/api/nothing",
    "/nothing",
)
OPEN = ("/", "/page.js", "/words.js", "/page.css", "/healthz", "/readyz")


async def problem(response: ClientResponse) -> dict[str, Any]:
    assert response.content_type == "application/problem+json"
    told: dict[str, Any] = json.loads(await response.read())
    assert told["status"] == response.status
    assert told["type"] == "about:blank"
    assert told["title"]
    return told


async def next_event(response: ClientResponse) -> dict[str, Any]:
    async with asyncio.timeout(5):
        name, data, end = [await response.content.readline() for _ in range(3)]
    assert (name, end) == (b"event: status\n", b"\n")
    told: dict[str, Any] = json.loads(data.removeprefix(b"data: "))
    return told


# health


async def test_alive_always_and_ready_while_accepting(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    async with http.get(rig.url("/readyz")) as response:
        assert (response.status, await response.text()) == (200, "ready\n")
    rig.is_accepting = lambda: False
    async with http.get(rig.url("/readyz")) as response:
        assert response.status == 503
        await problem(response)
    async with http.get(rig.url("/healthz")) as response:
        assert (response.status, await response.text()) == (200, "alive\n")


# facts


async def test_status_is_that_of_the_view(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    rig.dispatcher.join(Ticket(), 1000.0)
    async with http.get(rig.url("/api/status")) as response:
        assert response.content_type == "application/json"
        assert await response.json() == status(rig.view)


async def test_metrics_in_the_format_that_is_asked_for(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    async with http.get(rig.url("/metrics")) as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        names = {family.name for family in text_string_to_metric_families(await response.text())}
        assert "fifo_proxy_queue_length" in names
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with http.get(rig.url("/metrics"), headers=accept) as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        assert (await response.text()).endswith("# EOF\n")


async def test_the_configuration_is_the_effective_one_without_secrets(rig: Rig, http: ClientSession) -> None:
    await rig.serve(token="cloud-secret", admin_token="admin-secret", max_nodes=7)
    async with http.get(rig.url("/api/config"), headers={"Authorization": "Bearer admin-secret"}) as response:
        text = await response.text()
    assert json.loads(text)["max_nodes"] == 7
    assert "-secret" not in text


@pytest.mark.parametrize("path", [*OPEN, *FACTS])
async def test_nothing_is_stored_and_nothing_foreign_is_run(path: str, rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    async with http.get(rig.url(path)) as response:
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Server"] == "fifo-proxy"


# errors


async def test_unknown_paths_and_methods_are_problems(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    async with http.get(rig.url("/nothing")) as response:
        assert (response.status, await problem(response)) == (
            404,
            {"type": "about:blank", "title": "Not Found", "status": 404},
        )
    async with http.post(rig.url("/api/status"), json={}) as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET,HEAD"
        await problem(response)
    async with http.head(rig.url("/api/events")) as response:
        assert response.status == 405


async def test_a_fault_of_ours_is_logged_and_told_without_its_cause(
    rig: Rig, http: ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.serve()

    def fail() -> bool:
        raise RuntimeError("the cause")

    rig.is_accepting = fail
    async with http.get(rig.url("/readyz")) as response:
        assert response.status == 500
        assert "the cause" not in str(await problem(response))
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.exc_info and str(record.exc_info[1]) for record in errors] == ["the cause"]


# who may ask


@pytest.mark.parametrize("path", FACTS)
@pytest.mark.parametrize(
    "given", [None, "Bearer wrong", "Bearer", "Bearer ", "Basic s3cret", "s3cret", "Bearer ü"]
)
async def test_facts_need_the_token(path: str, given: str | None, rig: Rig, http: ClientSession) -> None:
    await rig.serve(admin_token="s3cret")
    async with http.get(rig.url(path), headers={"Authorization": given} if given else {}) as response:
        assert response.status == 401
        assert response.headers["WWW-Authenticate"] == 'Bearer realm="fifo-proxy admin"'
        assert "s3cret" not in str(await problem(response))


async def test_the_token_opens_and_the_scheme_has_no_case(rig: Rig, http: ClientSession) -> None:
    await rig.serve(admin_token="s3cret-x")
    for scheme in ("Bearer", "bearer"):
        async with http.get(
            rig.url("/api/status"), headers={"Authorization": f"{scheme} s3cret-x"}
        ) as response:
            assert response.status == 200


@pytest.mark.parametrize("path", OPEN)
async def test_health_and_the_page_need_no_token(path: str, rig: Rig, http: ClientSession) -> None:
    await rig.serve(admin_token="s3cret")
    async with http.get(rig.url(path)) as response:
        assert response.status == 200


async def test_a_token_that_is_changed_counts_at_once(rig: Rig, http: ClientSession) -> None:
    await rig.serve(admin_token="old")
    headers = {"Authorization": "Bearer old"}
    rig.config = type(rig.config).model_validate({"admin_token": "new"})
    async with http.get(rig.url("/api/status"), headers=headers) as response:
        assert response.status == 401


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:8081", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1", 200),
        ("192.168.1.5:80", 200),
        ("[::1]:8081", 200),
        ("evil.example", 403),
        ("evil.example:8081", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.nip.io", 403),
        ("[::1", 403),
    ],
)
async def test_a_name_pointed_at_loopback_gets_nothing(
    host: str, expected: int, rig: Rig, http: ClientSession
) -> None:
    await rig.serve()
    async with http.get(rig.url("/api/status"), headers={"Host": host}) as response:
        assert response.status == expected


async def test_any_host_will_do_with_a_token_or_where_the_port_is_open(rig: Rig, http: ClientSession) -> None:
    await rig.serve(admin_token="s3cret")
    headers = {"Host": "admin.example", "Authorization": "Bearer s3cret"}
    async with http.get(rig.url("/api/status"), headers=headers) as response:
        assert response.status == 200
    rig.config = type(rig.config).model_validate({"admin_host": "0.0.0.0", "admin_open": True})
    async with http.get(rig.url("/api/status"), headers={"Host": "admin.example"}) as response:
        assert response.status == 200


async def test_a_request_without_host_is_no_browsers(rig: Rig) -> None:
    server = await rig.serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"200"
    writer.close()
    await writer.wait_closed()


# events


async def test_events_come_at_once_each_second_and_on_change(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    async with http.get(rig.url("/api/events")) as response:
        assert response.content_type == "text/event-stream"
        first = await next_event(response)
        assert first == status(rig.view)

        rig.dispatcher.join(Ticket(), 1000.0)
        changed = await next_event(response)
        assert (changed["queue"]["length"], changed["uptime_secs"]) == (1, 0.0)

        rig.time.now += 1.0
        later = await next_event(response)
        assert (later["uptime_secs"], later["queue"]["oldest_wait_secs"]) == (1.0, 1.0)


async def test_nothing_is_told_while_nothing_changes(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    async with http.get(rig.url("/api/events")) as response:
        await next_event(response)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await response.content.readline()


async def test_followers_are_bounded_and_their_places_given_back(
    rig: Rig, http: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_STREAMS", 1)
    await rig.serve()
    async with http.get(rig.url("/api/events")) as response:
        await next_event(response)
        async with http.get(rig.url("/api/events")) as second:
            assert second.status == 503
            assert second.headers["Retry-After"] == "10"
            await problem(second)
    await until_accepted(rig, http)


async def test_a_follower_that_takes_nothing_is_let_go(
    rig: Rig, http: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_STREAMS", 1)
    monkeypatch.setattr(events, "_STALL_SECS", 0.2)
    server = await rig.serve()
    rig.scaler.last_error = "x" * 8_000_000  # more than the buffers of both ends hold
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until_accepted(rig, http)


async def until_accepted(rig: Rig, http: ClientSession) -> None:
    """A stream is closed when the next event is written; until then its place is taken."""
    async with asyncio.timeout(10):
        while True:
            rig.time.now += 1.0
            async with http.get(rig.url("/api/events")) as response:
                if response.status == 200:
                    return
            await asyncio.sleep(0.05)


# start and stop


async def test_stopping_ends_the_streams_cleanly_and_closes_the_port(rig: Rig, http: ClientSession) -> None:
    server = await rig.serve()
    port = server.port
    async with http.get(rig.url("/api/events")) as response:
        await next_event(response)
        async with asyncio.timeout(1.5):
            await server.stop()
            assert await response.content.read() == b""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_port_that_is_taken_is_an_os_error(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await rig.serve(admin_port=taken.getsockname()[1])
    assert not caplog.records
