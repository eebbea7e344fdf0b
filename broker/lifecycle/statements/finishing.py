"""Reads the jobs with a final report, and ends them with their files and counters, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.lifecycle.statements import action_sql
from broker.lifecycle.statements.action_sql import FILES_OF_JOBS
from broker.lifecycle.statements.actions import (
    ActionContext,
    ActOutcome,
    JobAction,
    MoveBatch,
    archive_statement,
    end_staged,
    staged,
)
from broker.pilots.model.job_outcome import FinalReport, JobEnd, OutputFile
from broker.store.connection.database import Database
from broker.store.connection.tables import Names

COPY = """
COPY staged_moves (pandaid, in_table, old_status, seen, queue, jeditaskid, new_status, is_kill, is_told, error,
    error_code, rule, action, code) FROM STDIN
"""

# What is known about each output file that does not end as failed.
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

# Files without a number of attempts are secondary: no counter includes them.
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

# A failed job's ddm error is written while the job is still in its table. Its modification time, which the move checks,
# stays.
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


RULE = "final_report"
"""Rule that is recorded with the action on a job that its pilot reported as failed."""

# The oldest report first; one that another batch failed on waits for the next cycle.
_READ_REPORTED_ENDS = """
SELECT job.pandaid, job.modificationtime, job.computingsite, job.jeditaskid, report.jobstatus AS state,
    coalesce(report.data, '') AS data, coalesce(job.piloterrorcode, 0) AS pilot_error,
    coalesce(job.exeerrorcode, 0) AS exe_error, job.transexitcode AS exit_code
FROM {panda}.job_output_report AS report
JOIN {panda}.jobsactive4 AS job ON job.pandaid = report.pandaid AND coalesce(job.attemptnr, 0) = report.attemptnr
WHERE job.jobstatus = 'holding' AND (CAST(:tasks AS bigint[]) IS NULL OR job.jeditaskid = ANY(CAST(:tasks AS bigint[])))
  AND NOT job.pandaid = ANY(CAST(:skipped AS bigint[]))
ORDER BY report.timestamp, job.pandaid LIMIT :most"""
_READ_OUTPUT_FILES = """
SELECT file.pandaid, file.lfn, file.type,
    coalesce(dataset.attributes ~ '(^|,)an(=|,|$)', false) AS may_be_missing
FROM {panda}.filestable4 AS file
LEFT JOIN {panda}.jedi_datasets AS dataset
    ON dataset.jeditaskid = file.jeditaskid AND dataset.datasetid = file.datasetid
