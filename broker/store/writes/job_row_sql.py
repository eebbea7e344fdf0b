"""The SQL statements of the write-back of jobs. ``{panda}`` stands for the schema of PanDA's tables.

Names and texts of a task never leave the server: the broker sends integers, and columns that jobs share with their
task are read from its row. :func:`note_status` logs job statuses, so that it is known since when a job is in a status;
statements that change statuses include it.

Source: PanDA data model, tasks, datasets and files, jobs.
"""

from __future__ import annotations

import re
import socket

HOST = re.sub(r"[^A-Za-z0-9.-]", "", socket.gethostname())[:128]
"""Name of this machine for the logs of PanDA's tables, which record who changed a status; safe within SQL text."""

_LOG_STATUSES = """
INSERT INTO {panda}.jobs_statuslog (pandaid, modificationtime, jobstatus, prodsourcelabel, cloud, computingsite,
    modificationhost, modiftime_extended)
SELECT pandaid, NOW, jobstatus, prodsourcelabel, cloud, computingsite, 'HOST', NOW FROM CHANGED"""


def note_status(changed: str, now: str) -> str:
    """The statement that logs job statuses.

    Args:
        changed: name of the relation with the jobs and their new statuses, in columns named as in the job tables.
        now: placeholder of the parameter with the instant (naive UTC), as written in the whole statement.
    """
    return _LOG_STATUSES.replace("CHANGED", changed).replace("NOW", now).replace("HOST", HOST)


STAGE = """
CREATE TEMPORARY TABLE staged_jobs (
    job bigint, jeditaskid bigint, queue bigint, resource_type bigint, platform bigint, corecount bigint,
    minramcount_mb bigint, maxdiskcount_mb bigint, maxwalltime_s bigint, maxcpucount_s bigint, nevents bigint,
    inputfilebytes bigint, ninputdatafiles bigint, priority bigint, merging bigint, pandaid bigint
) ON COMMIT DROP;
CREATE TEMPORARY TABLE staged_files (
    job bigint, jeditaskid bigint, datasetid bigint, fileid bigint, attemptnr bigint, claimed bigint,
    pandaid bigint, row_id bigint
) ON COMMIT DROP;
SET LOCAL work_mem = '64MB';
SET LOCAL enable_mergejoin = off;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_nestloop = on;
SET LOCAL enable_indexscan = on;
SET LOCAL enable_memoize = on;
SET LOCAL default_statistics_target = 10
"""

# Reserved at once and in order, the numbers of two brokers that write at the same time lie apart, and so do their index
# entries; numbers taken one by one would make them contend for the end of each index, row by row.
RESERVE_NUMBERS = """
SELECT
  (SELECT array_send(array_agg(nextval('{panda}.jobsdefined4_pandaid_seq'))) FROM generate_series(1, %(jobs)s)),
  (SELECT array_send(array_agg(nextval('{panda}.filestable4_row_id_seq'))) FROM generate_series(1, %(files)s))
"""

# A task that another process is writing to is left for the next cycle; an old lock of PanDA's agents no longer counts.
LOCK_TASKS = """
SELECT jeditaskid, status, nucleus
FROM {panda}.jedi_tasks
WHERE jeditaskid = ANY(%(tasks)s)
  AND (status = ANY(%(statuses)s) OR (%(waiting)s AND status = 'pending' AND oldstatus = ANY(%(statuses)s)))
  AND (lockedby IS NULL OR lockedtime IS NULL OR lockedtime < %(now)s - make_interval(secs => %(lock_fresh_s)s))
ORDER BY jeditaskid
FOR NO KEY UPDATE"""

