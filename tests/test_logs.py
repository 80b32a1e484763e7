from __future__ import annotations

import json
import logging
import re
import sys
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


def log_something(log_format: Literal["text", "json"], message: str, fields: dict[str, object]) -> None:
    logs.setup(log_format, "info")
    logging.getLogger("proxy.test").info(message, extra={"fields": fields})


def test_a_text_line(capsys: Capture) -> None:
    log_something("text", "request ended", {"status": 200, "waited_secs": 1.23456, "path": "/a b", "id": ""})
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(
        TIME + r' INFO    proxy\.test: request ended status=200 waited_secs=1\.235 path="/a b" id=""\n', err
    )


def test_a_line_without_fields(capsys: Capture) -> None:
    logs.setup("text", "info")
    logging.getLogger("proxy.test").warning("%d nodes", 3)
    assert re.fullmatch(TIME + r" WARNING proxy\.test: 3 nodes\n", capsys.readouterr().err)


def test_text_from_outside_cannot_forge_a_line(capsys: Capture) -> None:
    log_something("text", "bad\n2026 forged \x1b[31m 队列", {"path": "x\ny=1", "name": "节点"})
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.endswith('bad\\n2026 forged \\x1b[31m 队列 path="x\\ny=1" name=节点\n')


def test_a_json_line(capsys: Capture) -> None:
    log_something("json", "request\nended", {"status": 200, "level": "forged", "error": ValueError("no")})
    err = capsys.readouterr().err
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
    err = capsys.readouterr().err
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
    assert capsys.readouterr().err.splitlines()[0].endswith("DEBUG   proxy.test: ours")
    logs.setup("text", "error")
    logging.getLogger("httpx").warning("theirs")
    logging.getLogger("proxy.test").warning("ours")
    assert capsys.readouterr().err == ""


def test_setting_up_again_replaces_the_handler(capsys: Capture) -> None:
    logs.setup("text", "info")
    logs.setup("json", "info")
    handlers = logging.getLogger().handlers
    assert [type(handler.formatter) for handler in handlers] == [logs.JsonFormatter]
    assert isinstance(handlers[0], logging.StreamHandler)
    assert handlers[0].stream is sys.stderr
