"""The compiled build: `FIFO_PROXY_COMPILE=1 pip install .` makes C of the modules that every request runs through.

The same sources, by mypyc, with a C compiler and Python's headers; everything else, and every install without the
variable, stays Python. What it brings: see "How fast" in README.md. `pyproject.toml` has all the rest.
"""

from __future__ import annotations

import os
import sys

from setuptools import setup

# What is touched for each request and for each piece of a body; what runs a few times a second gains nothing.
# A compiled class has compiled subclasses only, unless it says otherwise.
HOT = (
    "proxy/dispatch/dispatcher.py",
    "proxy/dispatch/lease.py",
    "proxy/dispatch/line.py",
    "proxy/dispatch/nodes.py",
    "proxy/exchange.py",
    "proxy/forwarder.py",
    "proxy/holder.py",
    "proxy/http/answer.py",
    "proxy/http/backlog.py",
    "proxy/http/client_stream.py",
    "proxy/http/direct_write.py",
    "proxy/http/listener.py",
    "proxy/http/message.py",
    "proxy/http/node_link.py",
    "proxy/http/peer.py",
    "proxy/http/request_reader.py",
    "proxy/http/response.py",
    "proxy/http/response_reader.py",
    "proxy/http/spool.py",
    "proxy/http/tunnel.py",
    "proxy/jobs/run.py",
    "proxy/stats.py",
)
# Another mypyc makes other C: a new one has to pass `scripts/test-compiled` first.
COMPILER = "mypy[mypyc]>=2.4,<2.5"

is_wanted = os.environ.get("FIFO_PROXY_COMPILE") == "1"
extensions = []
if is_wanted and {"bdist_wheel", "build_ext"} & set(sys.argv):  # before that pip only asks what is needed
    from mypyc.build import mypycify

    options = [
        "--config-file=",
        "--ignore-missing-imports",
    ]  # types are checked elsewhere, with all packages there
    extensions = mypycify([*options, *HOT], opt_level="3", debug_level="0", group_name="fifo_proxy")

setup(ext_modules=extensions, setup_requires=[COMPILER] if is_wanted else [])
