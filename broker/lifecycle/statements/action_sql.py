"""The statements that end jobs, with their files, datasets and tasks; ``{panda}`` and ``{broker}`` are the schemas.

A staged row names the state in which a job was seen; only a job that is still in that state is ended. The statements
leave files, datasets and tasks as PanDA's own functions leave them. Source: PanDA server, killing and archiving of
jobs, verdicts of the watcher, propagation of results, input status; PanDA data model, datasets and files, jobs.
"""

from __future__ import annotations

from broker.lifecycle.model.jobs import (
    EXPIRED,
    EXPIRED_WAITING,
    KILLED_WITH_TASK,
    MERGE_FAILED,
    TASK_FINISHED,
)
from broker.store.writes.job_row_sql import note_status

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

# The brokerages lock a task before they touch its files, and skip a task that is locked already. So does this
# statement: whoever holds a task also holds its files and counters, and no process waits for another. Jobs of other
# tasks are left out; they are judged again in the next cycle.
LOCK_TASKS = """
WITH locked AS MATERIALIZED (
    SELECT jeditaskid FROM {panda}.jedi_tasks WHERE jeditaskid = ANY(%(tasks)s)
    ORDER BY jeditaskid FOR NO KEY UPDATE SKIP LOCKED
)
DELETE FROM staged_moves AS move
WHERE move.jeditaskid IN (SELECT jeditaskid FROM {panda}.jedi_tasks WHERE jeditaskid = ANY(%(tasks)s))
  AND move.jeditaskid NOT IN (SELECT jeditaskid FROM locked)
"""

# {source} is the table the job is in. A job that another transaction is writing to, that was heard from since, or that
# is archived already is skipped; so is one of the event service, unless its own pilot reports that it has ended.
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

# {columns} are the columns that both tables have, {values} their new values.
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
_KEEPS_TEXT = "(job.jobdispatchererrordiag <> '' AND coalesce(job.jobdispatchererrorcode, 0) = move.error_code) IS TRUE"
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
    "jobdispatchererrordiag": f"CASE WHEN move.error = 'jobdispatcher' AND NOT {_KEEPS_TEXT} "
    "THEN move.diag ELSE job.jobdispatchererrordiag END",
}
"""The new values of the columns of a job that ends; all others stay as they are. ``{now}`` is the time."""

RECORD = """
INSERT INTO {broker}.job_actions (agent_run, agent, pandaid, jeditaskid, queue, old_status, new_status, rule, action,
    code, value_s, limit_s, detail, acted_at)
SELECT %(run_id)s, %(agent)s, pandaid, jeditaskid, queue, old_status,
    CASE WHEN is_told THEN old_status ELSE new_status END, rule, action, code, value_s, limit_s, detail,
    %(now)s AT TIME ZONE 'UTC'
FROM staged_moves WHERE taken ORDER BY pandaid
"""

# Retry rules check our own failed jobs; see the agent retries.
TO_RULES = """
INSERT INTO {broker}.failed_jobs (pandaid, failed_at)
SELECT pandaid, %(now)s AT TIME ZONE 'UTC' FROM staged_moves
WHERE taken AND NOT is_told AND new_status = 'failed' AND jeditaskid IS NOT NULL ORDER BY pandaid
ON CONFLICT DO NOTHING
"""

TAKEN = "SELECT pandaid FROM staged_moves WHERE taken ORDER BY pandaid"


_INPUT = "('input', 'pseudo_input', 'pp_input', 'pp_log', 'trn_log', 'trn_output', 'trn_unknown')"