# Claims the files, counts them in their datasets and records them with their jobs. A file that has changed since it was
# read does not match; the caller compares the number of claimed files with the number it requested. A secondary file
# (without a number of attempts) that comes back stays counted, so its next attempt is not counted again.
#
# Each claim looks up its file by the primary key. The planner would rather read a whole table of files of which a batch
# takes a part, or compare every claim with every file of its dataset, because it treats task and dataset as independent
# and expects one file for both. Such plans are ruled out: joins are nested loops over indexes (see STAGE), and the
# status is hidden from the index of ready files, which has no file ids, and from estimates, as it does not make files
# few.
CLAIM_FILES = """
WITH claimed AS (
    UPDATE {panda}.jedi_dataset_contents AS file
    SET status = 'running', proc_status = 'queued', pandaid = wanted.pandaid
    FROM staged_files AS wanted
    WHERE wanted.claimed = 1
      AND file.jeditaskid = wanted.jeditaskid AND file.datasetid = wanted.datasetid AND file.fileid = wanted.fileid
      AND CASE WHEN file.status = 'ready' THEN true END IS NOT NULL
      AND coalesce(file.attemptnr, -9223372036854775808) = wanted.attemptnr
    RETURNING file.jeditaskid, file.datasetid, file.fileid, wanted.pandaid, wanted.row_id, file.lfn, file.guid,
        CASE WHEN file.type IN ('trn_log', 'trn_output') THEN 'input' ELSE file.type END AS type,
        file.fsize, file.checksum, file.scope, file.attemptnr,
        CASE WHEN file.startevent IS NOT NULL AND file.endevent IS NOT NULL
             THEN greatest(file.endevent - file.startevent + 1, 1) ELSE greatest(file.nevents, 0) END AS events,
        file.maxattempt IS NOT NULL OR coalesce(file.attemptnr, 0) <= 0 AS is_counted
), sums AS (
    SELECT jeditaskid, datasetid, count(*) AS claimed, count(*) FILTER (WHERE is_counted) AS files,
        coalesce(sum(events) FILTER (WHERE is_counted), 0) AS events
    FROM claimed GROUP BY jeditaskid, datasetid
), counted AS (
    UPDATE {panda}.jedi_datasets AS dataset
    SET nfilesused = coalesce(dataset.nfilesused, 0) + sums.files,
        neventsused = coalesce(dataset.neventsused, 0) + sums.events,
        modificationtime = %(now)s
    FROM sums
    WHERE dataset.jeditaskid = sums.jeditaskid AND dataset.datasetid = sums.datasetid
), recorded AS (
    INSERT INTO {panda}.filestable4 (row_id, pandaid, modificationtime, lfn, guid, type, status, dataset, fsize,
        checksum, scope, jeditaskid, datasetid, fileid, attemptnr)
    SELECT claimed.row_id, claimed.pandaid, %(now)s, claimed.lfn, claimed.guid, claimed.type, 'ready',
        dataset.datasetname, claimed.fsize, claimed.checksum, claimed.scope, claimed.jeditaskid, claimed.datasetid,
        claimed.fileid, claimed.attemptnr
    FROM claimed
    LEFT JOIN {panda}.jedi_datasets AS dataset
        ON dataset.jeditaskid = claimed.jeditaskid AND dataset.datasetid = claimed.datasetid
)
SELECT coalesce(sum(claimed), 0)::bigint FROM sums
"""

# Files that merge jobs read were output of other jobs; they count as input here, as in CLAIM_FILES.
# Files that several jobs read are recorded with each of them and stay unchanged.
RECORD_SHARED_FILES = """
INSERT INTO {panda}.filestable4 (row_id, pandaid, modificationtime, lfn, guid, type, status, dataset, fsize, checksum,
    scope, jeditaskid, datasetid, fileid, attemptnr)
SELECT wanted.row_id, wanted.pandaid, %(now)s, file.lfn, file.guid,
    CASE WHEN file.type IN ('trn_log', 'trn_output') THEN 'input' ELSE file.type END, 'ready',
    dataset.datasetname, file.fsize, file.checksum,
    file.scope, file.jeditaskid, file.datasetid, file.fileid, file.attemptnr
FROM staged_files AS wanted
JOIN {panda}.jedi_dataset_contents AS file
    ON file.jeditaskid = wanted.jeditaskid AND file.datasetid = wanted.datasetid AND file.fileid = wanted.fileid
LEFT JOIN {panda}.jedi_datasets AS dataset
    ON dataset.jeditaskid = file.jeditaskid AND dataset.datasetid = file.datasetid
WHERE wanted.claimed = 0
"""

JOBS_WITH_CHANGED_FILES = """
SELECT DISTINCT wanted.job
FROM staged_files AS wanted
LEFT JOIN {panda}.jedi_dataset_contents AS file
    ON file.jeditaskid = wanted.jeditaskid AND file.datasetid = wanted.datasetid AND file.fileid = wanted.fileid
WHERE wanted.claimed = 1 AND file.pandaid IS DISTINCT FROM wanted.pandaid
"""

