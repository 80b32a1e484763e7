"""Debian's Chromium, looking at the page of a real proxy.

Always: a page that is opened here has had no console error and no request to another origin when its test is over.
Screenshots are kept in `$FIFO_PROXY_SCREENSHOTS`, by default `.artifacts/screenshots`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.fakes.programs import program

ROOT = Path(__file__).parents[2]
expect.set_options(timeout=20_000)
DESKTOP, PHONE = (1280, 900), (375, 812)


class Chromium:
    """`page` opens a page with a fresh profile."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._folder = Path(os.environ.get("FIFO_PROXY_SCREENSHOTS") or ROOT / ".artifacts" / "screenshots")

    @asynccontextmanager
    async def page(
        self,
        port: int,
        *,
        size: tuple[int, int] = DESKTOP,
        scheme: Any = "light",
        locale: str = "en-US",
        strict: bool = True,
    ) -> AsyncIterator[Page]:
        """The dashboard on this admin port. Without `strict` the console may tell of failed requests."""
        width, height = size
        context = await self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            locale=locale,
            reduced_motion="reduce",
        )
        origin = f"http://127.0.0.1:{port}/"
        faults: list[str] = []
        asked: list[str] = []
        page = await context.new_page()
        page.set_default_timeout(20_000)
        page.on(
            "console", lambda told: faults.append(told.text) if told.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        try:
            await page.goto(origin)
            yield page
        finally:
            await context.close()
        assert not [url for url in asked if not url.startswith((origin, "data:"))]
        if not strict:
            faults = [fault for fault in faults if not fault.startswith("Failed to load resource")]
        assert not faults

    async def keep(self, page: Page, name: str, *, whole: bool = False) -> None:
        """A screenshot under this name."""
        self._folder.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=self._folder / f"{name}.png", full_page=whole)


@pytest.fixture
async def chromium(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Chromium]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of the nodes
    monkeypatch.setenv("NO_PROXY", "*")
    flags = (
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
    )
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=program("chromium"), args=["--no-sandbox", *(f"--{flag}" for flag in flags)]
        )
        yield Chromium(browser)
        await browser.close()
