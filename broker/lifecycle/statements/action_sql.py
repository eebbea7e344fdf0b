"""The statements that end jobs. ``{panda}`` and ``{broker}`` stand for the schemas.

Those for their files: :mod:`broker.lifecycle.statements.ended_files_sql`.

What is staged names the state in which a job was seen; only a job that is still in it is ended. Source: PanDA server,
killing of jobs, verdicts of the watcher and propagation of results; PanDA data model, datasets and files, jobs.
"""

from __future__ import annotations

from broker.store.writes.status_log import note_status

STAGE = """
CREATE TEMPORARY TABLE IF NOT EXISTS staged_moves (
    pandaid bigint, in_table text, old_status text, seen timestamp, queue text, jeditaskid bigint, new_status text,
    substatus text, is_kill boolean, is_told boolean, error text, error_code integer, diag text, rule text, action text,
    code integer, value_s double precision, limit_s double precision, detail jsonb, taken boolean NOT NULL DEFAULT false
) ON COMMIT DROP;
TRUNCATE staged_moves;
SET LOCAL work_mem = '64MB';
SET LOCAL default_statistics_target = 10
"""

COPY = """
COPY staged_moves (pandaid, in_table, old_status, seen, queue, jeditaskid, new_status, substatus, is_kill, is_told,
    error, error_code, diag, rule, action, code, value_s, limit_s, detail) FROM STDIN
"""

# The brokerages lock a task before they touch its files, and leave a task alone that somebody else has locked. So does
# this: whoever has a task has its files and counters too, and nobody waits for anybody. Jobs of other tasks are left
# out; they are judged again in the next cycle.
LOCK_TASKS = """
WITH locked AS MATERIALIZED (
    SELECT jeditaskid FROM {panda}.jedi_tasks WHERE jeditaskid = ANY(%(tasks)s)
    ORDER BY jeditaskid FOR NO KEY UPDATE SKIP LOCKED
)
DELETE FROM staged_moves AS move
WHERE move.jeditaskid IN (SELECT jeditaskid FROM {panda}.jedi_tasks WHERE jeditaskid = ANY(%(tasks)s))
  AND move.jeditaskid NOT IN (SELECT jeditaskid FROM locked)
"""

# {source} is the table the job is in. A job that somebody else is writing to, that has been heard of since, or that is
# archived already is skipped; so is one of the event service, unless its own pilot says that it has ended.
TAKE = """
WITH free AS (
    SELECT job.pandaid
    FROM {panda}.{source} AS job JOIN staged_moves AS move ON move.pandaid = job.pandaid
    WHERE move.in_table = '{source}' AND job.jobstatus = move.old_status
      AND job.modificationtime IS NOT DISTINCT FROM move.seen
      AND job.computingsite IS NOT DISTINCT FROM move.queue
      AND job.jeditaskid IS NOT DISTINCT FROM move.jeditaskid
      AND (move.error = 'reported' OR (coalesce(job.eventservice, 0) = 0
           AND job.specialhandling ~ '(^|,)(eventservice|esmerge)(,|$)' IS NOT TRUE))
      AND NOT EXISTS (SELECT 1 FROM {panda}.jobsarchived4 AS archived WHERE archived.pandaid = job.pandaid)
    ORDER BY job.pandaid
    FOR UPDATE OF job SKIP LOCKED
)
UPDATE staged_moves AS move SET taken = true FROM free
WHERE move.pandaid = free.pandaid AND move.in_table = '{source}'
"""

# The pilot is told with its next heartbeat; until then the job keeps its row, its files and its time of last change.
TELL = """
UPDATE {panda}.{source} AS job SET commandtopilot = 'tobekilled', taskbuffererrordiag = move.diag
FROM staged_moves AS move
WHERE move.taken AND move.is_told AND move.in_table = '{source}' AND job.pandaid = move.pandaid
"""

# {columns} are those that both tables have, {values} what becomes of them.
ARCHIVE = """
WITH gone AS (
    DELETE FROM {panda}.{source} AS job USING staged_moves AS move
    WHERE move.taken AND NOT move.is_told AND move.in_table = '{source}' AND job.pandaid = move.pandaid
    RETURNING {values}
), archived AS (
    INSERT INTO {panda}.jobsarchived4 ({columns}) SELECT {columns} FROM gone
) NOTE_STATUS
""".replace("NOTE_STATUS", note_status("gone", "%(now)s"))

_LAST_HEARD = "CASE WHEN move.is_kill OR move.error = 'merge' THEN {now} ELSE job.modificationtime END"
_ENDED = f"coalesce(nullif(job.endtime, '1970-01-01'), {_LAST_HEARD}, {{now}})"
# A code that stays, because the dispatcher said more before, keeps the text that belongs to it.
_SAID = "(job.jobdispatchererrordiag <> '' AND coalesce(job.jobdispatchererrorcode, 0) = move.error_code) IS TRUE"
_ERROR = "CASE WHEN move.error IN ({errors}) THEN move.{new} ELSE job.{error}error{old} END"

BECOMES = {
    "jobstatus": "move.new_status",
    "jobsubstatus": "coalesce(move.substatus, job.jobsubstatus)",
    "commandtopilot": "CASE WHEN move.is_kill AND move.error <> 'merge' THEN 'tobekilled' ELSE job.commandtopilot END",
    "starttime": f"CASE WHEN move.is_kill AND job.jobstatus = 'starting' THEN {_ENDED} ELSE job.starttime END",
    "endtime": _ENDED,
    "modificationtime": "{now}",
    "statechangetime": "{now}",
    "taskbuffererrorcode": _ERROR.format(
        errors="'taskbuffer', 'merge'", error="taskbuffer", old="code", new="error_code"
    ),
    "taskbuffererrordiag": _ERROR.format(errors="'taskbuffer', 'merge'", error="taskbuffer", old="diag", new="diag"),
    "jobdispatchererrorcode": _ERROR.format(
        errors="'jobdispatcher'", error="jobdispatcher", old="code", new="error_code"
    ),
    "jobdispatchererrordiag": f"CASE WHEN move.error = 'jobdispatcher' AND NOT {_SAID} "
    "THEN move.diag ELSE job.jobdispatchererrordiag END",
}
"""What becomes of the columns of a job that is ended; all others stay as they are. ``{now}`` is the time."""

RECORD = """
INSERT INTO {broker}.job_actions (agent_run, agent, pandaid, jeditaskid, queue, old_status, new_status, rule, action,
    code, value_s, limit_s, detail, acted_at)
SELECT %(run_id)s, %(agent)s, pandaid, jeditaskid, queue, old_status,
    CASE WHEN is_told THEN old_status ELSE new_status END, rule, action, code, value_s, limit_s, detail,
    %(now)s AT TIME ZONE 'UTC'
FROM staged_moves WHERE taken ORDER BY pandaid
"""

TAKEN = "SELECT pandaid FROM staged_moves WHERE taken ORDER BY pandaid"