DROP_JOBS = "DELETE FROM staged_jobs WHERE job = ANY(%(jobs)s)"
DROP_FILES = "DELETE FROM staged_files WHERE job = ANY(%(jobs)s)"

JOIN_BY_HASH = "SET LOCAL enable_hashjoin = on; SET LOCAL enable_seqscan = on"

# Values derived from a task's row are computed once per task.
INSERT_JOBS = """
WITH task AS MATERIALIZED (
    SELECT *, coalesce(job_label, prodsourcelabel) AS label, coalesce(taskpriority, 0) AS priority,
        left(regexp_replace(transhome, '-(?=[0-9]+[.])', '/'), 80) AS package,
        left(workinggroup, 20) AS working_group, left(username, 60) AS user_name
    FROM {panda}.jedi_tasks WHERE jeditaskid IN (SELECT jeditaskid FROM staged_jobs)
)
INSERT INTO {panda}.jobsdefined4 (
    pandaid, jeditaskid, jobdefinitionid, jobsetid, taskid, reqid, jobname, jobstatus, prodsourcelabel, job_label,
    computingsite, nucleus, cloud, vo, currentpriority, assignedpriority, attemptnr, maxattempt, failedattempt,
    corecount, minramcount, minramunit, maxdiskcount, maxdiskunit, maxcpucount, maxcpuunit, maxwalltime, diskio,
    resource_type, gshare, workqueue_id, processingtype, workinggroup, countrygroup, produsername, produserid,
    eventservice, relocationflag, lockedby, creationtime, modificationtime, statechangetime, starttime, endtime,
    proddbupdatetime, transformation, homepackage, atlasrelease, cmtconfig, container_name, ninputdatafiles,
    inputfilebytes, nevents)
SELECT
    job.pandaid, job.jeditaskid, 0, CASE WHEN task.prodsourcelabel IN ('user', 'panda') THEN task.jeditaskid END,
    task.reqid, task.reqid, task.taskname, 'defined', task.prodsourcelabel,
    task.label,
    queue.name, task.nucleus, task.cloud, task.vo, job.priority, task.priority, 0, 0, 0,
    nullif(job.corecount, -1), greatest(job.minramcount_mb, 0), 'MB', greatest(job.maxdiskcount_mb, 0), 'MB',
    greatest(job.maxcpucount_s, 0), 's', nullif(job.maxwalltime_s, -1), task.diskio,
    resource_type.name, task.gshare, task.workqueue_id,
    CASE WHEN job.merging = 1 THEN 'pmerge' ELSE task.processingtype END,
    task.working_group, task.countrygroup, task.user_name, task.username,
    task.eventservice, 0, 'jedi', %(now)s, %(now)s, %(now)s, NULL, NULL, NULL,
    task.transpath, task.package, task.transuses,
    nullif(left(platform.name, 250), ''),
    task.container_name, nullif(job.ninputdatafiles, -1), nullif(job.inputfilebytes, -1), greatest(job.nevents, 0)
FROM staged_jobs AS job
JOIN task ON task.jeditaskid = job.jeditaskid
JOIN unnest(%(queues)s::text[]) WITH ORDINALITY AS queue (name, number) ON queue.number = job.queue + 1
LEFT JOIN unnest(%(resource_types)s::text[]) WITH ORDINALITY AS resource_type (name, number)
    ON resource_type.number = job.resource_type + 1
LEFT JOIN unnest(%(platforms)s::text[]) WITH ORDINALITY AS platform (name, number)
    ON platform.number = job.platform + 1
"""

