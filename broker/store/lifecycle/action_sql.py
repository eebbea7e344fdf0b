"""The statements that end jobs. ``{panda}`` and ``{broker}`` stand for the schemas.

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
# archived already is left out.
TAKE = """
WITH free AS (
    SELECT job.pandaid
    FROM {panda}.{source} AS job JOIN staged_moves AS move ON move.pandaid = job.pandaid
    WHERE move.in_table = '{source}' AND job.jobstatus = move.old_status
      AND job.modificationtime IS NOT DISTINCT FROM move.seen
      AND job.computingsite IS NOT DISTINCT FROM move.queue
      AND job.jeditaskid IS NOT DISTINCT FROM move.jeditaskid
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

_LAST_HEARD = "CASE WHEN move.is_kill THEN {now} ELSE job.modificationtime END"
_ENDED = f"coalesce(nullif(job.endtime, '1970-01-01'), {_LAST_HEARD}, {{now}})"
# A code that stays, because the dispatcher said more before, keeps the text that belongs to it.
_SAID = "(job.jobdispatchererrordiag <> '' AND coalesce(job.jobdispatchererrorcode, 0) = move.error_code) IS TRUE"
_ERROR = "CASE WHEN move.error = '{error}' THEN move.{new} ELSE job.{error}error{old} END"

BECOMES = {
    "jobstatus": "move.new_status",
    "jobsubstatus": "coalesce(move.substatus, job.jobsubstatus)",
    "commandtopilot": "CASE WHEN move.is_kill THEN 'tobekilled' ELSE job.commandtopilot END",
    "starttime": f"CASE WHEN move.is_kill AND job.jobstatus = 'starting' THEN {_ENDED} ELSE job.starttime END",
    "endtime": _ENDED,
    "modificationtime": "{now}",
    "statechangetime": "{now}",
    "taskbuffererrorcode": _ERROR.format(error="taskbuffer", old="code", new="error_code"),
    "taskbuffererrordiag": _ERROR.format(error="taskbuffer", old="diag", new="diag"),
    "jobdispatchererrorcode": _ERROR.format(error="jobdispatcher", old="code", new="error_code"),
    "jobdispatchererrordiag": f"CASE WHEN move.error = 'jobdispatcher' AND NOT {_SAID} "
    "THEN move.diag ELSE job.jobdispatchererrordiag END",
}
"""What becomes of the columns of a job that is ended; all others stay as they are. ``{now}`` is the time."""

# The files of the jobs that end; those of a task that has ended stay as they are. A file is a job's if it is marked
# with the job, or recorded with it and marked with none; and where the record says which attempt the job was made for,
# the file must still be in that one. OFFSET 0 keeps the look-ups by index, whatever the statistics say.
FILES_OF_JOBS = """
ended AS MATERIALIZED (
    SELECT pandaid, jeditaskid, queue, is_kill, is_kill OR error = 'reported' AS goes_elsewhere,
        old_status IN ('transferring', 'merging') AS was_on_hold
    FROM staged_moves AS move WHERE taken AND NOT is_told
      AND NOT EXISTS (SELECT 1 FROM {panda}.jedi_tasks AS task WHERE task.jeditaskid = move.jeditaskid
                      AND task.status IN ('done', 'finished', 'failed', 'aborted', 'broken'))
), records AS MATERIALIZED (
    SELECT record.pandaid, record.datasetid, record.fileid, record.attemptnr
    FROM ended CROSS JOIN LATERAL (
        SELECT * FROM {panda}.filestable4 AS record WHERE record.pandaid = ended.pandaid OFFSET 0) AS record
), marked AS MATERIALIZED (
    SELECT file.jeditaskid, file.datasetid, file.fileid, file.attemptnr, ended.pandaid
    FROM ended CROSS JOIN LATERAL (
        SELECT * FROM {panda}.jedi_dataset_contents AS file WHERE file.pandaid = ended.pandaid OFFSET 0) AS file
    WHERE file.jeditaskid = ended.jeditaskid
), mine AS MATERIALIZED (
    SELECT marked.jeditaskid, marked.datasetid, marked.fileid, ended.pandaid, ended.queue, ended.is_kill,
        ended.goes_elsewhere, ended.was_on_hold
    FROM marked JOIN ended USING (pandaid) LEFT JOIN records AS record USING (pandaid, datasetid, fileid)
    WHERE record.attemptnr IS NULL OR record.attemptnr IS NOT DISTINCT FROM marked.attemptnr
    UNION ALL
    SELECT file.jeditaskid, file.datasetid, file.fileid, ended.pandaid, ended.queue, ended.is_kill,
        ended.goes_elsewhere, ended.was_on_hold
    FROM ended JOIN records AS record USING (pandaid) LEFT JOIN marked USING (pandaid, datasetid, fileid)
    CROSS JOIN LATERAL (
        SELECT * FROM {panda}.jedi_dataset_contents AS file
        WHERE file.jeditaskid = ended.jeditaskid AND file.datasetid = record.datasetid AND file.fileid = record.fileid
        OFFSET 0) AS file
    WHERE marked.pandaid IS NULL AND file.pandaid IS NULL AND file.attemptnr = record.attemptnr
)
"""

END_OUTPUTS = """
WITH FILES_OF_JOBS, recorded AS (
    UPDATE {panda}.filestable4 AS record SET status = 'failed', modificationtime = %(now)s
    FROM staged_moves AS move
    WHERE move.taken AND NOT move.is_told AND record.pandaid = move.pandaid
      AND record.type IN ('output', 'log') AND record.status IS DISTINCT FROM 'finished'
), ended_outputs AS (
    UPDATE {panda}.jedi_dataset_contents AS file
    SET status = CASE WHEN move.is_kill THEN 'cancelled' ELSE 'failed' END, proc_status = 'failed'
    FROM mine AS move
    WHERE file.jeditaskid = move.jeditaskid AND file.datasetid = move.datasetid AND file.fileid = move.fileid
      AND file.type IN ('output', 'log') AND file.status IS DISTINCT FROM 'finished'
    RETURNING file.jeditaskid, file.datasetid, coalesce(file.keeptrack, 1) = 1 AS is_counted
), sums AS (
    SELECT jeditaskid, datasetid, count(*) AS files FROM ended_outputs WHERE is_counted GROUP BY jeditaskid, datasetid
)
UPDATE {panda}.jedi_datasets AS dataset
SET nfilesfailed = coalesce(dataset.nfilesfailed, 0) + sums.files, modificationtime = %(now)s
FROM sums
WHERE dataset.jeditaskid = sums.jeditaskid AND dataset.datasetid = sums.datasetid
""".replace("FILES_OF_JOBS", FILES_OF_JOBS.strip())

# A file stays marked with its last job, as PanDA leaves it: the next job finds its history there.
# Every ended job costs its files an attempt, only a failed one costs a failure; what has none left counts as failed.
# Files without a number of attempts are secondary: no counter knows them.
GIVE_BACK = """
WITH FILES_OF_JOBS, given AS (
    UPDATE {panda}.jedi_dataset_contents AS file
    SET status = 'ready',
        attemptnr = least(coalesce(file.attemptnr, 0) + 1, 32767),
        failedattempt = CASE WHEN move.is_kill THEN file.failedattempt
            ELSE least(coalesce(file.failedattempt, 0) + 1, 32767) END,
        proc_status = CASE WHEN file.maxattempt <= coalesce(file.attemptnr, 0) + 1
              OR file.maxfailure <= coalesce(file.failedattempt, 0) + CASE WHEN move.is_kill THEN 0 ELSE 1 END
            THEN 'failed' ELSE 'ready' END
    FROM mine AS move
    WHERE file.jeditaskid = move.jeditaskid AND file.datasetid = move.datasetid AND file.fileid = move.fileid
      AND file.type IN ('input', 'pseudo_input', 'pp_input', 'pp_log', 'trn_log', 'trn_output', 'trn_unknown')
      AND file.status IN ('picked', 'running', 'merging') AND coalesce(file.keeptrack, 1) = 1
    RETURNING file.jeditaskid, file.datasetid, move.queue, move.goes_elsewhere,
        file.maxattempt IS NOT NULL AS is_counted, file.proc_status = 'ready' AS again,
        move.was_on_hold,
        CASE WHEN file.startevent IS NOT NULL AND file.endevent IS NOT NULL
             THEN greatest(file.endevent - file.startevent + 1, 1) ELSE greatest(file.nevents, 0) END AS events
), sums AS (
    SELECT jeditaskid, datasetid, count(*) AS files,
        count(*) FILTER (WHERE is_counted AND again) AS again,
        count(*) FILTER (WHERE is_counted AND NOT again) AS lost,
        count(*) FILTER (WHERE is_counted AND was_on_hold) AS on_hold,
        coalesce(sum(events) FILTER (WHERE is_counted AND again AND %(events_are_counted)s), 0) AS events
    FROM given GROUP BY jeditaskid, datasetid
), counted AS (
    UPDATE {panda}.jedi_datasets AS dataset
    SET nfilesused = greatest(dataset.nfilesused - sums.again, 0),
        nfilesfailed = coalesce(dataset.nfilesfailed, 0) + sums.lost,
        nfilesonhold = greatest(dataset.nfilesonhold - sums.on_hold, 0),
        neventsused = greatest(dataset.neventsused - sums.events, 0),
        modificationtime = %(now)s
    FROM sums
    WHERE dataset.jeditaskid = sums.jeditaskid AND dataset.datasetid = sums.datasetid
      AND sums.again + sums.lost > 0
), queued AS (
    UPDATE {panda}.jedi_tasks AS task SET queuedtime = %(now)s
    WHERE task.queuedtime IS NULL AND task.jeditaskid IN (SELECT jeditaskid FROM sums WHERE again > 0)
), remembered AS (
    INSERT INTO {broker}.rebrokered_from AS known (jeditaskid, datasetid, queue, rebrokered_at)
    SELECT DISTINCT given.jeditaskid, coalesce(dataset.masterid, given.datasetid), given.queue,
        %(now)s AT TIME ZONE 'UTC'
    FROM given LEFT JOIN {panda}.jedi_datasets AS dataset
        ON dataset.jeditaskid = given.jeditaskid AND dataset.datasetid = given.datasetid
    WHERE given.goes_elsewhere AND given.is_counted AND given.again AND given.queue IS NOT NULL
    ON CONFLICT (jeditaskid, datasetid, queue)
        DO UPDATE SET rebrokered_at = greatest(known.rebrokered_at, excluded.rebrokered_at)
)
SELECT coalesce(sum(files), 0)::bigint, coalesce(sum(lost), 0)::bigint FROM sums
""".replace("FILES_OF_JOBS", FILES_OF_JOBS.strip())

RECORD = """
INSERT INTO {broker}.job_actions (agent_run, agent, pandaid, jeditaskid, queue, old_status, new_status, rule, action,
    code, value_s, limit_s, detail, acted_at)
SELECT %(run_id)s, %(agent)s, pandaid, jeditaskid, queue, old_status,
    CASE WHEN is_told THEN old_status ELSE new_status END, rule, action, code, value_s, limit_s, detail,
    %(now)s AT TIME ZONE 'UTC'
FROM staged_moves WHERE taken ORDER BY pandaid
"""

TAKEN = "SELECT pandaid FROM staged_moves WHERE taken ORDER BY pandaid"
