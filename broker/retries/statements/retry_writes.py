"""What rules change in files and tasks, one statement per action with its condition in it, and the record of it.

A file is changed only while it still belongs to the failed job, or while the attempt after it runs. A file without an
attempt left is counted as used and failed, as at the end of a job. Source: panda-server, ``misc_standalone_module``
(setNoRetry, setMaxAttempt, increase_max_failure), ``task_event_module`` (increaseRamLimitJobJEDI).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.retries.model.retry_effects import Effect
from broker.retries.model.retry_rules import ErrorRule, JobError, Judgement
from broker.retries.statements.retry_rows import INPUT_TYPES, FailedRow
from broker.store.connection.tables import Names

_MINE = """
    SELECT jeditaskid, datasetid, fileid FROM {panda}.filestable4
    WHERE pandaid = :job AND jeditaskid = :task AND type = ANY(:types) AND lfn NOT LIKE '%DBRelease%'"""
_LOCK = (
    "SELECT jeditaskid FROM {panda}.jedi_tasks WHERE jeditaskid = ANY(:tasks) ORDER BY 1 FOR NO KEY UPDATE SKIP LOCKED"
)
# Without a number: no further attempt, not even after a running one. With one: only files that are still the job's.
_LIMIT = """
WITH mine AS (MINE), smallest AS (
    SELECT min(file.maxattempt) AS tries FROM mine JOIN {panda}.jedi_dataset_contents AS file
        USING (jeditaskid, datasetid, fileid) WHERE file.pandaid = :job
), limited AS (
    UPDATE {panda}.jedi_dataset_contents AS file
    SET maxattempt = coalesce(CAST(:most AS integer), file.attemptnr),
        proc_status = CASE WHEN file.status = 'ready' AND file.proc_status = 'ready'
                AND coalesce(CAST(:most AS integer), file.attemptnr) <= file.attemptnr
            THEN 'failed' ELSE file.proc_status END
    FROM mine, smallest
    WHERE file.jeditaskid = mine.jeditaskid AND file.datasetid = mine.datasetid AND file.fileid = mine.fileid
      AND file.attemptnr IS NOT NULL AND file.maxattempt > coalesce(CAST(:most AS integer), file.attemptnr)
      AND file.maxattempt > file.attemptnr
      AND (file.maxfailure IS NULL OR file.failedattempt IS NULL OR file.maxfailure > file.failedattempt)
      AND coalesce(file.keeptrack, 1) = 1 AND file.status IN ('ready', 'picked', 'running')
      AND (CAST(:most AS integer) IS NULL OR (file.pandaid = :job AND smallest.tries > :most))
    RETURNING file.datasetid, file.status = 'ready' AND file.maxattempt <= file.attemptnr AS is_lost,
        CASE WHEN file.startevent IS NOT NULL AND file.endevent IS NOT NULL
             THEN greatest(file.endevent - file.startevent + 1, 1)
             ELSE greatest(coalesce(file.nevents, 0), 0) END AS events
), sums AS (
    SELECT datasetid, count(*) AS files, sum(events) AS events FROM limited WHERE is_lost GROUP BY datasetid
), counted AS (
    UPDATE {panda}.jedi_datasets AS dataset
    SET nfilesused = coalesce(nfilesused, 0) + sums.files, nfilesfailed = coalesce(nfilesfailed, 0) + sums.files,
        neventsused = coalesce(neventsused, 0) + sums.events, modificationtime = :now
    FROM sums WHERE dataset.jeditaskid = :task AND dataset.datasetid = sums.datasetid
)
SELECT count(*), count(*) FILTER (WHERE is_lost) FROM limited""".replace("MINE", _MINE)
_FILE_MEMORY = """
WITH mine AS (MINE)
UPDATE {panda}.jedi_dataset_contents AS file SET ramcount = :ramcount FROM mine
WHERE file.jeditaskid = mine.jeditaskid AND file.datasetid = mine.datasetid AND file.fileid = mine.fileid
  AND coalesce(file.ramcount, 0) < :ramcount""".replace("MINE", _MINE)
_TASK = {
    ("ramcount",): """
UPDATE {panda}.jedi_tasks SET ramcount = :ramcount, resource_type = NULL
WHERE jeditaskid = :task AND ramcount < :ramcount""",
    ("cputime", "cputimeunit"): """
UPDATE {panda}.jedi_tasks SET cputime = :cputime, cputimeunit = :cputimeunit
WHERE jeditaskid = :task
  AND (cputime IS DISTINCT FROM :cputime OR cputimeunit IS DISTINCT FROM CAST(:cputimeunit AS text))""",
    ("walltimeunit",): """
UPDATE {panda}.jedi_tasks SET walltimeunit = NULL, modificationtime = :now
WHERE jeditaskid = :task AND modificationtime < CAST(:now AS timestamp) - interval '30 minutes'""",
    ("splitrule",): """