# The files of the jobs that end; those of a task that has ended, and of jobs that no task made, stay as they are. A
# file is a job's if it is marked with the job, or recorded with it and marked with none; and where the record says
# which attempt the job was made for, the file must still be in that one. Alongside PanDA the record is enough for a
# file that several jobs read: it bears the mark of the last of them. Unmerged output has no attempt, and a build's
# library has nothing to give back. A job that ended with its task, by hand, says nothing against its queue. OFFSET 0
# keeps the look-ups by index, whatever the statistics say.
FILES_OF_JOBS = """
ended AS MATERIALIZED (
    SELECT move.pandaid, move.jeditaskid, move.queue, move.is_kill,
        move.error <> 'merge' AND (move.is_kill AND move.code NOT IN (BY_HAND) OR move.error = 'reported')
            AS goes_elsewhere,
        move.old_status = 'transferring' AS was_on_hold, job.processingtype = 'pmerge' AS merges,
        job.processingtype = 'pmerge' AND move.is_kill AND move.code IN (MERGE_OVER) AS is_last_merge,
        %(events_are_counted)s OR job.specialhandling ~ '(^|,)tq=' AS is_queued_again
    FROM staged_moves AS move JOIN {panda}.jobsarchived4 AS job ON job.pandaid = move.pandaid
    WHERE move.taken AND NOT move.is_told
      AND (job.lockedby = 'jedi' OR (job.lockedby IS NULL AND %(events_are_counted)s))
      AND NOT EXISTS (SELECT 1 FROM {panda}.jedi_tasks AS task WHERE task.jeditaskid = move.jeditaskid
                      AND task.status IN ('done', 'finished', 'failed', 'aborted', 'broken', 'prepared'))
), records AS MATERIALIZED (
    SELECT record.pandaid, record.datasetid, record.fileid, record.attemptnr,
        record.type IN ('input', 'pseudo_input') AS is_input,
        record.type = 'input' AND record.lfn LIKE '%%.lib.tgz' AS is_library,
        ended.is_kill AND record.type IN ('output', 'log') AND record.destinationdblocktoken = 'TOMERGE' AS is_unmerged
    FROM ended CROSS JOIN LATERAL (
        SELECT * FROM {panda}.filestable4 AS record WHERE record.pandaid = ended.pandaid OFFSET 0) AS record
), marked AS MATERIALIZED (
    SELECT file.jeditaskid, file.datasetid, file.fileid, file.attemptnr, ended.pandaid
    FROM ended CROSS JOIN LATERAL (
        SELECT * FROM {panda}.jedi_dataset_contents AS file WHERE file.pandaid = ended.pandaid OFFSET 0) AS file
    WHERE file.jeditaskid = ended.jeditaskid
), mine AS MATERIALIZED (
    SELECT marked.jeditaskid, marked.datasetid, marked.fileid, record.is_input, ended.pandaid, ended.queue,
        ended.is_kill, ended.goes_elsewhere, ended.was_on_hold, ended.merges, ended.is_last_merge, ended.is_queued_again
    FROM marked JOIN ended USING (pandaid) LEFT JOIN records AS record USING (pandaid, datasetid, fileid)
    WHERE (record.attemptnr IS NULL OR record.is_unmerged OR record.attemptnr IS NOT DISTINCT FROM marked.attemptnr)
      AND record.is_library IS NOT TRUE
    UNION ALL
    SELECT file.jeditaskid, file.datasetid, file.fileid, record.is_input, ended.pandaid, ended.queue,
        ended.is_kill, ended.goes_elsewhere, ended.was_on_hold, ended.merges, ended.is_last_merge, ended.is_queued_again
    FROM ended JOIN records AS record USING (pandaid) LEFT JOIN marked USING (pandaid, datasetid, fileid)
    CROSS JOIN LATERAL (
        SELECT * FROM {panda}.jedi_dataset_contents AS file
        WHERE file.jeditaskid = ended.jeditaskid AND file.datasetid = record.datasetid AND file.fileid = record.fileid
        OFFSET 0) AS file
    WHERE marked.pandaid IS NULL AND (file.attemptnr = record.attemptnr OR record.is_unmerged)
      AND (file.pandaid IS NULL OR (file.maxattempt IS NULL AND NOT %(events_are_counted)s))
      AND record.is_library IS NOT TRUE
)
""".replace("MERGE_OVER", f"{EXPIRED}, {EXPIRED_WAITING}").replace("BY_HAND", f"{KILLED_WITH_TASK}, {TASK_FINISHED}")

