"""Job reports as rows: the current job, and the changes that a report causes, in one transaction.

Source: PanDA server, change of a job's status (updateJobStatus); PanDA data model, jobs, output reports, sitedata.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.pilots.model.job_report import JobReport
from broker.pilots.model.job_transition import JobState, Transition
from broker.store.connection.tables import Names, quoted
from broker.store.writes.job_row_sql import note_status

# A separate statement: one that waits for a row keeps the view of other tables from before the wait, and so would miss
# the final report that another transaction has just written.
_LOCK_JOB = "SELECT FROM {panda}.jobsactive4 WHERE pandaid = :pandaid FOR UPDATE"
_READ_STATE_OF_JOB = """
SELECT job.jobstatus, job.computingsite AS queue, coalesce(job.attemptnr, 0) AS attemptnr, job.batchid, job.starttime,
    nullif(job.endtime, '1970-01-01') AS endtime, job.commandtopilot, job.specialhandling,
    EXISTS (SELECT FROM {panda}.job_output_report AS report
            WHERE report.pandaid = job.pandaid AND report.attemptnr = coalesce(job.attemptnr, 0)) AS is_reported
FROM {panda}.jobsactive4 AS job WHERE job.pandaid = :pandaid"""
_READ_STATE_ELSEWHERE = """
SELECT jobstatus, computingsite AS queue, coalesce(attemptnr, 0) AS attemptnr
FROM {panda}.jobsdefined4 WHERE pandaid = :pandaid
UNION ALL
SELECT jobstatus, computingsite AS queue, coalesce(attemptnr, 0) AS attemptnr
FROM {panda}.jobsarchived4 WHERE pandaid = :pandaid LIMIT 1"""
_LOG = """
WITH changed AS (
    SELECT pandaid, jobstatus, prodsourcelabel, cloud, computingsite FROM {panda}.jobsactive4 WHERE pandaid = :pandaid
) NOTE_STATUS""".replace("NOTE_STATUS", note_status("changed", ":now"))
_INPUT_RUNS = """
UPDATE {panda}.jedi_dataset_contents SET proc_status = 'running'
WHERE pandaid = :pandaid AND status = 'running'
  AND type IN ('input', 'pseudo_input', 'pp_input', 'trn_log', 'trn_output')"""
# While the count of requests at the queue has the row locked, the start is not noted: no report waits for this.
_LAST_START = """
WITH free AS (
    SELECT site, flag, hours FROM {meta}.sitedata
    WHERE site = :queue AND hours = 3 AND flag IN ('production', 'analysis') FOR UPDATE SKIP LOCKED
)
UPDATE {meta}.sitedata AS row SET laststart = :now FROM free
WHERE row.site = free.site AND row.flag = free.flag AND row.hours = free.hours"""
_OUTPUT_REPORT = """
INSERT INTO {panda}.job_output_report (pandaid, attemptnr, prodsourcelabel, jobstatus, timestamp, data, jeditaskid)
SELECT pandaid, coalesce(attemptnr, 0), prodsourcelabel, :state, :now, :data, jeditaskid
FROM {panda}.jobsactive4 WHERE pandaid = :pandaid
ON CONFLICT (pandaid, attemptnr) DO NOTHING"""
_SAVE_METADATA = """
INSERT INTO {panda}.metatable (pandaid, modificationtime, metadata) VALUES (:pandaid, :now, :text)
ON CONFLICT (pandaid) DO UPDATE SET modificationtime = excluded.modificationtime, metadata = excluded.metadata"""
_SAVE_STDOUT = """
INSERT INTO {panda}.jobsdebug (pandaid, stdout) VALUES (:pandaid, :text)
ON CONFLICT (pandaid) DO UPDATE SET stdout = excluded.stdout"""
_PILOT_LOG = """
INSERT INTO {broker}.pilot_logs (pandaid, attemptnr, reported_at, text)
VALUES (:pandaid, :attemptnr, :aware_now, :text)
ON CONFLICT (pandaid, attemptnr) DO UPDATE SET reported_at = excluded.reported_at, text = excluded.text"""
_READ_STATUSES_OF_JOBS = """
SELECT DISTINCT ON (pandaid) pandaid, jobstatus, attemptnr FROM (
    SELECT pandaid, jobstatus, coalesce(attemptnr, 0) AS attemptnr, 1 AS place FROM {panda}.jobsactive4
    UNION ALL SELECT pandaid, jobstatus, coalesce(attemptnr, 0), 2 FROM {panda}.jobsarchived4
) AS job WHERE pandaid = ANY(:pandaids) ORDER BY pandaid, place"""


def read_state(connection: sa.Connection, names: Names, pandaid: int) -> JobState | None:
    """Return the current job, locked where a pilot may have it; None if there is no such job."""
    connection.execute(sa.text(names.sql(_LOCK_JOB)), {"pandaid": pandaid})
    row = connection.execute(sa.text(names.sql(_READ_STATE_OF_JOB)), {"pandaid": pandaid}).mappings().first()
    if row is None:
        row = connection.execute(sa.text(names.sql(_READ_STATE_ELSEWHERE)), {"pandaid": pandaid}).mappings().first()
    return None if row is None else JobState(**{**row, "jobstatus": row["jobstatus"] or ""})


def write_transition(
    connection: sa.Connection, names: Names, report: JobReport, change: Transition, now: datetime
) -> None:
    """Write the changes that a report causes, in the transaction that read the job."""
    stamp = naive(now)
    common = {"pandaid": report.pandaid, "now": stamp}

    def run(statement: str, **values: Any) -> None:
        connection.execute(sa.text(names.sql(statement)), common | values)

    if change.columns:
        settings = ", ".join(f"{quoted(name)} = :c_{name}" for name in change.columns)
        statement = f"UPDATE {{panda}}.jobsactive4 SET {settings} WHERE pandaid = :pandaid"  # noqa: S608 - our own names
        run(statement, **{f"c_{name}": value for name, value in change.columns.items()})
    if not change.is_applied:
        return
    if change.status is not None:
        run(_LOG)
    if change.starts:
        run(_INPUT_RUNS)
        if report.queue is not None:
            run(_LAST_START, queue=report.queue)
    if report.metadata:
        run(_SAVE_METADATA, text=report.metadata)
    if report.stdout:
        run(_SAVE_STDOUT, text=report.stdout)
    if report.pilot_log:
        run(_PILOT_LOG, text=report.pilot_log, attemptnr=report.attemptnr or 0, aware_now=now)
    if change.is_final:
        run(_OUTPUT_REPORT, state=report.state, data=report.output_report)


def read_statuses(connection: sa.Connection, names: Names, pandaids: list[int]) -> dict[int, tuple[str, int]]:
    """Status and attempt of jobs that pilots have had, by number."""
    rows = connection.execute(sa.text(names.sql(_READ_STATUSES_OF_JOBS)), {"pandaids": pandaids})
    return {row.pandaid: (row.jobstatus or "", row.attemptnr) for row in rows}
