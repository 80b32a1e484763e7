"""`python -m tests.fuzz --count 1000000 [--seed N] [--jobs N]`: tells the seeds that fail, and how; exit 1 if any."""

from __future__ import annotations

import faulthandler
import gc
import sys
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from time import monotonic

import click

from tests.fuzz.run import run

_BATCH = 10_000
_HANG_SECS = 300  # a batch takes seconds


def run_batch(first: int, count: int) -> list[tuple[int, str]]:
    """The seeds that fail, and how. A file that is never closed is a failure of the batch."""
    warnings.simplefilter("error")
    leaks: list[str] = []
    sys.unraisablehook = lambda what: leaks.append(repr(what.exc_value))
    faulthandler.dump_traceback_later(_HANG_SECS, exit=True)
    failures: list[tuple[int, str]] = []
    for seed in range(first, first + count):
        try:
            run(seed)
        except Exception:  # noqa: BLE001
            failures.append((seed, traceback.format_exc()))
    gc.collect()
    faulthandler.cancel_dump_traceback_later()
    sys.unraisablehook = sys.__unraisablehook__
    return failures + [(first, leak) for leak in leaks]


@click.command()
@click.option("--count", default=1_000_000, show_default=True)
@click.option("--seed", default=0, show_default=True, help="The first one.")
@click.option("--jobs", default=1, show_default=True)
def main(count: int, seed: int, jobs: int) -> None:
    began = monotonic()
    firsts = range(seed, seed + count, _BATCH)
    sizes = [min(_BATCH, seed + count - first) for first in firsts]
    failed = 0
    with ProcessPoolExecutor(jobs) as pool:
        for failures in pool.map(run_batch, firsts, sizes):
            failed += len(failures)
            for number, why in failures[:3]:
                click.echo(f"seed {number}:\n{why}")
    click.echo(f"{count} inputs, {failed} failures, {monotonic() - began:.1f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