# Every record of a job that ends gets the time; its output failed. What the pilot reported as written was kept before.
END_RECORDS = """
UPDATE {panda}.filestable4 AS record
SET modificationtime = %(now)s,
    status = CASE
        WHEN move.error = 'merge' AND record.status IS DISTINCT FROM 'nooutput' THEN move.new_status
        WHEN move.error <> 'merge' AND record.type IN ('output', 'log')
            AND (record.status IS DISTINCT FROM 'finished' OR move.error <> 'reported') THEN 'failed'
        ELSE record.status END
FROM staged_moves AS move
WHERE move.taken AND NOT move.is_told AND record.pandaid = move.pandaid
"""

# What a job has used, by the power of its queue's cores, where both are known.
NOTE_USED = """
UPDATE {panda}.jobsarchived4 AS job
SET hs06sec = least(999999999, trunc(queue.power * greatest(extract(epoch FROM job.endtime - job.starttime), 0)
    * coalesce(job.actualcorecount, substring(job.jobmetrics FROM 'coreCount=([0-9]+)')::integer,
               nullif(job.corecount, 0), 1)))
FROM staged_moves AS move JOIN (
    SELECT panda_queue, (data->>'corepower')::numeric AS power FROM {panda}.schedconfig_json
    WHERE data->>'corepower' ~ '^[0-9]+([.][0-9]+)?$') AS queue ON queue.panda_queue = move.queue
WHERE move.taken AND NOT move.is_told AND move.error <> 'reported' AND job.pandaid = move.pandaid
  AND job.starttime > '1970-01-01' AND job.endtime IS NOT NULL
"""

# {table} is metatable or jobparamstable, where it exists.
STAMP = """
UPDATE {panda}.{table} AS kept SET modificationtime = %(now)s
FROM staged_moves AS move
WHERE move.taken AND NOT move.is_told AND kept.pandaid = move.pandaid
"""
STAMPED = ("metatable", "jobparamstable")

END_OUTPUTS = """
WITH FILES_OF_JOBS, ending AS MATERIALIZED (
    SELECT file.jeditaskid, file.datasetid, file.fileid, file.status, move.is_kill,
        file.is_waiting IS NOT NULL AS was_waiting
    FROM mine AS move JOIN {panda}.jedi_dataset_contents AS file USING (jeditaskid, datasetid, fileid)
    WHERE coalesce(NOT move.is_input, file.type IN ('output', 'log')) AND coalesce(file.keeptrack, 1) = 1
      AND (file.status IN ('finished', 'cancelled')) IS NOT TRUE
), ended_outputs AS (
    UPDATE {panda}.jedi_dataset_contents AS file
    SET status = CASE WHEN ending.is_kill THEN 'cancelled' ELSE 'failed' END, is_waiting = NULL
    FROM ending
    WHERE file.jeditaskid = ending.jeditaskid AND file.datasetid = ending.datasetid AND file.fileid = ending.fileid
      AND file.status IS NOT DISTINCT FROM ending.status
    RETURNING file.jeditaskid, file.datasetid, ending.was_waiting
), sums AS (
    SELECT jeditaskid, datasetid, count(*) AS files, count(*) FILTER (WHERE was_waiting) AS waiting
    FROM ended_outputs GROUP BY jeditaskid, datasetid
)
UPDATE {panda}.jedi_datasets AS dataset
SET nfilesfailed = coalesce(dataset.nfilesfailed, 0) + sums.files,
    nfileswaiting = greatest(dataset.nfileswaiting - sums.waiting, 0)
FROM sums
WHERE dataset.jeditaskid = sums.jeditaskid AND dataset.datasetid = sums.datasetid
""".replace("FILES_OF_JOBS", FILES_OF_JOBS.strip())

