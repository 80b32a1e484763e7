"""`python -m proxy` is `fifo-proxy`."""

from __future__ import annotations

from proxy.cli import main

if __name__ == "__main__":
    main(prog_name="fifo-proxy")