UPDATE {panda}.jedi_tasks SET splitrule = :splitrule
WHERE jeditaskid = :task AND splitrule IS DISTINCT FROM :splitrule""",
}
_MORE_FAILURES = """
WITH mine AS (MINE)
UPDATE {panda}.jedi_dataset_contents AS file SET maxfailure = file.maxfailure + 1 FROM mine
WHERE file.jeditaskid = mine.jeditaskid AND file.datasetid = mine.datasetid AND file.fileid = mine.fileid
  AND file.pandaid = :job AND file.maxfailure < 32767""".replace("MINE", _MINE)
_RECORD = """
INSERT INTO broker.retry_actions (acted_at, agent_run, pandaid, attemptnr, jeditaskid, queue, rule, rules_version,
    errorsource, errorcode, action, active, target, rows_changed, before, after, reason, evidence)
VALUES (:now, :run, :job, :attempt, :task, :queue, :rule, :version, :source, :code, :action, :active, :target, :rows,
    CAST(:before AS jsonb), CAST(:after AS jsonb), :reason, CAST(:evidence AS jsonb))"""


@dataclass(frozen=True)
class RetryRun:
    """The run of the agent that acts, its time (aware) and the version of its rules."""

    run_id: int | None
    now: datetime
    version: str


def lock_tasks(connection: sa.Connection, names: Names, tasks: Sequence[int]) -> set[int]:
    """Lock the tasks that nobody else is writing to until the end of the transaction, and return them."""
    return set(connection.scalars(sa.text(names.sql(_LOCK)), {"tasks": sorted(set(tasks))}))


def carry_out(
    connection: sa.Connection, names: Names, one: FailedRow, effect: Effect, now: datetime
) -> tuple[int, int]:
    """Carry out the effect of a rule; return the number of changed rows and of files left without an attempt."""
    values: dict[str, Any] = {"job": one.pandaid, "task": one.jeditaskid, "types": list(INPUT_TYPES)}
    values |= {"now": naive(now), **effect.after}
    if effect.target == "none":
        return 0, 0
    if "maxattempt" in effect.after:
        values["most"] = effect.after["maxattempt"]
        changed, lost = connection.execute(sa.text(names.sql(_LIMIT)), values).one()
        return int(changed), int(lost)
    statement = _FILE_MEMORY if effect.target == "files" else _TASK[tuple(effect.after)]
    return connection.execute(sa.text(names.sql(statement)), values).rowcount, 0


def allow_failure(connection: sa.Connection, names: Names, one: FailedRow) -> int:
    """Let the input of a job fail once more, so that this failure does not count; return the number of files."""
    values = {"job": one.pandaid, "task": one.jeditaskid, "types": list(INPUT_TYPES)}
    return connection.execute(sa.text(names.sql(_MORE_FAILURES)), values).rowcount


def record(
    connection: sa.Connection, one: FailedRow, judged: Judgement, effect: Effect, rows: int, by: RetryRun, active: bool
) -> None:
    """Record what a rule did or, if passive, would have done."""
    _record(connection, one, judged.error, by, {
        "rule": judged.rule.name, "action": judged.rule.action, "active": active, "target": effect.target, "rows": rows,
        "before": json.dumps(dict(effect.before)), "after": json.dumps(dict(effect.after)), "reason": effect.reason,
    })  # fmt: skip


def record_class(
    connection: sa.Connection, one: FailedRow, rule: ErrorRule, rows: int, by: RetryRun, active: bool
) -> None:
    """Record that the failure of a job does not count, or would not."""
    error = next(error for error in one.errors if (error.source, error.code) == (rule.source, rule.code))
    _record(connection, one, error, by, {
        "rule": f"class:{rule.rule_id}", "action": "increase_max_failure", "active": active, "target": "files",
        "rows": rows, "before": "{}", "after": "{}", "reason": "the error is the system's: this failure does not count",
    })  # fmt: skip


def _record(connection: sa.Connection, one: FailedRow, error: JobError, by: RetryRun, about: dict[str, Any]) -> None:
    evidence = {"diag": error.diag[:250], "measured_mb": one.job.measured_mb, "minramcount_mb": one.job.minramcount_mb,
                "walltime_s": one.job.walltime_s}  # fmt: skip
    values = {
        "now": by.now, "run": by.run_id, "job": one.pandaid, "attempt": one.attemptnr, "task": one.jeditaskid,
        "queue": one.queue, "version": by.version, "source": error.source, "code": error.code,
        "evidence": json.dumps(evidence),
    }  # fmt: skip
    connection.execute(sa.text(_RECORD), values | about)


_ACTIONS = """
    SELECT acted_at, pandaid, attemptnr, queue, rule, rules_version, errorsource, errorcode, action, active, target,
        rows_changed, before, after, reason, evidence
    FROM broker.retry_actions
    WHERE (CAST(:task AS bigint) IS NULL OR jeditaskid = :task) AND (CAST(:job AS bigint) IS NULL OR pandaid = :job)
      AND acted_at >= coalesce(CAST(:since AS timestamptz), '-infinity')
    ORDER BY id DESC LIMIT :most"""


def retry_actions(
    connection: sa.Connection, *, task: int | None = None, job: int | None = None, since: datetime | None = None,
    most: int = 1000,
) -> list[dict[str, Any]]:  # fmt: skip
    """The newest ``most`` actions of rules for a task or a job, oldest first."""
    arguments = {"task": task, "job": job, "since": since, "most": most}
    return [dict(row) for row in connection.execute(sa.text(_ACTIONS), arguments).mappings()][::-1]