# A file stays marked with its last job, as PanDA leaves it: the next job finds its history there.
# Every ended job costs its files an attempt, only a failed one costs a failure. A file with none left counts as failed;
# if it was to be merged, it is never merged. Files without a number of attempts are secondary: only the counter of
# files on hold includes them. A file that waits for a jumbo job is ready already.
GIVE_BACK = """
WITH FILES_OF_JOBS, before AS MATERIALIZED (
    SELECT move.pandaid, move.queue, move.goes_elsewhere, move.was_on_hold, move.merges, move.is_queued_again,
        file.jeditaskid, file.datasetid, file.fileid, file.status, file.attemptnr AS old_attemptnr,
        file.is_waiting IS NOT NULL AS was_waiting,
        least(coalesce(file.attemptnr, 0) + 1, 32767) AS attemptnr,
        CASE WHEN move.is_kill THEN file.failedattempt ELSE least(coalesce(file.failedattempt, 0) + 1, 32767) END
            AS failedattempt,
        CASE WHEN move.is_last_merge THEN coalesce(file.attemptnr, 0) - 1 ELSE file.maxattempt END AS maxattempt,
        file.maxfailure, dataset.masterid IS NULL AND dataset.type IN ('input', 'pseudo_input') AS is_master
    FROM mine AS move JOIN {panda}.jedi_dataset_contents AS file USING (jeditaskid, datasetid, fileid)
    LEFT JOIN {panda}.jedi_datasets AS dataset USING (jeditaskid, datasetid)
    WHERE coalesce(move.is_input, file.type IN INPUT_TYPES) AND coalesce(file.keeptrack, 1) = 1
      AND (file.status IN ('picked', 'running', 'merging') OR (file.status = 'ready' AND file.is_waiting IS NOT NULL))
), after AS MATERIALIZED (
    SELECT *, maxattempt IS NOT NULL AS is_counted,
        maxattempt > attemptnr AND (maxfailure IS NULL OR maxfailure > coalesce(failedattempt, 0)) AS again
    FROM before
), given AS (
    UPDATE {panda}.jedi_dataset_contents AS file
    SET status = CASE WHEN move.merges AND NOT move.again THEN 'notmerged' ELSE 'ready' END,
        keeptrack = CASE WHEN move.merges AND NOT move.again THEN NULL ELSE file.keeptrack END,
        is_waiting = NULL, attemptnr = move.attemptnr, failedattempt = move.failedattempt,
        maxattempt = move.maxattempt,
        proc_status = CASE
            WHEN NOT move.is_master OR move.again IS NULL OR (move.merges AND NOT move.again)
              OR file.proc_status NOT IN ('running', 'transferring', 'merging', 'queued', 'starting', 'failed')
            THEN file.proc_status
            WHEN move.again THEN 'ready' ELSE 'failed' END
    FROM after AS move
    WHERE file.jeditaskid = move.jeditaskid AND file.datasetid = move.datasetid AND file.fileid = move.fileid
      AND file.status = move.status AND file.attemptnr IS NOT DISTINCT FROM move.old_attemptnr
    RETURNING file.jeditaskid, file.datasetid, move.queue, move.goes_elsewhere, move.is_counted, move.again,
        move.was_on_hold, move.was_waiting, move.status = 'ready' AS was_ready, move.is_queued_again,
        CASE WHEN file.startevent IS NOT NULL AND file.endevent IS NOT NULL
             THEN greatest(file.endevent - file.startevent + 1, 1) ELSE greatest(file.nevents, 0) END AS events
), sums AS (
    SELECT jeditaskid, datasetid, count(*) AS files,
        count(*) FILTER (WHERE is_counted AND again AND NOT was_ready) AS again,
        count(*) FILTER (WHERE is_counted AND NOT again) AS lost,
        count(*) FILTER (WHERE is_counted AND NOT again AND was_waiting) AS used,
        count(*) FILTER (WHERE was_on_hold) AS on_hold, count(*) FILTER (WHERE was_waiting) AS waiting,
        bool_or(is_queued_again AND again AND NOT was_ready) AS is_queued_again,
        coalesce(sum(events) FILTER (WHERE is_counted AND again AND %(events_are_counted)s), 0) AS events
    FROM given GROUP BY jeditaskid, datasetid
), counted AS (
    UPDATE {panda}.jedi_datasets AS dataset
    SET nfilesused = greatest(dataset.nfilesused - sums.again + sums.used, 0),
        nfilesfailed = coalesce(dataset.nfilesfailed, 0) + sums.lost,
        nfilesonhold = greatest(dataset.nfilesonhold - sums.on_hold, 0),
        nfileswaiting = greatest(dataset.nfileswaiting - sums.waiting, 0),
        neventsused = greatest(dataset.neventsused - sums.events, 0)
    FROM sums
    WHERE dataset.jeditaskid = sums.jeditaskid AND dataset.datasetid = sums.datasetid
      AND sums.again + sums.lost + sums.on_hold + sums.waiting > 0
), queued AS (
    UPDATE {panda}.jedi_tasks AS task SET queuedtime = %(now)s
    WHERE task.queuedtime IS NULL AND task.jeditaskid IN (SELECT jeditaskid FROM sums WHERE is_queued_again)
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
""".replace("FILES_OF_JOBS", FILES_OF_JOBS.strip()).replace("INPUT_TYPES", _INPUT)

