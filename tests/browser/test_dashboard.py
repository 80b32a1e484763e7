"""What an operator sees and does on the page, in a real browser, with real nodes behind a real proxy."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import DESKTOP, PHONE, Chromium
from tests.fakes.demo_nodes import demo_node_processes
from tests.fakes.job_client import ended, hand_in
from tests.fakes.proxy_here import proxy_here
from tests.fakes.proxy_process import ProxyProcess
from tests.fakes.suanli_cloud import SuanliCloud
from tests.flows.test_scaling_flows import REQUEST, TOKEN

pytestmark = pytest.mark.browser


async def tile(page: Page, name: str) -> int:
    """The number in a tile."""
    text = await page.locator("#tiles div", has_text=name).locator("dd > span").inner_text()
    return int(text.replace(",", ""))


async def confirm(page: Page, by: str = "alice") -> None:
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    await page.get_by_label("Your name").fill(by)
    await page.locator("#confirm_yes").click()
    await expect(dialog).to_be_hidden()


async def test_a_burst_makes_the_line_grow_and_shrink_and_a_killed_node_turns_red(chromium: Chromium) -> None:
    async with (
        demo_node_processes(2) as nodes,
        proxy_here(list(nodes), counts_files=False) as proxy,
        chromium.page(proxy.app.admin.port) as page,
    ):
        await expect(page.locator("#headline")).to_have_text("All is well")
        await expect(page.locator("#nodes li")).to_have_count(2)
        assert await tile(page, "Waiting") == 0
        requests = [asyncio.create_task(proxy.ask(f"/{number}?work=0.5")) for number in range(20)]
        await expect(page.locator("#headline")).to_have_text(
            re.compile(r"^\d+ requests wait because every node is busy$")
        )
        assert await tile(page, "Waiting") > 5
        await chromium.keep(page, "burst", whole=True)
        assert {answer.status for answer in await asyncio.gather(*requests)} == {200}
        await expect(page.locator("#headline")).to_have_text("All is well")
        await expect(page.locator("#tiles div", has_text="Served").locator("dd > span")).to_have_text("20")
        assert await tile(page, "Waiting") == 0
        chart = page.locator(".chart", has_text="Requests waiting")
        await expect(chart.locator(".read")).to_have_text(re.compile(r"now 0 · most (1[0-9])"))
        await expect(page.locator("#nodes rect.busy").first).to_be_attached()

        url, process = next(iter(nodes.items()))
        process.kill()
        node = page.locator("#nodes li", has_text=url.removeprefix("http://"))
        await expect(node).to_have_attribute("data-state", "unready")
        await expect(page.locator("#headline")).to_have_text("Nodes are unready: 1 of 2")
        await expect(node.locator(".state")).to_have_css("color", "rgb(179, 38, 30)")
        await expect(node.locator(".band rect.unready").last).to_have_css("fill", "rgb(212, 58, 47)")
        await expect(node.locator(".probe")).to_contain_text(re.compile("refused|connect", re.IGNORECASE))
        await chromium.keep(page, "killed-node", whole=True)


async def test_dispatch_is_held_a_request_is_removed_and_dispatch_resumed(chromium: Chromium) -> None:
    async with (
        demo_node_processes(1) as nodes,
        proxy_here(list(nodes), counts_files=False) as proxy,
        chromium.page(proxy.app.admin.port) as page,
    ):
        await page.get_by_role("button", name="Hold: Dispatch").click()
        await chromium.keep(page, "confirmation")
        await page.keyboard.press("Escape")
        assert not proxy.app.dispatcher.is_held, "nothing without confirmation"
        await page.get_by_role("button", name="Hold: Dispatch").click()
        await confirm(page)
        await expect(page.locator("#headline")).to_have_text("Dispatch is held")
        await expect(page.locator("#explained")).to_contain_text("by alice")
        clients = []
        for name in ("one", "two", "three"):
            fields = f"X-Request-Id: {name}\r\n"
            clients.append(asyncio.create_task(proxy.ask(f"/{name}?key=s3cret-of-a-client", fields=fields)))
            await proxy.waits(len(clients))
        await expect(page.locator("#waiting tr")).to_have_count(3)
        await expect(page.locator("#headline")).to_have_text("3 requests wait because dispatch is held")
        assert "s3cret-of-a-client" not in await page.content()
        await page.get_by_role("button", name="Remove two").focus()
        await page.wait_for_timeout(1500)  # a second's events later it still has the focus
        await page.keyboard.press("Enter")
        await confirm(page)
        await expect(page.locator("#waiting tr")).to_have_count(2)
        assert (await clients[1]).outcome == (503, "not_sent")
        await expect(page.locator("#actions li").first).to_contain_text("remove_request two")
        await expect(page.locator("#actions li").first).to_contain_text("alice")
        await page.get_by_role("button", name="Resume: Dispatch").click()
        await confirm(page)
        assert [(await client).status for client in clients] == [200, 503, 200]
        await expect(page.locator("#no_waiting")).to_be_visible()


async def test_what_is_not_possible_is_told(chromium: Chromium) -> None:
    async with (
        demo_node_processes(1) as nodes,
        proxy_here(list(nodes), counts_files=False) as proxy,
        chromium.page(proxy.app.admin.port, strict=False) as page,
    ):
        await page.get_by_role("button", name=re.compile("^Replace ")).click()
        await confirm(page)
        await expect(page.locator("#told.bad")).to_be_visible()
        await expect(page.locator("#actions li").first).to_contain_text("refused:")
        await page.get_by_label("Number of nodes").fill("2")
        await page.get_by_role("button", name="Set once").click()
        await confirm(page, by="bob")
        await expect(page.locator("#actions li").first).to_contain_text("bob")


async def test_the_reason_for_waiting_stands_at_the_top_when_the_cloud_refuses_the_token(
    chromium: Chromium,
) -> None:
    cloud = SuanliCloud(TOKEN)
    await cloud.start()
    engine = {"kind": "suanli", "openapi_base_url": cloud.url, "token": "expired"}
    try:
        async with proxy_here(
            counts_files=False, provider=engine, proxy_port=3000, scale_up_request=REQUEST, min_nodes=0
        ) as proxy:
            waiting = asyncio.create_task(proxy.ask("/", fields="X-Request-Id: waits\r\n"))
            await proxy.waits(1)
            for size, name in ((DESKTOP, "token-refused"), (PHONE, "token-refused-phone")):
                async with chromium.page(proxy.app.admin.port, size=size) as page:
                    headline = page.locator("#headline")
                    await expect(headline).to_have_text("1 request waits because the cloud refuses the token")
                    await expect(page.locator("#reasons q")).to_contain_text("token invalid")
                    await expect(headline).to_be_in_viewport(ratio=1)
                    await expect(page.locator("#reasons q").first).to_be_in_viewport(ratio=1)
                    assert "expired" not in await page.content()
                    await chromium.keep(page, name)
            proxy.app.forwarder.remove("waits")
            assert (await waiting).status == 503
    finally:
        await cloud.close()


async def test_nothing_is_shown_before_the_token_is_given(chromium: Chromium) -> None:
    async with (
        demo_node_processes(1) as nodes,
        proxy_here(list(nodes), counts_files=False, admin_token="letmein") as proxy,
        chromium.page(proxy.app.admin.port, strict=False) as page,
    ):
        await expect(page.get_by_label("Admin token")).to_be_focused()
        await expect(page.locator("#facts")).to_be_hidden()
        await page.keyboard.type("wrong")
        await page.keyboard.press("Enter")
        await expect(page.locator("#refused")).to_be_visible()
        await chromium.keep(page, "token-entry")
        await page.keyboard.type("letmein")
        await page.keyboard.press("Enter")
        await expect(page.locator("#headline")).to_have_text("All is well")
        await page.get_by_role("button", name="Hold: Scaling").click()
        await confirm(page)
        await expect(page.locator("#scaling .state")).to_contain_text("held, by alice")


async def test_it_says_that_it_is_stale_and_reconnects_by_itself(chromium: Chromium, tmp_path: Path) -> None:
    async with demo_node_processes(1) as nodes:
        proxy = ProxyProcess(tmp_path, provider={"kind": "static", "nodes": list(nodes)}, database_url=None)
        await proxy.start()
        try:
            async with chromium.page(proxy.admin_port, strict=False) as page:
                await expect(page.locator("#link")).to_have_text("live")
                await expect(page.locator("#nodes li")).to_have_count(1)
                await proxy.kill()
                await expect(page.locator("#link")).to_have_attribute("data-state", "lost")
                await expect(page.locator("body")).to_have_class("stale")
                await expect(page.locator("#link")).to_contain_text("no connection")
                await chromium.keep(page, "stale")
                await proxy.start()
                await expect(page.locator("#link")).to_have_text("live")
                await expect(page.locator("body")).not_to_have_class("stale")
        finally:
            await proxy.kill()


async def test_a_chart_is_read_with_the_keys(chromium: Chromium) -> None:
    async with (
        demo_node_processes(1) as nodes,
        proxy_here(list(nodes), counts_files=False) as proxy,
        chromium.page(proxy.app.admin.port) as page,
    ):
        chart = page.locator(".chart", has_text="Requests waiting")
        await expect(chart.locator("path.line")).to_be_attached()
        await chart.locator("svg").focus()
        await page.keyboard.press("ArrowLeft")
        await expect(chart.locator(".read")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d · 0"))
        await expect(chart.locator("svg")).to_have_attribute(
            "aria-label", re.compile("Requests waiting: now 0")
        )
        await page.get_by_role("button", name="24h").click()
        await expect(page.locator("#times_range")).to_have_text("24h")


LOOKS = [
    ("desktop-light", (1280, 900), "light", "en-US", "All is well"),
    ("desktop-dark-zh", (1280, 900), "dark", "zh-CN", "一切正常"),
    ("phone-light-zh", PHONE, "light", "zh-CN", "一切正常"),
    ("phone-dark", PHONE, "dark", "en-US", "All is well"),
]


async def test_it_fits_the_screen_in_both_languages_light_and_dark(chromium: Chromium) -> None:
    async with demo_node_processes(2) as nodes, proxy_here(list(nodes), counts_files=False) as proxy:
        for name, size, scheme, locale, headline in LOOKS:
            async with chromium.page(proxy.app.admin.port, size=size, scheme=scheme, locale=locale) as page:
                await expect(page.locator("#headline")).to_have_text(headline)
                await expect(page.locator("html")).to_have_attribute("lang", locale[:2])
                await expect(page.locator("#nodes li")).to_have_count(2)
                await page.locator("#config summary").click()
                await expect(page.locator("#keys")).to_contain_text("max_queue_length")
                assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
                heights = await page.evaluate(
                    "[...document.querySelectorAll('main button:not([hidden])')].map((one) => one.offsetHeight)"
                )
                assert min(heights) >= 28, f"{name}: too small to press"
                await chromium.keep(page, f"empty-{name}", whole=True)


async def test_jobs_are_counted_once_there_are_some(
    chromium: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.jobs.service._COUNT_SECS", 0.1)
    async with (
        demo_node_processes(1) as nodes,
        proxy_here(list(nodes), counts_files=False, database_url=f"sqlite:///{tmp_path}/jobs.db") as proxy,
        chromium.page(proxy.app.admin.port) as page,
    ):
        await expect(page.locator("#headline")).to_have_text("All is well")
        tile_of_jobs = page.locator("#tiles div", has_text="Open jobs")
        await expect(tile_of_jobs).to_have_count(0)
        job = await hand_in(proxy, "/job?work=0.5")
        await expect(tile_of_jobs).to_contain_text("0 done, 0 failed or unknown")
        await ended(proxy, job)
        await expect(tile_of_jobs).to_contain_text("1 done, 0 failed or unknown")
