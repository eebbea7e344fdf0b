"""The statement that takes one job of a task queue and a priority for a pilot."""

from __future__ import annotations

from broker.store.connection.tables import Names
from broker.store.writes.job_row_sql import note_status

_LEASE = """
WITH leased AS MATERIALIZED (
    SELECT id FROM broker.limit_leases WHERE id = %(lease)s FOR KEY SHARE
), picked AS MATERIALIZED ("""
_WITHOUT_LEASE = """
WITH picked AS MATERIALIZED ("""
_PICKED = """
    SELECT job.ctid AS place, job.pandaid, job.position FROM broker.waiting_jobs AS job
    WHERE job.task_queue = %(queue)s AND job.priority = %(priority)s AND job.position >= %(first)s"""
# Without a limit there is no lease, and with one it is held until the commit.
_NO_LIMIT = """
      AND NOT EXISTS (SELECT FROM broker.running_limits AS known
                      WHERE known.site = %(limit_site)s AND known.job_type = %(job_type)s)"""
_LEASED = """
      AND EXISTS (SELECT FROM leased)"""
_ENOUGH_CPU_TIME = """
      AND job.cputime_s <= %(cputime_s)s"""
_MAPPED_POOL = """
      AND EXISTS (
            SELECT FROM broker.submit_pool_links AS link JOIN broker.submit_pools AS known ON known.number = link.pool
            WHERE link.queue = %(place)s AND known.pool_id = %(pool)s)"""
# Looked up by key for each row that is checked, never as a join, for which the server might sort all rows; see
# broker/pilots/statements/held_jobs.py.
_NOT_HELD = """
      AND (SELECT held.pandaid FROM broker.held_jobs AS held
           WHERE held.pandaid = job.pandaid AND held.node = %(host)s AND held.held_until > %(aware_now)s) IS NULL"""
# A row whose job is gone passes, so that it is removed.
_CONDITIONS = """
      AND NOT EXISTS (
    SELECT FROM {panda}.jobsactive4 AS active WHERE active.pandaid = job.pandaid AND (
        %(labels)s::text[] IS NOT NULL AND active.prodsourcelabel <> ALL(%(labels)s)
            AND (%(processing_type)s::text IS NULL OR active.processingtype IS DISTINCT FROM %(processing_type)s)
        OR coalesce(active.job_label, active.prodsourcelabel) <> ALL(%(job_labels)s::text[])
        OR active.minramcount > nullif(%(memory_mb)s::bigint, 0)
        OR active.maxdiskcount > nullif(%(disk_mb)s::bigint, 0)
        OR active.maxwalltime > nullif(%(walltime_s)s::bigint, 0)
        OR active.jeditaskid IS DISTINCT FROM coalesce(%(task)s::bigint, active.jeditaskid)
        OR active.produserid IS DISTINCT FROM coalesce(%(user)s::text, active.produserid)))"""
_SENT = """
    ORDER BY job.position LIMIT 1 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM broker.waiting_jobs AS job USING picked WHERE job.ctid = picked.place
), sent AS (
    UPDATE {panda}.jobsactive4 AS job
    SET jobstatus = 'sent', statechangetime = %(now)s, modificationtime = %(now)s
    FROM picked WHERE job.pandaid = picked.pandaid AND job.jobstatus = 'activated'
    RETURNING job.pandaid, job.jeditaskid, job.jobstatus, job.prodsourcelabel, job.cloud, job.computingsite
), logged AS (NOTE_STATUS)""".replace("NOTE_STATUS", note_status("sent", "%(now)s"))
_NOTE_REQUEST = """, noted AS (
    INSERT INTO broker.matched_requests
        (pilot, request_number, pandaid, jeditaskid, task_queue, panda_queue, pool, matched_at)
    SELECT %(pilot)s::text, %(request_number)s::bigint, sent.pandaid, sent.jeditaskid, %(queue)s::bigint,
        %(panda_queue)s::text, %(pool)s::text, %(aware_now)s::timestamptz
    FROM sent
)"""
_NOTE_USE = """, used AS (
    UPDATE broker.submit_pools SET last_used_at = %(aware_now)s
    WHERE pool_id = %(pool)s AND last_used_at < %(noted_before)s AND EXISTS (SELECT FROM picked)
)"""
_RESULT = """
SELECT picked.pandaid, picked.position, sent.jeditaskid, sent.pandaid IS NOT NULL
FROM picked LEFT JOIN sent USING (pandaid)"""


def take_statement(
    names: Names, *, pooled: bool, timed: bool, numbered: bool, conditions: bool, limited: bool, hosted: bool
) -> str:
    """Return the statement for one case.

    Args:
        names: names of the schemas.
        pooled: the jobs require a SubmitPool, to which the pilot's place must be mapped.
        timed: the jobs may need more CPU time than the pilot has.
        numbered: the request has a number, under which its job is recorded.
        conditions: there are conditions on single jobs.
        limited: a limit holds for the jobs, of which the pilot has a token.
        hosted: the pilot names its node, from which jobs may be held.
    """
    parts = (
        (True, _LEASE if limited else _WITHOUT_LEASE),
        (True, _PICKED),
        (True, _LEASED if limited else _NO_LIMIT),
        (timed, _ENOUGH_CPU_TIME),
        (pooled, _MAPPED_POOL),
        (hosted, _NOT_HELD),
        (conditions, _CONDITIONS),
        (True, _SENT),
        (numbered, _NOTE_REQUEST),
        (pooled, _NOTE_USE),
        (True, _RESULT),
    )
    return names.sql("".join(text for is_part, text in parts if is_part))
