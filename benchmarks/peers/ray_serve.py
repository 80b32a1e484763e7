"""Ray Serve as its users would have it: each node is a replica that takes one request at a time, and works
itself.

    python -m benchmarks.peers.ray_serve PORT REPLICAS LOAD_CORES DIRECTORY

Replicas move to the load's cores, as nodes do; Serve's proxy and Ray's daemons stay on the proxy's core. That
is generous: no second connection is made for a request. So the nodes' own counts say nothing of it.
A machine of two cores is far below what Ray is made for: with many replicas its figure is of little worth.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response


class Node:
    """Answers as benchmarks.node does: `?work=MS`, `?bytes=N`."""

    def __init__(self, cores: list[int]) -> None:
        os.sched_setaffinity(0, cores)

    async def __call__(self, request: Request) -> Response:
        work_ms = float(request.query_params.get("work", "0"))
        if work_ms:
            await asyncio.sleep(work_ms / 1000)
        return Response(bytes(int(request.query_params.get("bytes", "0"))))


def main(port: int, replicas: int, cores: list[int], directory: str) -> None:
    ray.init(_temp_dir=directory, include_dashboard=False, log_to_driver=False, configure_logging=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port, "location": "HeadOnly"})
    as_deployment = serve.deployment(
        num_replicas=replicas, max_ongoing_requests=1, ray_actor_options={"num_cpus": 0}
    )
    serve.run(as_deployment(Node).bind(cores))
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    ray.shutdown()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main(int(sys.argv[1]), int(sys.argv[2]), [int(core) for core in sys.argv[3].split(",")], sys.argv[4])