# Source: PanDA job generation; ready tasks start with their first jobs, as scouts if the jobs are scouts. A task that
# waited returns to its previous status.
TASKS_WITH_JOBS = """
WITH before AS (
    SELECT jeditaskid, status AS stored, CASE WHEN status = 'pending' THEN oldstatus ELSE status END AS status
    FROM {panda}.jedi_tasks WHERE jeditaskid = ANY(%(tasks)s)
), after AS (
    UPDATE {panda}.jedi_tasks AS task
    SET status = CASE before.status
            WHEN 'ready' THEN CASE WHEN task.jeditaskid = ANY(%(scouting)s) THEN 'scouting' ELSE 'running' END
            WHEN 'topreprocess' THEN 'preprocessing' ELSE before.status END,
        oldstatus = CASE WHEN before.stored = 'pending' THEN NULL ELSE task.oldstatus END,
        statechangetime = CASE WHEN before.status IN ('ready', 'topreprocess') OR before.stored = 'pending' THEN %(now)s
            ELSE task.statechangetime END,
        starttime = coalesce(task.starttime, %(now)s),
        frozentime = NULL, errordialog = NULL, modificationtime = %(now)s
    FROM before WHERE before.jeditaskid = task.jeditaskid
    RETURNING task.jeditaskid, task.status, task.attemptnr, before.stored AS old_status
)
INSERT INTO {panda}.tasks_statuslog (jeditaskid, modificationtime, status, attemptnr, reason, modificationhost)
SELECT jeditaskid, %(now)s, status, attemptnr,
    CASE WHEN old_status = 'pending' THEN 'jobs made after waiting' ELSE 'first jobs made' END, 'HOST'
FROM after WHERE status <> old_status
""".replace("HOST", HOST)

# ``frozentime`` is since when no queue has taken the task: a throttle on its user or share says nothing about queues.
TASKS_THAT_WAIT = """
WITH waiting AS (
    UPDATE {panda}.jedi_tasks AS task
    SET oldstatus = task.status, status = 'pending',
        frozentime = CASE WHEN task.jeditaskid = ANY(%(throttled)s) THEN task.frozentime
            ELSE coalesce(task.frozentime, %(now)s) END,
        statechangetime = %(now)s, modificationtime = %(now)s, errordialog = left(given.reason, 510)
    FROM unnest(%(tasks)s::bigint[], %(reasons)s::text[]) AS given (jeditaskid, reason)
    WHERE task.jeditaskid = given.jeditaskid AND task.status = ANY(%(holdable)s)
    RETURNING task.jeditaskid, task.attemptnr, given.reason
)
INSERT INTO {panda}.tasks_statuslog (jeditaskid, modificationtime, status, attemptnr, reason, modificationhost)
SELECT jeditaskid, %(now)s, 'pending', attemptnr, left(reason, 255), 'HOST' FROM waiting
""".replace("HOST", HOST)

# Tasks that were waiting already, for installations that decide about waiting work again in each cycle.
TASKS_THAT_WAIT_FOR_ANOTHER_REASON = """
UPDATE {panda}.jedi_tasks AS task
SET frozentime = CASE WHEN task.jeditaskid = ANY(%(throttled)s) THEN task.frozentime
        ELSE coalesce(task.frozentime, %(now)s) END,
    modificationtime = %(now)s, errordialog = left(given.reason, 510)
FROM unnest(%(tasks)s::bigint[], %(reasons)s::text[]) AS given (jeditaskid, reason)
WHERE task.jeditaskid = given.jeditaskid AND task.status = 'pending'
  AND task.errordialog IS DISTINCT FROM left(given.reason, 510)
"""

# Source: ATLAS Production Job Brokerage: a task of which all queues are skipped is pending for 1 hour.
REACTIVATE = """
WITH due AS (
    SELECT jeditaskid FROM {panda}.jedi_tasks
    WHERE status = 'pending' AND oldstatus = ANY(%(statuses)s)
      AND CASE WHEN %(for_users)s THEN prodsourcelabel IN ('user', 'panda') ELSE nucleus IS NOT NULL END
      AND modificationtime <= %(now)s - make_interval(mins => %(pending_minutes)s)
    ORDER BY jeditaskid
    FOR NO KEY UPDATE SKIP LOCKED
), woken AS (
    UPDATE {panda}.jedi_tasks AS task
    SET status = task.oldstatus, oldstatus = NULL, statechangetime = %(now)s, modificationtime = %(now)s
    FROM due WHERE due.jeditaskid = task.jeditaskid
    RETURNING task.jeditaskid, task.status, task.attemptnr
)
INSERT INTO {panda}.tasks_statuslog (jeditaskid, modificationtime, status, attemptnr, reason, modificationhost)
SELECT jeditaskid, %(now)s, status, attemptnr, 'brokered again after its time of waiting', 'HOST' FROM woken
""".replace("HOST", HOST)
