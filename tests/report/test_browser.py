"""The page in a real browser, opened from its file."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from proxy.cli import main
from tests.report.test_page import Page

TRACE = Path(__file__).parents[2] / "examples" / "trace.csv"
# What a pointer in the middle of each picture of a run shows, done before the browser prints the page.
POINT = """<script>
for (const picture of document.querySelectorAll(".timeline")) {
  const box = picture.getBoundingClientRect();
  const at = {clientX: box.left + box.width / 2, clientY: box.top + 50, bubbles: true};
  picture.dispatchEvent(new PointerEvent("pointermove", at));
}
</script>
"""

pytestmark = pytest.mark.browser


def dump(page: Path, profile: Path) -> Page:
    """The page as the browser has it after its scripts have run; nothing may have been said on the console."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run(
        ["chromium", *options, f"--user-data-dir={profile}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert not re.findall(r".*CONSOLE.*", done.stderr)
    return Page(done.stdout)


def test_a_run_can_be_read_under_the_pointer(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    result = CliRunner().invoke(main, ["simulate", str(TRACE), "--set", "max_nodes=6", "--report", str(path)])
    assert result.exit_code == 0, result.output
    path.write_text(path.read_text() + POINT)
    page = dump(path, tmp_path / "profile")
    line, nodes, waits = page.data()
    shown = iter(page.texts["output"])
    for figure in (line, nodes, waits):
        place = int(figure["span"] / 2 / figure["step"])
        for values in figure["values"]:
            value = values[place]
            told = "–" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")
            assert next(shown) in {told, f"{told} s"}
    assert [text for text in page.texts["li"] if text.startswith("from ")] == ["from 02:14:00"] * 3


def test_a_console_message_would_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<!doctype html><title>x</title><script>undefined_name</script>")
    with pytest.raises(AssertionError, match="undefined_name"):
        dump(path, tmp_path / "profile")


def test_a_sweep_opens_without_a_word_on_the_console(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    result = CliRunner().invoke(
        main, ["simulate", str(TRACE), "--sweep", "max_nodes=3,6", "--report", str(path)]
    )
    assert result.exit_code == 0, result.output
    page = dump(path, tmp_path / "profile")
    assert sum(tag == "circle" for tag, _ in page.attributes) == 2
