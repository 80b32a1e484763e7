"""One per local node: starts the node's command and sees that it never outlives the proxy.

Run by path with `python -I -S`, so it must import nothing but the standard library, and little of that.

    proxy --(socket, our stdin)-- guard --- node (a process group of its own)

- "started <pid>" or "failed <why>" is the one line we write.
- The socket's end is the one order we take. The proxy ends it to stop the node, the kernel when the proxy
  dies, however it dies. Then: TERM to the node's group, and after the grace KILL.
- When the node exits, what is left of its group is killed, and we exit with its code (128 + signal).
- When we are killed ourselves, Linux kills the node (PR_SET_PDEATHSIG) and the proxy, which knows its pid,
  what is left of its group.

The node gets no signal from the terminal (we lead a session), so that Ctrl-C lets the proxy drain first.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def main(grace_secs: float, command: list[str]) -> int:
    """Run `command` until it exits or our stdin ends; the node's exit code, 127 where it cannot start."""
    wake_in, wake_out = os.pipe()
    os.set_blocking(wake_out, False)
    signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _ignore)
    stops: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: stops.append(received))
    try:
        node = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=_arrange_death(os.getpid())
        )
    except (OSError, ValueError) as error:
        os.write(0, f"failed {error}\n".encode())
        return 127
    with contextlib.suppress(BrokenPipeError):  # the proxy has gone meanwhile: the loop below sees it too
        os.write(0, f"started {node.pid}\n".encode())
    while node.poll() is None and not stops:
        readable = select.select([0, wake_in], [], [])[0]
        if wake_in in readable:
            os.read(wake_in, 64)
        if 0 in readable:
            break
    if node.poll() is None:
        _signal_group(node.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_secs
        while node.poll() is None and (left := deadline - time.monotonic()) > 0:
            if select.select([wake_in], [], [], left)[0]:
                os.read(wake_in, 64)
    _signal_group(node.pid, signal.SIGKILL)
    code = node.wait()
    return code if code >= 0 else 128 - code


def _arrange_death(guard: int) -> Callable[[], None] | None:
    """What the child runs between fork and exec: die with the guard. Safe, since the guard has one thread."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def die_with_guard() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != guard:  # it died before the call: no signal will come
            os._exit(1)

    return die_with_guard


def _signal_group(group: int, number: int) -> None:
    # PermissionError: what macOS says of a group whose members are all zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _ignore(_number: int, _frame: object) -> None:
    """SIGCHLD needs a handler, or it would not write to the wake-up pipe."""


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
