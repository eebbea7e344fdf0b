"""The statement that gives one waiting job to a pilot, in the form that each case needs and no more.

One statement, all or nothing: it picks a row that nobody else holds, removes it, and sets its job to ``sent`` where
that is still activated. A row whose job is not is removed without a job. Rows of ``waiting_jobs`` are never updated, so
that the place (``ctid``) of one that is locked stays what it is.
"""

from __future__ import annotations

from broker.store.connection.names import Names
from broker.store.writes.status_log import note_status

_PICKED = """
WITH picked AS MATERIALIZED (
    SELECT job.ctid AS place, job.pandaid, job.position FROM broker.waiting_jobs AS job
    WHERE job.task_queue = %(queue)s AND job.priority = %(priority)s AND job.position >= %(first)s"""
_ENOUGH_CPU_TIME = """
      AND job.cputime_s <= %(cputime_s)s"""
_MAPPED_POOL = """
      AND EXISTS (
            SELECT FROM broker.submit_pool_links AS link JOIN broker.submit_pools AS known ON known.number = link.pool
            WHERE link.queue = %(place)s AND known.pool_id = %(pool)s)"""
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
_FOUND = """
SELECT picked.pandaid, picked.position, sent.jeditaskid, sent.pandaid IS NOT NULL
FROM picked LEFT JOIN sent USING (pandaid)"""


def take_statement(names: Names, *, pooled: bool, timed: bool, numbered: bool, conditions: bool) -> str:
    """The statement for one case.

    Args:
        names: of the schemas.
        pooled: the jobs require a SubmitPool, to which the pilot's place must be mapped.
        timed: the jobs may need more CPU time than the pilot has.
        numbered: the request has a number, under which what it gets is noted.
        conditions: there are some on single jobs.
    """
    parts = (
        (True, _PICKED),
        (timed, _ENOUGH_CPU_TIME),
        (pooled, _MAPPED_POOL),
        (conditions, _CONDITIONS),
        (True, _SENT),
        (numbered, _NOTE_REQUEST),
        (pooled, _NOTE_USE),
        (True, _FOUND),
    )
    return names.sql("".join(text for is_part, text in parts if is_part))