# Jobs whose output will no longer be merged wait in status merging; they end as the merge job did. They replace the
# staged merge jobs, to be ended by the same statements.
STAGE_UNMERGED = """
WITH merged AS (DELETE FROM staged_moves RETURNING *), unmerged AS (
    SELECT DISTINCT ON (record.jeditaskid, record.datasetid, record.fileid) job.pandaid, job.jobstatus,
        job.modificationtime, job.computingsite, merged.jeditaskid, merged.new_status, merged.is_kill, merged.rule,
        merged.action
    FROM merged JOIN {panda}.jobsarchived4 AS merge ON merge.pandaid = merged.pandaid
    JOIN {panda}.filestable4 AS record ON record.pandaid = merged.pandaid
        AND record.type = 'input' AND record.dispatchdblocktoken = 'TOMERGE'
    JOIN {panda}.jedi_dataset_contents AS file ON file.jeditaskid = merged.jeditaskid
        AND file.datasetid = record.datasetid AND file.fileid = record.fileid AND file.status = 'notmerged'
    JOIN {panda}.filestable4 AS made ON made.jeditaskid = merged.jeditaskid AND made.datasetid = record.datasetid
        AND made.fileid = record.fileid AND made.type IN ('output', 'log')
    JOIN {panda}.jobsactive4 AS job ON job.pandaid = made.pandaid AND job.jobstatus = 'merging'
    WHERE merged.taken AND NOT merged.is_told AND merge.processingtype = 'pmerge' AND merged.error <> 'merge'
    ORDER BY record.jeditaskid, record.datasetid, record.fileid, made.attemptnr DESC
)
INSERT INTO staged_moves (pandaid, in_table, old_status, seen, queue, jeditaskid, new_status, substatus, is_kill,
    is_told, error, error_code, diag, rule, action, code)
SELECT DISTINCT ON (pandaid) pandaid, 'jobsactive4', jobstatus, modificationtime, computingsite, jeditaskid, new_status,
    'merge_' || new_status, is_kill, false, 'merge', MERGE_CODE, 'merge job ' || new_status, rule, action, MERGE_CODE
FROM unmerged ORDER BY pandaid
RETURNING pandaid
""".replace("MERGE_CODE", str(MERGE_FAILED))
