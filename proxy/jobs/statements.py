"""Every statement on the tables, once, for both databases.

Each is a transaction of its own and touches the row it is about, or at most `:limit` rows. A condition on
`lease` is what keeps two replicas apart: it counts changes of hands, so whoever has lost a job changes
nothing."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.jobs.job import LEASE_SECS, State
from proxy.jobs.schema import Statement

# All that `rows.job` reads.
JOB = """position, id, state, policy, method, target, request_id, client, idempotency_key, webhook_url, created_at,
    sent_at, finished_at, wait_ends_at, sends, node, outcome, error, owner, lease, request_size, result_status,
    result_size, purged_at"""
_REQUEST = "method, target, request_fields, request_trailers, request_size, request_data, request_key"
# The number alone tells whose it is; with the owner here too, a planner might read all that it owns.
_OURS = "id = :id AND lease = :lease AND finished_at IS NULL"
_END = """finished_at = {now}, request_data = NULL,
    webhook_due_at = CASE WHEN webhook_url IS NULL THEN NULL ELSE {now} END"""
_UNSENT_END = "outcome = CASE WHEN sends = 0 THEN 'not_sent' ELSE 'unknown' END, " + _END

INSERT = Statement(f"""
INSERT INTO fifo_jobs (
    id, state, policy, method, target, request_fields, request_trailers, request_size, request_data,
    request_key, request_id, client, idempotency_key, fingerprint, owner, lease, created_at, wait_ends_at,
    webhook_url
) VALUES (
    :id, 'queued', :policy, :method, :target, :request_fields, :request_trailers, :request_size,
    :request_data, :request_key, :request_id, :client, :idempotency_key, :fingerprint, :owner, 1, {{now}},
    {{now}} + :wait_limit_secs, :webhook_url
) ON CONFLICT (idempotency_key) DO NOTHING
RETURNING {JOB}
""")
JOIN = Statement(f"""
UPDATE fifo_jobs SET joins = joins + 1 WHERE idempotency_key = :key AND fingerprint = :fingerprint
RETURNING {JOB}
""")
BY_KEY = Statement(f"SELECT {JOB} FROM fifo_jobs WHERE idempotency_key = :key")
# After a commit whose end nobody saw: undone, unless somebody else was told of the job meanwhile.
WITHDRAW = Statement(
    "DELETE FROM fifo_jobs WHERE id = :id AND lease = 1 AND sends = 0 AND joins = 0 RETURNING id"
)
LET_GO = Statement(
    f"UPDATE fifo_jobs SET owner = NULL, lease = lease + 1 WHERE {_OURS} AND state = 'queued' RETURNING id"
)
CANCEL = Statement(
    f"UPDATE fifo_jobs SET state = 'cancelled', {_UNSENT_END} WHERE id = :id AND state = 'queued' RETURNING {JOB}"
)

CLAIM = Statement(f"""
WITH oldest AS MATERIALIZED (
    SELECT id FROM fifo_jobs
    WHERE owner IS NULL AND finished_at IS NULL AND (wait_ends_at IS NULL OR wait_ends_at > {{now}})
    ORDER BY position LIMIT :limit {{skip_locked}}
)
UPDATE fifo_jobs SET owner = :owner, lease = lease + 1, claim = :claim WHERE id IN (SELECT id FROM oldest)
RETURNING {JOB}, request_fields, request_trailers, request_data, request_key
""")
# What a claim gave of which its caller did not hear.
UNCLAIM = Statement("""
UPDATE fifo_jobs SET owner = NULL, lease = lease + 1
WHERE owner = :owner AND claim = :claim AND finished_at IS NULL AND state = 'queued'
""")
LOAD = Statement(f"SELECT {_REQUEST} FROM fifo_jobs WHERE id = :id AND finished_at IS NULL")
# Again with the same lease changes nothing: the caller may not have heard that it went through.
MARK_SENT = Statement(f"""
UPDATE fifo_jobs SET state = 'running', sent_at = {{now}}, node = :node,
    sends = sends + CASE WHEN state = 'queued' THEN 1 ELSE 0 END
