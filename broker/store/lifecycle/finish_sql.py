"""The statements that finish jobs, beside those of :mod:`broker.store.lifecycle.ended_files_sql`.

Source: PanDA server, adder of output and propagation of results; PanDA data model, datasets and files.
"""

from __future__ import annotations

from broker.store.lifecycle.ended_files_sql import FILES_OF_JOBS

COPY = """
COPY staged_moves (pandaid, in_table, old_status, seen, queue, jeditaskid, new_status, is_kill, is_told, error,
    error_code, rule, action, code) FROM STDIN
"""

# What is known of each file of the output that does not end as failed.
STAGE_FILES = """
CREATE TEMPORARY TABLE IF NOT EXISTS written_files (
    pandaid bigint, lfn text, status text, guid text, fsize bigint, checksum text
) ON COMMIT DROP;
TRUNCATE written_files
"""
COPY_FILES = "COPY written_files (pandaid, lfn, status, guid, fsize, checksum) FROM STDIN"

# The log of a failed job is kept like the output of a finished one. Only files of jobs that were taken count.
KEEP_FILES = """
WITH kept AS MATERIALIZED (
    SELECT file.*, move.jeditaskid FROM written_files AS file JOIN staged_moves AS move USING (pandaid)
    WHERE move.taken AND NOT move.is_told
), recorded AS (
    UPDATE {panda}.filestable4 AS record
    SET status = kept.status, guid = coalesce(kept.guid, record.guid), fsize = coalesce(kept.fsize, record.fsize),
        checksum = coalesce(kept.checksum, record.checksum), modificationtime = %(now)s
    FROM kept
    WHERE record.pandaid = kept.pandaid AND record.lfn = kept.lfn AND record.type IN ('output', 'log')
    RETURNING record.pandaid, record.jeditaskid, record.datasetid, record.fileid, kept.status, record.guid,
        record.fsize, record.checksum
), filled AS (
    UPDATE {panda}.jedi_dataset_contents AS file
    SET status = recorded.status, proc_status = 'finished', guid = recorded.guid, fsize = recorded.fsize,
        checksum = recorded.checksum
    FROM recorded
    WHERE file.jeditaskid = recorded.jeditaskid AND file.datasetid = recorded.datasetid
      AND file.fileid = recorded.fileid AND file.pandaid = recorded.pandaid AND file.status IS DISTINCT FROM 'finished'
    RETURNING file.jeditaskid, file.datasetid
), sums AS (
    SELECT jeditaskid, datasetid, count(*) AS files FROM filled GROUP BY jeditaskid, datasetid
), counted AS (
    UPDATE {panda}.jedi_datasets AS dataset
    SET nfilesfinished = coalesce(dataset.nfilesfinished, 0) + sums.files, modificationtime = %(now)s
    FROM sums
    WHERE dataset.jeditaskid = sums.jeditaskid AND dataset.datasetid = sums.datasetid
)
SELECT count(*) FROM filled
"""

# Files without a number of attempts are secondary: no counter knows them.
FINISH_INPUT = """
WITH FILES_OF_JOBS, done AS (
    UPDATE {panda}.jedi_dataset_contents AS file
    SET status = 'finished', proc_status = 'finished', lastattempttime = %(now)s
    FROM mine AS move
    WHERE file.jeditaskid = move.jeditaskid AND file.datasetid = move.datasetid AND file.fileid = move.fileid
      AND file.type IN ('input', 'pseudo_input', 'pp_input', 'pp_log', 'trn_log', 'trn_output', 'trn_unknown')
      AND file.status IN ('picked', 'running', 'merging') AND coalesce(file.keeptrack, 1) = 1
    RETURNING file.jeditaskid, file.datasetid, file.maxattempt IS NOT NULL AS is_counted, move.was_on_hold
), sums AS (
    SELECT jeditaskid, datasetid, count(*) AS files, count(*) FILTER (WHERE is_counted) AS counted,
        count(*) FILTER (WHERE is_counted AND was_on_hold) AS on_hold
    FROM done GROUP BY jeditaskid, datasetid
), summed AS (
    UPDATE {panda}.jedi_datasets AS dataset
    SET nfilesfinished = coalesce(dataset.nfilesfinished, 0) + sums.counted,
        nfilesonhold = greatest(dataset.nfilesonhold - sums.on_hold, 0), modificationtime = %(now)s
    FROM sums
    WHERE dataset.jeditaskid = sums.jeditaskid AND dataset.datasetid = sums.datasetid AND sums.counted > 0
)
SELECT coalesce(sum(files), 0)::bigint FROM sums
""".replace("FILES_OF_JOBS", FILES_OF_JOBS.strip())

# A failed job's ddm error is written while it is in its table still; its time of change stays, which the move looks at.
NOTE_DDM_ERRORS = """
UPDATE {panda}.jobsactive4 AS job SET ddmerrorcode = given.code, ddmerrordiag = given.diag
FROM unnest(%(jobs)s::bigint[], %(codes)s::integer[], %(diags)s::text[]) AS given (pandaid, code, diag)
WHERE job.pandaid = given.pandaid AND job.jobstatus = 'holding'
"""

FORGET_REPORTS = "DELETE FROM {panda}.job_output_report WHERE pandaid = ANY(%(jobs)s)"

# Reports of jobs that ended otherwise are of no use any more.
FORGET_STALE_REPORTS = """
DELETE FROM {panda}.job_output_report AS report
WHERE report.timestamp < %(now)s - interval '1 day'
  AND NOT EXISTS (SELECT FROM {panda}.jobsactive4 AS job WHERE job.pandaid = report.pandaid)
"""
