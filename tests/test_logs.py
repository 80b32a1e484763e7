from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Literal

import pytest

from proxy import logs

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """pytest's own handlers are put back, and the levels of the quiet ones."""
    root = logging.getLogger()
    quiet = [logging.getLogger(name) for name in ("httpx", "httpcore", "aiohttp", "asyncio")]
    handlers, levels = root.handlers[:], [(logger, logger.level) for logger in (root, *quiet)]
    root.handlers[:] = []  # Else set-up would close pytest's.
    yield
    root.handlers[:] = handlers
    for logger, level in levels:
        logger.setLevel(level)


def written(capsys: Capture) -> str:
    """What is on stderr once the thread has written all; nothing ever is on stdout."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    out, err = capsys.readouterr()
    assert out == ""
    return err


def log_something(log_format: Literal["text", "json"], message: str, fields: dict[str, object]) -> None:
    logs.setup(log_format, "info")
    logging.getLogger("proxy.test").info(message, extra={"fields": fields})


def test_a_text_line(capsys: Capture) -> None:
    log_something("text", "request ended", {"status": 200, "waited_secs": 1.23456, "path": "/a b", "id": ""})
    err = written(capsys)
    assert re.fullmatch(
        TIME + r' INFO    proxy\.test: request ended status=200 waited_secs=1\.235 path="/a b" id=""\n', err
    )


def test_a_line_without_fields(capsys: Capture) -> None:
    logs.setup("text", "info")
    logging.getLogger("proxy.test").warning("%d nodes", 3)
    assert re.fullmatch(TIME + r" WARNING proxy\.test: 3 nodes\n", written(capsys))


def test_text_from_outside_cannot_forge_a_line(capsys: Capture) -> None:
    log_something("text", "bad\n2026 forged \x1b[31m 队列", {"path": "x\ny=1", "name": "节点"})
    err = written(capsys)
    assert err.count("\n") == 1
    assert err.endswith('bad\\n2026 forged \\x1b[31m 队列 path="x\\ny=1" name=节点\n')


def test_a_json_line(capsys: Capture) -> None:
    log_something("json", "request\nended", {"status": 200, "level": "forged", "error": ValueError("no")})
    err = written(capsys)
    assert err.count("\n") == 1
    told = json.loads(err)
    assert re.fullmatch(TIME, told.pop("time"))
    assert told == {
        "level": "info",
        "logger": "proxy.test",
        "message": "request\nended",
        "status": 200,
        "error": "no",
    }


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_exceptions_are_told_with_their_traceback(
    log_format: Literal["text", "json"], capsys: Capture
) -> None:
    logs.setup(log_format, "info")
    try:
        raise RuntimeError("it broke")
    except RuntimeError:
        logging.getLogger("proxy.test").exception("failed", stack_info=True, extra={"fields": {"node": 1}})
    err = written(capsys)
    if log_format == "json":
        told = json.loads(err)
        assert told["node"] == 1
        err = told["exception"]
    else:
        assert "failed node=1\nTraceback" in err
    assert "RuntimeError: it broke" in err
    assert "Stack (most recent call last)" in err


def test_levels_and_no_noise_of_others(capsys: Capture) -> None:
    logs.setup("text", "debug")
    logging.getLogger("httpx").info("GET https://cloud.example/?token=secret")
    logging.getLogger("httpcore.http11").debug("headers: secret")
    logging.getLogger("proxy.test").debug("ours")
    assert written(capsys).splitlines()[0].endswith("DEBUG   proxy.test: ours")
    logs.setup("text", "error")
    logging.getLogger("httpx").warning("theirs")
    logging.getLogger("proxy.test").warning("ours")
    assert written(capsys) == ""


def test_setting_up_again_replaces_the_handler(capsys: Capture) -> None:
    logs.setup("text", "info")
    logs.setup("json", "info")
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler, logs.Writer)
    assert isinstance(handler.stream, logging.StreamHandler)
    assert isinstance(handler.stream.formatter, logs.JsonFormatter)
    assert handler.stream.stream is sys.stderr


class Stuck(logging.Handler):
    """As a pipe that nobody reads, until it is `freed`."""

    def __init__(self) -> None:
        super().__init__()
        self.freed = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        assert self.freed.wait(20)
        self.lines.append(record.getMessage())


def test_a_reader_that_is_stuck_delays_nobody_and_what_is_missing_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "_MAX_WAITING", 4)
    monkeypatch.setattr(logs, "_LAST_WORDS_SECS", 0.01)
    stuck = Stuck()
    writer = logs.Writer(stuck)

    def log(text: str) -> None:
        writer.handle(logging.LogRecord("x", logging.INFO, "", 0, text, None, None))

    log("0")
    while not writer._records.empty():  # until the thread has taken it
        threading.Event().wait(0.001)
    for number in range(1, 8):
        log(str(number))
    writer.flush()  # gives up
    stuck.freed.set()
    monkeypatch.setattr(logs, "_LAST_WORDS_SECS", 20)
    writer.flush()
    assert stuck.lines == ["0", "1", "2", "3", "4"]
    log("8")
    writer.close()
    assert stuck.lines[5:] == ["3 lines are missing here: nobody took them in time", "8"]


def test_a_process_ends_although_nobody_reads_its_lines() -> None:
    """The log's thread is stuck in a full pipe, and the end of Python asks for each handler and flushes stderr."""
    program = (
        "import logging\n"
        "from proxy import logs\n"
        "logs.setup('text', 'info')\n"
        "for _ in range(100): logging.info('x' * 4096)\n"
    )
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen([sys.executable, "-c", program], stderr=writer)
        try:
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(reader)
        os.close(writer)
