"""Why do requests wait? What the cloud said is in the status, the metric, the exit code and an alert."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from proxy.admin import alerts
from tests.fakes.alert_receiver import Receiver
from tests.fakes.proxy_here import proxy_here
from tests.fakes.suanli_cloud import Fault, SuanliCloud
from tests.fakes.until import until
from tests.flows.test_scaling_flows import REQUEST, TOKEN


@pytest.mark.slow  # its node is a process
async def test_a_refused_token_is_told_everywhere_until_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "SETTLE_SECS", 0.1)
    receiver, cloud = Receiver(), SuanliCloud(TOKEN)
    await receiver.start()
    await cloud.start()
    cloud.always["search"] = Fault(code="A001", message="API key has expired", status=401)
    try:
        async with proxy_here(
            counts_files=False,
            provider={"kind": "suanli", "openapi_base_url": cloud.url, "token": TOKEN},
            proxy_port=3000,
            scale_up_request=REQUEST,
            min_nodes=0,
            alert_webhook=receiver.url,
        ) as proxy:
            waiting = asyncio.create_task(proxy.ask("/"))
            await proxy.waits(1)
            await until(lambda: len(receiver.taken) == 1, "the alert came")
            [(_, alert)] = receiver.heard
            assert (alert["state"], alert["added"]) == ("degraded", ["token_refused"])
            assert "API key has expired" in alert["reasons"][0]["detail"]
            assert await proxy.metric("degraded", reason="token_refused") == 1
            command = (
                *(sys.executable, "-m", "proxy", "status", "--json"),
                *("--admin", f"http://127.0.0.1:{proxy.app.admin.port}"),
            )
            status = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            printed, _ = await status.communicate()
            assert status.returncode == 1
            told = json.loads(printed)
            assert told["health"]["reasons"] == alert["reasons"]
            [error] = told["provider_errors"]
            assert (error["operation"], error["mended_at"]) == ("list", None)
            assert "API key has expired" in error["detail"]
            assert len(told["waiting"]) == 1
            assert TOKEN not in printed.decode()

            del cloud.always["search"]
            proxy.app.reload(proxy.app.config)  # a reload tries again at once what had failed
            assert (await waiting).status == 200
            await until(lambda: len(receiver.taken) == 2, "its end is told, too")
            assert receiver.taken[1] == ([], ["token_refused"])
            assert await proxy.metric("degraded", reason="token_refused") == 0
    finally:
        await cloud.close()
        await receiver.stop()