WHERE {_OURS} AND (state = 'running' OR wait_ends_at IS NULL OR wait_ends_at > {{now}})
RETURNING id
""")
REQUEUE = Statement(f"""
UPDATE fifo_jobs SET state = 'queued', sends = sends - CASE WHEN state = 'running' THEN :uncounted ELSE 0 END
WHERE {_OURS} RETURNING id
""")
FINISH = Statement(f"""
UPDATE fifo_jobs SET state = :state, outcome = :outcome, error = :error, result_status = :result_status,
    result_fields = :result_fields, result_trailers = :result_trailers, result_size = :result_size,
    result_data = :result_data, result_key = :result_key, {_END}
WHERE {_OURS} RETURNING {JOB}
""")
BY_LEASE = Statement(f"SELECT {JOB} FROM fifo_jobs WHERE id = :id AND lease = :lease")

REPORT = Statement("""
INSERT INTO fifo_replicas (id, name, started_at, reported_at) VALUES (:id, :name, {now}, {now})
ON CONFLICT (id) DO UPDATE SET reported_at = {now}
""")
REPLACE = Statement("""
UPDATE fifo_replicas SET reported_at = 0
WHERE name = :name AND reported_at > 0 AND started_at < (SELECT started_at FROM fifo_replicas WHERE id = :id)
""")
REPORTED = Statement("SELECT id FROM fifo_replicas WHERE reported_at > {now} - :within_secs")
ABANDONED = Statement(f"""
SELECT id, owner, lease, state, policy, sends FROM fifo_jobs
WHERE finished_at IS NULL AND owner IS NOT NULL
    AND owner NOT IN (SELECT id FROM fifo_replicas WHERE reported_at > {{now}} - {LEASE_SECS})
ORDER BY position LIMIT :limit
""")
RECOVER_QUEUED = Statement(f"""
UPDATE fifo_jobs SET state = 'queued', owner = NULL, lease = lease + 1 WHERE {_OURS} AND state = :seen
RETURNING {JOB}
""")
RECOVER_ENDED = Statement(f"""
UPDATE fifo_jobs SET state = :state, lease = lease + 1, outcome = 'unknown', error = :error, {_END}
WHERE {_OURS} AND state = :seen RETURNING {JOB}
""")

GET = Statement(f"SELECT {JOB} FROM fifo_jobs WHERE id = :id")
RESULT = Statement("""
SELECT result_status, result_fields, result_trailers, result_size, result_data, result_key FROM fifo_jobs
WHERE id = :id AND result_status IS NOT NULL AND purged_at IS NULL
""")
PLACE = Statement("""
SELECT count(*) AS place FROM fifo_jobs
WHERE finished_at IS NULL AND state = 'queued' AND position <= (
    SELECT position FROM fifo_jobs WHERE id = :id AND state = 'queued'
)
""")
COUNTS = Statement("""
SELECT state, count(*) AS jobs, CAST(sum(
    CASE WHEN finished_at IS NULL THEN request_size ELSE coalesce(result_size, 0) END
) AS BIGINT) AS bytes
FROM fifo_jobs WHERE purged_at IS NULL GROUP BY state
""")

EXPIRE = Statement(f"""
WITH due AS MATERIALIZED (
    SELECT id FROM fifo_jobs
    WHERE finished_at IS NULL AND wait_ends_at IS NOT NULL AND wait_ends_at <= {{now}} AND state = 'queued'
    ORDER BY wait_ends_at LIMIT :limit {{skip_locked}}
)
UPDATE fifo_jobs SET state = 'expired', {_UNSENT_END} WHERE id IN (SELECT id FROM due) RETURNING {JOB}
""")
PURGEABLE = Statement("""
SELECT id, request_key, result_key FROM fifo_jobs
WHERE finished_at IS NOT NULL AND purged_at IS NULL AND finished_at <= {now} - :retention_secs
ORDER BY finished_at LIMIT :limit
""")
PURGE = Statement("""
UPDATE fifo_jobs SET purged_at = {now}, idempotency_key = NULL, fingerprint = NULL, request_key = NULL,
    request_fields = :nothing, request_trailers = :nothing, result_fields = NULL, result_trailers = NULL,
    result_data = NULL, result_key = NULL
