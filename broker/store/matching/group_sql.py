"""The statement that gives waiting jobs to several pilots at once: all or nothing, with one commit.

For each task queue and priority it picks as many rows as pilots were drawn for it, removes them, and sets their jobs to
``sent`` where these are still activated. ``$1`` to ``$17`` are the columns of what is asked, as arrays, and the time.
What it picked is handed on as arrays, so that the plan is the same whatever the server guesses of the number.
"""

from __future__ import annotations

from broker.store.connection.names import Names
from broker.store.writes.status_log import note_status

_PICKED = """
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[],
        $7::bigint[]) WITH ORDINALITY AS asked (queue, priority, first, jobs, cputime_s, pool, place, number)
), picked AS MATERIALIZED (
    SELECT asked.number, job.place, job.pandaid, job.position FROM asked CROSS JOIN LATERAL (
        SELECT waiting.ctid AS place, waiting.pandaid, waiting.position FROM broker.waiting_jobs AS waiting
        WHERE waiting.task_queue = asked.queue AND waiting.priority = asked.priority
          AND waiting.position >= asked.first AND waiting.cputime_s <= asked.cputime_s"""
_MAPPED_POOL = """
          AND (asked.pool IS NULL OR EXISTS (
            SELECT FROM broker.submit_pool_links AS link JOIN broker.submit_pools AS known ON known.number = link.pool
            WHERE link.queue = asked.place AND known.pool_id = asked.pool))"""
_SENT = """
        ORDER BY waiting.position LIMIT asked.jobs FOR UPDATE SKIP LOCKED) AS job
), gone AS (
    DELETE FROM broker.waiting_jobs WHERE ctid = ANY(ARRAY(SELECT place FROM picked))
), sent AS (
    UPDATE {panda}.jobsactive4 AS job
    SET jobstatus = 'sent', statechangetime = $8::timestamp, modificationtime = $8::timestamp
    WHERE job.pandaid = ANY(ARRAY(SELECT pandaid FROM picked)) AND job.jobstatus = 'activated'
    RETURNING job.pandaid, job.jeditaskid, job.jobstatus, job.prodsourcelabel, job.cloud, job.computingsite
), logged AS (NOTE_STATUS), given AS MATERIALIZED (
    SELECT picked.number, row_number() OVER (PARTITION BY picked.number ORDER BY picked.position) AS slot,
        sent.pandaid, sent.jeditaskid
    FROM picked JOIN sent USING (pandaid)
)""".replace("NOTE_STATUS", note_status("sent", "$8::timestamp"))
# In the order of their names, so that two groups with the same requests never wait for each other.
_NOTE_REQUESTS = """, noted AS (
    INSERT INTO broker.matched_requests
        (pilot, request_number, pandaid, jeditaskid, task_queue, panda_queue, pool, matched_at)
    SELECT request.pilot, request.request_number, given.pandaid, given.jeditaskid, asked.queue, request.panda_queue,
        asked.pool, $9::timestamptz
    FROM unnest($10::text[], $11::bigint[], $12::text[], $13::bigint[], $14::bigint[])
        AS request (pilot, request_number, panda_queue, number, slot)
    JOIN given USING (number, slot) JOIN asked USING (number)
    ORDER BY request.pilot, request.request_number
)"""
# Somebody else who notes the use of the same pools is not waited for: the time is his, too.
_NOTE_USE = """, used AS (
    UPDATE broker.submit_pools SET last_used_at = $9::timestamptz WHERE number IN (
        SELECT number FROM broker.submit_pools
        WHERE pool_id = ANY(ARRAY(SELECT pool FROM asked WHERE number IN (SELECT number FROM picked)))
          AND last_used_at < $15::timestamptz FOR NO KEY UPDATE SKIP LOCKED)
)"""
_FOUND = """
SELECT picked.number, given.slot, picked.pandaid, given.jeditaskid, picked.position
FROM picked LEFT JOIN given USING (number, pandaid)"""


def group_statement(names: Names, *, pooled: bool) -> str:
    """The statement; rows of number of what was asked, slot, job, task and position.

    Args:
        names: of the schemas.
        pooled: some of the jobs require a SubmitPool, to which the place of their pilot must be mapped.
    """
    parts = (_PICKED, _MAPPED_POOL if pooled else "", _SENT, _NOTE_REQUESTS, _NOTE_USE if pooled else "", _FOUND)
    return names.sql("".join(parts))
