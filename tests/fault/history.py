"""Invariants that no run may violate: consistency between tables, and the jobs that pilots received.

:mod:`tests.fault.auditor` covers jobs that have not run yet; this module also covers jobs that run and end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa

from broker.store.connection.database import Database

JOBS = """
    (SELECT pandaid, jeditaskid, 1 AS live FROM doma_panda.jobsdefined4
     UNION ALL SELECT pandaid, jeditaskid, 1 FROM doma_panda.jobsactive4
     UNION ALL SELECT pandaid, jeditaskid, 0 FROM doma_panda.jobsarchived4)"""

# At each commit that creates, moves or ends jobs, record the transaction's run and the lease in force.
WATCH = """
CREATE TABLE broker.watched_runs (transaction text, agent_run bigint, PRIMARY KEY (transaction, agent_run));
CREATE TABLE broker.watched_commits (transaction text, agent text, epoch bigint, PRIMARY KEY (transaction, agent));
CREATE FUNCTION broker.watch_run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO broker.watched_runs VALUES (pg_current_xact_id()::text, NEW.agent_run) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE FUNCTION broker.watch_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO broker.watched_commits
    SELECT pg_current_xact_id()::text, name, epoch FROM broker.leases ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER watch_run AFTER INSERT ON broker.decisions FOR EACH ROW EXECUTE FUNCTION broker.watch_run();
CREATE TRIGGER watch_run AFTER INSERT ON broker.job_actions FOR EACH ROW EXECUTE FUNCTION broker.watch_run();
CREATE CONSTRAINT TRIGGER watch_commit AFTER INSERT ON doma_panda.jobsdefined4 DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION broker.watch_commit();
CREATE CONSTRAINT TRIGGER watch_commit AFTER INSERT ON broker.job_actions DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION broker.watch_commit()"""

FENCED_COMMITS = """
SELECT count(*) FROM broker.watched_runs JOIN broker.watched_commits USING (transaction)
JOIN broker.agent_runs AS run ON run.id = agent_run AND run.agent = watched_commits.agent"""

CHECKS = {
    "a file has more than one live job": f"""
        SELECT record.jeditaskid, record.datasetid, record.fileid, count(DISTINCT job.pandaid)
        FROM doma_panda.filestable4 AS record JOIN {JOBS} AS job ON job.pandaid = record.pandaid AND job.live = 1
        WHERE record.type IN ('input', 'pseudo_input') AND record.pandaid > :last
        GROUP BY 1, 2, 3 HAVING count(DISTINCT job.pandaid) > 1""",
    "a job is in more than one table": f"""
        SELECT pandaid, count(*) FROM {JOBS} AS job GROUP BY pandaid HAVING count(*) > 1""",
    "a job ended twice": """
        SELECT pandaid, count(*) FROM doma_panda.jobs_statuslog
        WHERE jobstatus IN ('finished', 'failed', 'closed') AND pandaid > :last GROUP BY pandaid HAVING count(*) > 1""",
    # a file with no attempts left is ready and counts as used and failed
    "a counter differs from the files": """
        SELECT dataset.jeditaskid, dataset.datasetid, dataset.nfilesused, counted.used, dataset.nfilesfinished,
            counted.finished, dataset.nfilesfailed, counted.lost
        FROM doma_panda.jedi_datasets AS dataset CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE file.status <> 'ready' OR file.is_lost) AS used,
                count(*) FILTER (WHERE file.status = 'finished') AS finished,
                count(*) FILTER (WHERE file.is_lost) AS lost
            FROM (SELECT *, status = 'ready' AND (attemptnr >= maxattempt OR failedattempt >= maxfailure) AS is_lost
                  FROM doma_panda.jedi_dataset_contents) AS file
            WHERE file.jeditaskid = dataset.jeditaskid AND file.datasetid = dataset.datasetid
        ) AS counted
        WHERE dataset.masterid IS NULL AND dataset.type IN ('input', 'pseudo_input')
          AND (dataset.nfilesused, dataset.nfilesfinished, coalesce(dataset.nfilesfailed, 0))
              <> (counted.used, counted.finished, counted.lost)""",
    "an epoch went back": """
        SELECT agent, id, epoch FROM (
            SELECT agent, id, epoch, max(epoch) OVER (PARTITION BY agent, part ORDER BY started_at, id) AS highest
            FROM broker.agent_runs
        ) AS runs WHERE epoch < highest""",
    "a run wrote after another one had its lease": """
        SELECT run.agent, run.id, run.epoch, at_commit.epoch
        FROM broker.watched_runs JOIN broker.watched_commits AS at_commit USING (transaction)
        JOIN broker.agent_runs AS run ON run.id = agent_run AND run.agent = at_commit.agent
        WHERE run.epoch <> at_commit.epoch""",
    "a decision names no run": """
        SELECT decision.id FROM broker.stored_decisions AS decision
        LEFT JOIN broker.agent_runs AS run ON run.id = decision.agent_run WHERE run.id IS NULL""",
}


def watch(database: Database) -> int:
    """Start recording the lease in force at each commit; return the highest job."""
    with database.begin() as connection:
        connection.exec_driver_sql(WATCH)
        return int(connection.execute(sa.text(f"SELECT coalesce(max(pandaid), 0) FROM {JOBS} AS job")).scalar_one())


def violations(database: Database, last: int, assigned_jobs: Sequence[int]) -> list[str]:
    """Return one line for each violated invariant; ``assigned_jobs`` holds the job of each response to a pilot."""
    findings = [
        f"a job was given to {times} pilots: {job}" for job, times in Counter(assigned_jobs).items() if times > 1
    ]
    with database.read_snapshot() as connection:
        for title, query in CHECKS.items():
            rows = connection.execute(sa.text(query), {"last": last}).fetchmany(5)
            findings += [f"{title}: {tuple(row)}" for row in rows]
    return findings


def fenced_commits(database: Database) -> int:
    """Return the number of commits compared with the lease in force."""
    with database.read_snapshot() as connection:
        return int(connection.execute(sa.text(FENCED_COMMITS)).scalar_one())
