"""Calls: what a failure means, what is sent again, what is never shown."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from proxy.errors import ConfigError, ProviderError
from proxy.providers.suanli import SuanliProvider
from proxy.providers.suanli_api import SuanliApi, _retry_after, load_key
from tests.fakes.suanli_cloud import Fault, SuanliCloud
from tests.providers.conftest import TOKEN, MakeSuanli


async def fail_create(provider: SuanliProvider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await provider.create(provider.new_name())
    return caught.value


# a create: refused, or unknown?


@pytest.mark.parametrize(
    "fault",
    [
        Fault(drops=True),
        Fault(drops=True, commits=True),
        Fault(text="<h1>Internal</h1>", status=500),
        Fault(text="<h1>Bad Gateway</h1>", status=502, commits=True),
        Fault(text="", status=503),
        Fault(text=""),
        Fault(text="<html>welcome</html>"),
        Fault(code="C999", message="internal error"),
        Fault(code="Z001", message="upstream", status=503),
        Fault(code="C001", message="upstream", status=502),
        Fault(answer={"code": "0000", "message": "success", "data": None}),
        Fault(answer={"code": "0000", "message": "success", "data": {}}),
        Fault(answer={"code": "0000", "message": "success", "data": {"task_id": None}}),
        Fault(answer={"code": "0000", "message": "success", "data": {"task_id": 7}}, status=502),
        Fault(answer={"code": 0, "data": {"task_id": 7}}),
        Fault(answer={"errors": ["no"]}),
        Fault(text="timeout", status=408),
    ],
    ids=str,
)
async def test_a_create_that_may_have_worked(
    cloud: SuanliCloud, make_suanli: MakeSuanli, fault: Fault
) -> None:
    cloud.always["create"] = fault
    error = await fail_create(await make_suanli())
    assert error.may_have_worked
    assert not error.is_auth
    assert cloud.counts()["create"] == 1


@pytest.mark.parametrize("code", ["C008", "C009", "C010", "Z001"])
@pytest.mark.parametrize("status", [200, 400, 409, 422])
async def test_a_create_that_the_api_refuses(
    cloud: SuanliCloud, make_suanli: MakeSuanli, code: str, status: int
) -> None:
    cloud.always["create"] = Fault(code=code, message="任务名称重复", status=status)
    error = await fail_create(await make_suanli())
    assert not error.may_have_worked
    assert not error.is_auth
    assert f"{code} 任务名称重复" in str(error)
    assert "create" in str(error)
    assert cloud.counts()["create"] == 1


@pytest.mark.parametrize(
    "fault",
    [
        Fault(code="C001", message="token invalid"),
        Fault(code="A003", message="token invalid"),
        Fault(code="C007", message="token invalid", status=400),
        Fault(text="Forbidden", status=403),
        Fault(text="Unauthorized", status=401),
    ],
    ids=str,
)
async def test_credentials_that_are_refused(
    cloud: SuanliCloud, make_suanli: MakeSuanli, fault: Fault
) -> None:
    cloud.always["create"] = cloud.always["search"] = fault
    provider = await make_suanli()
    error = await fail_create(provider)
    assert error.is_auth
    assert not error.may_have_worked
    with pytest.raises(ProviderError) as caught:
        await provider.list()
    assert caught.value.is_auth
    assert cloud.counts() == {"create": 1, "search": 1}


async def test_a_create_that_is_slower_than_the_timeout(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    cloud.always["create"] = Fault(delay=5, commits=True)
    provider = await make_suanli(timeout_secs=0.3)
    began = time.monotonic()
    error = await fail_create(provider)
    assert error.may_have_worked
    assert "no answer within 0.3 s" in str(error)
    assert time.monotonic() - began < 3
    assert len(await provider.list()) == 1


async def test_a_create_that_nobody_hears_has_not_worked(make_suanli: MakeSuanli) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        provider = await make_suanli(openapi_base_url=f"http://127.0.0.1:{nobody.getsockname()[1]}")
        error = await fail_create(provider)
    assert not error.may_have_worked
    assert "cannot reach Suanli" in str(error)


async def test_a_create_whose_host_has_no_address_has_not_worked(make_suanli: MakeSuanli) -> None:
    error = await fail_create(await make_suanli(openapi_base_url="http://no-such-host.invalid"))
    assert not error.may_have_worked


async def test_a_provider_that_was_not_started_says_so() -> None:
    with pytest.raises(ProviderError, match="not open"):
        await SuanliApi("http://127.0.0.1:1", "t").read("/api/x", {})


# reads are sent again, a few times


@pytest.mark.parametrize(
    "fault",
    [
        Fault(drops=True),
        Fault(text="<h1>Bad Gateway</h1>", status=502),
        Fault(text=""),
        Fault(code="C999"),
        Fault(code="C008"),
        Fault(text="slow down", status=429),
    ],
    ids=str,
)
async def test_a_read_is_sent_again(
    cloud: SuanliCloud, make_suanli: MakeSuanli, pauses: list[float], fault: Fault
) -> None:
    cloud.add_task("pool-a-1")
    cloud.fail_next("search", fault, fault)
    assert len(await (await make_suanli()).list()) == 1
    assert cloud.counts()["search"] == 3
    assert 0.25 <= pauses[0] <= 0.75
    assert 1 <= pauses[1] <= 3


async def test_a_read_is_not_sent_again_for_ever(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    cloud.always["search"] = Fault(text="<h1>Bad Gateway</h1>", status=502)
    with pytest.raises(ProviderError, match="HTTP 502, not the API's JSON: <h1>Bad Gateway</h1>") as caught:
        await (await make_suanli()).list()
    assert cloud.counts()["search"] == 3
    assert not caught.value.may_have_worked


async def test_a_read_that_is_refused_is_not_sent_again(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    cloud.always["search"] = Fault(code="Z001", message="参数错误")
    with pytest.raises(ProviderError, match="Z001 参数错误"):
        await (await make_suanli()).list()
    assert cloud.counts()["search"] == 1


async def test_a_read_waits_as_long_as_it_is_asked_to(
    cloud: SuanliCloud, make_suanli: MakeSuanli, pauses: list[float]
) -> None:
    cloud.fail_next("search", Fault(text="", status=429, headers={"Retry-After": "7"}))
    await (await make_suanli()).list()
    assert pauses == [7.0]


async def test_asked_to_wait_long_a_read_fails_and_says_so(
    cloud: SuanliCloud, make_suanli: MakeSuanli, pauses: list[float]
) -> None:
    cloud.always["search"] = Fault(text="", status=429, headers={"Retry-After": "120"})
    with pytest.raises(ProviderError) as caught:
        await (await make_suanli()).list()
    assert caught.value.retry_after_secs == 120
    assert pauses == []


async def test_a_create_passes_on_how_long_to_wait(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    cloud.always["create"] = Fault(code="C008", status=429, headers={"Retry-After": "3"})
    error = await fail_create(await make_suanli())
    assert error.retry_after_secs == 3
    assert not error.may_have_worked


def test_retry_after_is_seconds_or_a_date() -> None:
    assert _retry_after("30") == 30
    assert _retry_after("") is _retry_after("soon") is _retry_after("-1") is _retry_after("nan") is None
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert _retry_after(later) == pytest.approx(60, abs=2)
    assert _retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0


async def test_an_answer_that_trickles_has_one_deadline(make_suanli: MakeSuanli) -> None:
    """Each byte would be in time by itself."""

    is_closed = asyncio.Event()

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        try:
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
        except ConnectionError:
            writer.close()
            is_closed.set()

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        provider = await make_suanli(openapi_base_url=f"http://127.0.0.1:{port}", timeout_secs=0.3)
        began = time.monotonic()
        error = await fail_create(provider)
        assert error.may_have_worked
        assert time.monotonic() - began < 3
        await is_closed.wait()


# secrets


@pytest.mark.parametrize("status", [200, 400, 401, 500])
async def test_no_error_shows_a_secret_that_the_api_sends_back(
    cloud: SuanliCloud, make_suanli: MakeSuanli, status: int
) -> None:
    password = 'p"ss word/42'
    said = f"bad {TOKEN} and {TOKEN.upper()} and {password} and {'x' * 250}{TOKEN}"
    provider = await make_suanli({"repository_password": password})
    for fault in (
        Fault(code="Z001", message=said, status=status),
        Fault(text=json.dumps(said), status=status),
    ):
        cloud.always["create"] = fault
        text = str(await fail_create(provider))
        assert "bad *** and *** and ***" in text
        assert TOKEN[:8] not in text.lower()
        assert "word/42" not in text


async def test_an_error_is_one_short_line(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    cloud.always["create"] = Fault(code="Z001", message="one\r\ntwo\tthree\x1b[31m " + "x" * 5000)
    text = str(await fail_create(await make_suanli()))
    assert "one two three" in text
    assert len(text) < 400
    assert text.isprintable()


async def test_no_log_shows_the_token(
    cloud: SuanliCloud, make_suanli: MakeSuanli, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = {"X-Echo": TOKEN}
    cloud.fail_next("search", Fault(text=TOKEN, status=502, headers=echo), Fault(drops=True))
    provider = await make_suanli()
    await provider.list()
    cloud.always["create"] = Fault(text=TOKEN, status=500, headers=echo)
    await fail_create(provider)
    assert TOKEN not in caplog.text
    assert TOKEN not in repr(vars(provider))


def test_an_empty_token_masks_nothing() -> None:
    assert SuanliApi("http://127.0.0.1:1", "")._masked("all is shown") == "all is shown"


# the signature


@pytest.fixture
def key_file(rsa_key: rsa.RSAPrivateKey, tmp_path: Path) -> Path:
    path = tmp_path / "key.pem"
    path.write_bytes(pem(rsa_key))
    return path


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


async def test_every_call_is_signed_as_the_api_checks_it(
    make_suanli: MakeSuanli, rsa_key: rsa.RSAPrivateKey, key_file: Path
) -> None:
    cloud = SuanliCloud(TOKEN, public_key=rsa_key.public_key())
    await cloud.start()
    try:
        services = [{"service_name": "名称", "service_image": "i", "remote_ports": [{"service_port": 3000}]}]
        signed = await make_suanli(
            {"services": services}, openapi_base_url=cloud.url, private_key_file=str(key_file)
        )
        node = await signed.create("pool-a-1")
        assert len(await signed.list()) == 1
        await signed.destroy(node.id)
        await signed.destroy(node.id)
        assert cloud.refused == ["任务不存在或已结束"]
        unsigned = await make_suanli(openapi_base_url=cloud.url)
        with pytest.raises(ProviderError, match="C004 sign_str") as caught:
            await unsigned.list()
        assert caught.value.is_auth
    finally:
        await cloud.close()


async def test_a_base_address_with_a_path_is_kept_out_of_the_signature(rsa_key: rsa.RSAPrivateKey) -> None:
    api = SuanliApi("http://gateway.example/suanli/", TOKEN, rsa_key)
    signed = api._headers("/api/x?a=1", b"")["sign_str"]
    assert len(signed) == 344
    assert api._base_url == "http://gateway.example/suanli"


@pytest.mark.parametrize("kind", ["garbage", "encrypted", "elliptic", "missing"])
def test_a_key_file_that_is_of_no_use_is_a_fault(
    kind: str, tmp_path: Path, rsa_key: rsa.RSAPrivateKey
) -> None:
    path = tmp_path / "key.pem"
    contents = {
        "garbage": b"feedface",
        "encrypted": pem(rsa_key, b"feedface"),
        "elliptic": pem(ec.generate_private_key(ec.SECP256R1())),
    }
    if kind in contents:
        path.write_bytes(contents[kind])
    with pytest.raises(ConfigError, match="private_key_file") as caught:
        load_key(path)
    assert "feedface" not in str(caught.value)
