"""The smallest node: answers everything with 200, its port and its process. Standard library only.

Arguments: PORT [JOURNAL [WORK_SECS]]. Each request but probes works so long, and adds its path as a line to JOURNAL.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

_given = sys.argv[1:] if __name__ == "__main__" else ["0"]
PORT = int(_given[0])
JOURNAL = _given[1] if len(_given) > 1 else None
WORK_SECS = float(_given[2]) if len(_given) > 2 else 0.0


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path != "/ready":
            if JOURNAL is not None:
                with open(JOURNAL, "a", encoding="utf-8") as journal:
                    journal.write(f"{self.path}\n")
            time.sleep(WORK_SECS)
        body = json.dumps({"port": PORT, "pid": os.getpid()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", PORT), _Handler).serve_forever()
