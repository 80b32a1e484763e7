"""The jobs' store, in-process (see `benchmarks.jobs_store`). Its peers are no proxies: they are measured inside it,
on the same PostgreSQL, where they are installed (pip install procrastinate pgqueuer)."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.scenario import Figure, Goal, Sample, Scenario
from benchmarks.targets import Target

_CASE = "2,000 jobs"
_QUICK_CASE = "200 jobs"


def measure(bench: Bench, target: Target, case: str) -> Sample:
    jobs = 2000 if case == _CASE else 200
    return Sample(bench.run("benchmarks.jobs_store", jobs))


SCENARIO = Scenario(
    name="jobs",
    title="Durable jobs",
    figures=(
        Figure("accept_sqlite", "accepted, SQLite", "jobs/s"),
        Figure("accept_postgres", "accepted, PostgreSQL", "jobs/s"),
        Figure("run_sqlite", "handed in and run, SQLite", "jobs/s"),
        Figure("run_postgres", "handed in and run, PostgreSQL", "jobs/s"),
        Figure("run_procrastinate", "the same by Procrastinate", "jobs/s"),
        Figure("run_pgqueuer", "the same by PgQueuer", "jobs/s"),
        Figure("over_procrastinate", "ours / Procrastinate", digits=2),
        Figure("over_pgqueuer", "ours / PgQueuer", digits=2),
        Figure("run_pgqueuer_bulk", "by PgQueuer, a hundred handed in with each call", "jobs/s"),
        Figure("over_pgqueuer_bulk", "ours / that", digits=2),
    ),
    cases=(_CASE,),
    quick_cases=(_QUICK_CASE,),
    peers=(),
    goals=(
        Goal("accept_sqlite", _CASE, 1000, at_least=True),
        Goal("accept_postgres", _CASE, 1000, at_least=True),
        Goal("over_procrastinate", _CASE, 1.0, at_least=True),
        Goal("over_pgqueuer", _CASE, 1.0, at_least=True),
    ),
    measure=measure,
)
