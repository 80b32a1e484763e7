"""A node in a process of its own that proves what it got: its answer is made of the request's body.

    python -m tests.fakes.hashing_node JOURNAL WORK_SECS

It prints its port. Each request but probes adds its path as a line to JOURNAL before it works, one at a time.
"""

from __future__ import annotations

import hashlib
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

_REPEATS = (1, 100, 5000)  # answers of 32 bytes, of one row, and of a file


def answer_to(body: bytes) -> bytes:
    return hashlib.sha256(body).digest() * _REPEATS[len(body) % len(_REPEATS)]


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(b"ready")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open(sys.argv[1], "a", encoding="utf-8") as journal:
            journal.write(f"{self.path}\n")
        time.sleep(float(sys.argv[2]))
        self._answer(answer_to(body))

    def _answer(self, body: bytes) -> None:
        try:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True  # whoever asked was killed

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(HTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


if __name__ == "__main__":
    server = _Server(("127.0.0.1", 0), _Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