WHERE id = :id AND purged_at IS NULL RETURNING id
""")
DELETE = Statement("""
DELETE FROM fifo_jobs WHERE id IN (
    SELECT id FROM fifo_jobs WHERE purged_at IS NOT NULL AND purged_at <= {now} - :retention_secs
    ORDER BY purged_at LIMIT :limit
) RETURNING id
""")
SPENT = Statement("""
SELECT id, request_key FROM fifo_jobs WHERE request_key IS NOT NULL AND finished_at IS NOT NULL LIMIT :limit
""")
FREE_REQUEST = Statement("UPDATE fifo_jobs SET request_key = NULL WHERE id = :id RETURNING id")
FORGET_REPLICAS = Statement("DELETE FROM fifo_replicas WHERE reported_at < {now} - 86400")

TAKE_WEBHOOKS = Statement(f"""
WITH due AS MATERIALIZED (
    SELECT id FROM fifo_jobs WHERE webhook_due_at IS NOT NULL AND webhook_due_at <= {{now}}
    ORDER BY webhook_due_at LIMIT :limit {{skip_locked}}
)
UPDATE fifo_jobs SET webhook_attempts = webhook_attempts + 1, webhook_due_at = {{now}} + :hold_secs
WHERE id IN (SELECT id FROM due) RETURNING {JOB}, webhook_attempts
""")
WEBHOOK_DONE = Statement("""
UPDATE fifo_jobs SET webhook_done_at = {now}, webhook_due_at = NULL, webhook_error = NULL WHERE id = :id
""")
WEBHOOK_FAILED = Statement("""
UPDATE fifo_jobs SET webhook_due_at = {now} + :retry_in_secs, webhook_error = :error
WHERE id = :id AND webhook_done_at IS NULL
""")

# Whether a row names this body.
NAMED = Statement("""
SELECT 1 FROM fifo_jobs WHERE request_key = :key UNION ALL SELECT 1 FROM fifo_jobs WHERE result_key = :key
""")
BODY_CHUNK = Statement("INSERT INTO fifo_chunks (key, number, data) VALUES (:key, :number, :data)")
BODY_STORED = Statement("""
INSERT INTO fifo_bodies (key, stored_at) VALUES (:key, {now}) ON CONFLICT (key) DO UPDATE SET stored_at = {now}
""")
BODY_READ = Statement(
    "SELECT data FROM fifo_chunks WHERE key = :key AND number BETWEEN :first AND :last ORDER BY number"
)
BODY_CUT = Statement("""
DELETE FROM fifo_chunks WHERE key = :key AND number IN (
    SELECT number FROM fifo_chunks WHERE key = :key ORDER BY number LIMIT :limit
) RETURNING number
""")
BODY_FORGET = Statement("DELETE FROM fifo_bodies WHERE key = :key")
BODY_ORPHANS = Statement("""
SELECT key FROM fifo_bodies WHERE stored_at < {now} - :age_secs
    AND NOT EXISTS (SELECT 1 FROM fifo_jobs WHERE request_key = key)
    AND NOT EXISTS (SELECT 1 FROM fifo_jobs WHERE result_key = key)
LIMIT :limit
""")


def search(conditions: Sequence[str], states: Sequence[State]) -> Statement:
    """Newest first, with all of the conditions, in one of the states (none: in any)."""
    names = ", ".join(f"'{state}'" for state in states)
    where = " AND ".join([*conditions, *([f"state IN ({names})"] if states else [])])
    return Statement(
        f"SELECT {JOB} FROM fifo_jobs WHERE {where or '1 = 1'} ORDER BY position DESC LIMIT :limit"
    )
