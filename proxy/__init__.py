"""FIFO Proxy: one line of requests before nodes that serve one at a time. The map.

The way of a request, `app` having introduced all of these to each other:

    client -> http.listener -> forwarder -> exchange -> dispatch.dispatcher (line + nodes) -> http.node_link -> node
    client <- http.client_stream <- http.answer <- exchange <---------------------------------------------------'
                                                     '-> records -> request_log, logs, tracing

The way of a job: the same line, with the store for a client.

    client -> http.listener -> forwarder -> jobs.intake -> jobs.store (durable; 202) -> jobs.run (an exchange) -> ...
    client <- jobs.pages <- jobs.store <- jobs.runner <- jobs.run;  jobs.webhooks -> the client's server

The way of a node:

    tick or poke -> scaling.loop -> look -> scaling.rules | target_wait -> scaling.fleet -> providers.* -> starting
    probe -> dispatcher.ready -> pairing

What shows all that: admin.* (page, status, metrics, health, orders). What tries it in virtual time, with the same line
and rules: scaling.simulate, by `simulate` (what_if, report) and `tune`.
"""

from importlib.util import find_spec

__version__ = "1.0.0"


def build_kind() -> str:
    """`compiled` where the hot path was installed as C (setup.py), else `pure`."""
    spec = find_spec("proxy.exchange")
    return "pure" if spec is None or str(spec.origin).endswith(".py") else "compiled"
