"""An independent auditor: it reads the database and reports forbidden states.

It trusts no statement of the broker about itself: it compares jobs, files, counters, decisions and epochs with one
another, and with the state before the brokers started.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.decisions.decision_rows import COLUMNS, TABLE, decisions_of

LIVE_JOBS = """
    (SELECT pandaid, jeditaskid, computingsite, jobstatus FROM doma_panda.jobsdefined4
     UNION ALL SELECT pandaid, jeditaskid, computingsite, jobstatus FROM doma_panda.jobsactive4)"""


@dataclass(frozen=True)
class Baseline:
    """The state before the brokers started: the highest job and each dataset's counter of used files."""

    last_pandaid: int
    used: dict[int, int]


def baseline(database: Database) -> Baseline:
    """Record the state for a later audit."""
    with database.begin() as connection:
        last = connection.execute(sa.text(f"SELECT coalesce(max(pandaid), 0) FROM {LIVE_JOBS} AS live")).scalar_one()
        used = connection.execute(sa.text("SELECT datasetid, coalesce(nfilesused, 0) FROM doma_panda.jedi_datasets"))
        return Baseline(last, {datasetid: count for datasetid, count in used})


CHECKS = {
    "a file is marked for a job that is not there": f"""
        SELECT file.fileid, file.pandaid FROM doma_panda.jedi_dataset_contents AS file
        LEFT JOIN {LIVE_JOBS} AS job ON job.pandaid = file.pandaid
        WHERE file.pandaid > :last AND job.pandaid IS NULL""",
    "a marked file is still ready": """
        SELECT fileid FROM doma_panda.jedi_dataset_contents WHERE pandaid > :last AND status = 'ready'""",
    "a file has more than one live job": f"""
        SELECT record.fileid, count(*) FROM doma_panda.filestable4 AS record
        JOIN {LIVE_JOBS} AS job ON job.pandaid = record.pandaid
        JOIN doma_panda.jedi_dataset_contents AS file
            ON file.jeditaskid = record.jeditaskid AND file.datasetid = record.datasetid AND file.fileid = record.fileid
        WHERE record.pandaid > :last AND file.pandaid > :last
        GROUP BY record.jeditaskid, record.datasetid, record.fileid HAVING count(*) > 1""",
    "a file is recorded with another job than it is marked for": """
        SELECT record.fileid, record.pandaid, file.pandaid FROM doma_panda.filestable4 AS record
        JOIN doma_panda.jedi_dataset_contents AS file
            ON file.jeditaskid = record.jeditaskid AND file.datasetid = record.datasetid AND file.fileid = record.fileid
        WHERE record.pandaid > :last AND file.pandaid > :last AND file.pandaid <> record.pandaid""",
    "a job has no file": f"""
        SELECT job.pandaid FROM {LIVE_JOBS} AS job
        WHERE job.pandaid > :last
          AND NOT EXISTS (SELECT 1 FROM doma_panda.jedi_dataset_contents AS file WHERE file.pandaid = job.pandaid)""",
    "the decisions assigned another number of jobs than there are": f"""
        SELECT jeditaskid, made, told FROM (
            SELECT jeditaskid, count(*) AS made FROM {LIVE_JOBS} AS job WHERE pandaid > :last GROUP BY jeditaskid
        ) AS jobs FULL JOIN (
            SELECT decision.jeditaskid, sum(assigned.value::bigint) AS told
            FROM broker.stored_decisions AS decision CROSS JOIN LATERAL jsonb_each_text(decision.assigned) AS assigned
            GROUP BY decision.jeditaskid
        ) AS decisions USING (jeditaskid)
        WHERE coalesce(made, 0) <> coalesce(told, 0)""",
    "an epoch went back": """
        SELECT agent, id, epoch FROM (
            SELECT agent, id, epoch, max(epoch) OVER (PARTITION BY agent, part ORDER BY started_at, id) AS highest
            FROM broker.agent_runs
        ) AS runs WHERE epoch < highest""",
    "a decision names no run": """
        SELECT decision.id FROM broker.stored_decisions AS decision
        LEFT JOIN broker.agent_runs AS run ON run.id = decision.agent_run WHERE run.id IS NULL""",
}

MARKED_FILES = """
    SELECT dataset.datasetid, coalesce(dataset.nfilesused, 0), count(file.fileid)
    FROM doma_panda.jedi_datasets AS dataset
    LEFT JOIN doma_panda.jedi_dataset_contents AS file
        ON file.jeditaskid = dataset.jeditaskid AND file.datasetid = dataset.datasetid AND file.pandaid > :last
    GROUP BY dataset.jeditaskid, dataset.datasetid"""

NO_DECISION = "a job has no decision with its queue among the candidates"
COUNTERS = "a counter of used files differs from the files"


def audit(database: Database, before: Baseline) -> list[str]:
    """Return one line for each forbidden state; empty when the history is consistent."""
    findings: list[str] = []
    with database.begin() as connection:
        for title, query in CHECKS.items():
            rows = connection.execute(sa.text(query), {"last": before.last_pandaid}).fetchmany(5)
            findings += [f"{title}: {tuple(row)}" for row in rows]
        findings += _undecided_jobs(connection, before)
        marked_files = connection.execute(sa.text(MARKED_FILES), {"last": before.last_pandaid})
        for datasetid, used, files in marked_files:
            if used != before.used.get(datasetid, 0) + files:
                findings.append(f"{COUNTERS}: {(datasetid, before.used.get(datasetid, 0), files, used)}")
    return findings


def _undecided_jobs(connection: sa.Connection, before: Baseline) -> list[str]:
    """Return jobs at queues that are not among the candidates of any decision about their task."""
    jobs = connection.execute(
        sa.text(f"SELECT DISTINCT jeditaskid, computingsite FROM {LIVE_JOBS} AS job WHERE pandaid > :last"),
        {"last": before.last_pandaid},
    ).all()
    query = sa.text(f"SELECT {COLUMNS} FROM {TABLE} WHERE jeditaskid = ANY(:tasks)")
    rows = connection.execute(query, {"tasks": [task for task, _ in jobs]})
    candidate_queues = {
        (stored_decision.record.decision.jeditaskid, name)
        for stored_decision in decisions_of(connection, (dict(row._mapping) for row in rows))
        for candidate in stored_decision.record.decision.candidates
        for name in (candidate.name, candidate.name.partition("/")[0])
    }
    return [f"{NO_DECISION}: {(task, queue)}" for task, queue in jobs if (task, queue) not in candidate_queues]