WHERE file.pandaid = ANY(:jobs) AND file.type IN ('output', 'log')
ORDER BY file.row_id"""


@dataclass(frozen=True)
class ReportedJob:
    """A job with its final report, and the files that it was supposed to write.

    Attributes:
        pandaid: the job.
        modificationtime: its time of last change, naive UTC.
        queue: its computingsite.
        jeditaskid: its task.
        report: what its pilot reported.
        files: the files of its output and log.
    """

    pandaid: int
    modificationtime: datetime | None
    queue: str | None
    jeditaskid: int | None
    report: FinalReport
    files: tuple[OutputFile, ...]


def read_reported(
    connection: sa.Connection,
    names: Names,
    most: int,
    tasks: Sequence[int] | None = None,
    skipped: Sequence[int] = (),
) -> list[ReportedJob]:
    """The jobs whose final report waits to be acted on, the oldest report first.

    Args:
        connection: any transaction.
        names: the names of the schemas.
        most: the maximum number of jobs.
        tasks: only jobs of these tasks; None for all.
        skipped: jobs to leave out.
    """
    parameters = {"most": most, "tasks": None if tasks is None else list(tasks), "skipped": list(skipped)}
    rows = connection.execute(sa.text(names.sql(_READ_REPORTED_ENDS)), parameters).all()
    files: dict[int, list[OutputFile]] = {}
    for row in connection.execute(sa.text(names.sql(_READ_OUTPUT_FILES)), {"jobs": [row.pandaid for row in rows]}):
        files.setdefault(row.pandaid, []).append(OutputFile(row.lfn, row.type, row.may_be_missing))
    return [
        ReportedJob(
            row.pandaid,
            row.modificationtime,
            row.computingsite,
            row.jeditaskid,
            FinalReport(row.state or "", row.data, row.pilot_error, row.exe_error, row.exit_code),
            tuple(files.get(row.pandaid, ())),
        )
        for row in rows
    ]


def finish(connection: sa.Connection, ends: Sequence[tuple[ReportedJob, JobEnd]], by: ActionContext) -> ActOutcome:
    """End jobs as decided if they are still as they were seen, and delete their reports.

    A finished job is archived with its input and output finished and counted. A failed one gives its input back with
    the attempt and the failure counted, and its queue is remembered, so that the next attempt is made elsewhere.
    """
    finished = [(job, end) for job, end in ends if end.status == "finished"]
    failed = [(job, end) for job, end in ends if end.status == "failed"]
    outcomes = [_finish(connection, finished, by), _fail(connection, failed, by)]
    acted = tuple(sorted(pandaid for outcome in outcomes for pandaid in outcome.acted))
    skipped = tuple(sorted(pandaid for outcome in outcomes for pandaid in outcome.skipped))
    batch = MoveBatch(connection, by)
    batch.run(FORGET_REPORTS, jobs=list(acted))
    batch.run(FORGET_STALE_REPORTS)
    return ActOutcome(
        acted, skipped, sum(outcome.files for outcome in outcomes), sum(outcome.files_lost for outcome in outcomes)
    )


def _finish(connection: sa.Connection, ends: Sequence[tuple[ReportedJob, JobEnd]], by: ActionContext) -> ActOutcome:
    if not ends:
        return ActOutcome((), ())
    batch = MoveBatch(connection, by)
    batch.stage((_finished_row(job) for job, _ in ends), COPY)
    batch.take(sorted({job.jeditaskid for job, _ in ends if job.jeditaskid is not None}))
    _keep_files(connection, batch, ends)
    batch.run(archive_statement(by.catalogue, "jobsactive4"))
    ((files,),) = batch.run(FINISH_INPUT, events_are_counted=by.standalone)
    acted = tuple(pandaid for (pandaid,) in batch.run(action_sql.TAKEN))
    return ActOutcome(acted, tuple(sorted({job.pandaid for job, _ in ends}.difference(acted))), files)


def _finished_row(job: ReportedJob) -> tuple[object, ...]:
    """The row of a finished job, in the order of the COPY."""
    seen = (job.pandaid, "jobsactive4", "holding", job.modificationtime, job.queue, job.jeditaskid)
    return (*seen, "finished", False, False, "reported", 0, RULE, "finished", 0)


def _fail(connection: sa.Connection, ends: Sequence[tuple[ReportedJob, JobEnd]], by: ActionContext) -> ActOutcome:
    if not ends:
        return ActOutcome((), ())
    batch = MoveBatch(connection, by)
    ddm_errors = [(job.pandaid, end.ddm_error, end.ddm_diag) for job, end in ends if end.ddm_error]
    if ddm_errors:
        jobs, codes, diags = (list(column) for column in zip(*ddm_errors, strict=True))
        batch.run(NOTE_DDM_ERRORS, jobs=jobs, codes=codes, diags=diags)
    moves = [_failure(job, end) for job, end in ends]
    batch.stage(staged(moves))
    batch.take(sorted({move.jeditaskid for move in moves if move.jeditaskid is not None}))
    _keep_files(connection, batch, ends)
    return end_staged(batch, moves, by)


def _failure(job: ReportedJob, end: JobEnd) -> JobAction:
    return JobAction(
        job.pandaid,
        "jobsactive4",
        "holding",
        job.modificationtime,
        job.queue,
        job.jeditaskid,
        RULE,
        "failed",
        end.code,
        error="reported",
        detail={"reason": end.reason, "pilot_error": job.report.pilot_error, "exit_code": job.report.exit_code},
    )


def _keep_files(connection: sa.Connection, batch: MoveBatch, ends: Sequence[tuple[ReportedJob, JobEnd]]) -> None:
    for statement in STAGE_FILES.split(";"):
        batch.run(statement)
    with Database.raw(connection).cursor() as cursor, cursor.copy(COPY_FILES.encode()) as copy:
        for row in _written(ends):
            copy.write_row(row)
    batch.run(KEEP_FILES)


def _written(ends: Sequence[tuple[ReportedJob, JobEnd]]) -> Iterator[tuple[object, ...]]:
    for job, end in ends:
        for file in end.files:
            if file.status == "failed":
                continue
            written = file.written
            attributes = (None, None, None) if written is None else (written.guid, written.fsize, written.checksum)
            yield (job.pandaid, file.lfn, file.status, *attributes)
