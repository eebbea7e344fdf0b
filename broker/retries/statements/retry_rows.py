"""Retry rules and failed jobs in the database, as they are read before a rule acts.

Source: panda-server, ``misc_standalone_module`` (getRetrialRules, initialize_cpu_time_task), ``task_event_module``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.errors import NotFound
from broker.retries.model.retry_effects import FailedJob, TaskFacts
from broker.retries.model.retry_rules import (
    ACTIONS,
    SOURCES,
    Action,
    ErrorRule,
    JobError,
    JobScope,
    RetryRule,
    errors_of,
    read_parameters,
)
from broker.store.connection.tables import TableCatalogue

INPUT_TYPES = ("input", "pseudo_input", "pp_input", "trn_log", "trn_output")
_RULE = (
    "retryerror_id", "errorsource", "errorcode", "active", "retryaction", "errordiag", "parameters", "architecture",
    "release", "workqueue_id", "expiration_date", "description",
)  # fmt: skip
_READ_PANDA = """
    SELECT error.*, action.retry_action, action.active AS action_active
    FROM {errors} AS error JOIN {actions} AS action ON action.retryaction_id = error.retryaction
    ORDER BY error.retryerror_id"""
_READ_CLASSES = """
    SELECT id, error_source, error_code, error_diag, error_class, active FROM {classes} AS c ORDER BY id"""
_READ_OWN = "SELECT * FROM broker.retry_rules WHERE removed_at IS NULL OR :with_removed ORDER BY id"
_ADD = """
    INSERT INTO broker.retry_rules (errorsource, errorcode, retry_action, active, errordiag, parameters, architecture,
        release, workqueue_id, expiration_date, added_at, added_by, reason)
    VALUES (:source, :code, :action, :active, :diag, :parameters, :architecture, :release, :workqueue_id, :expires,
        :now, :editor, :reason)
    RETURNING id"""
_REMOVE = """
    UPDATE broker.retry_rules SET removed_at = :now, removed_by = :editor, removed_because = :reason
    WHERE id = :id AND removed_at IS NULL RETURNING id"""


@dataclass(frozen=True)
class KnownRule:
    """A retry rule with its record.

    Attributes:
        rule: None if its action is unknown.
        action: as stored.
        expires: when it expires; None: never.
        about: description, or who added it and why.
    """

    origin: Literal["panda", "broker"]
    rule_id: int
    rule: RetryRule | None
    action: str
    expires: datetime | None
    about: str
    added_at: datetime | None = None
    added_by: str | None = None
    removed_at: datetime | None = None
    removed_by: str | None = None

    def counts(self, now: datetime) -> bool:
        """Whether the rule is in force at ``now``."""
        return self.rule is not None and self.removed_at is None and (self.expires is None or now < self.expires)


def read_rules(connection: sa.Connection, catalogue: TableCatalogue, *, with_removed: bool = False) -> list[KnownRule]:
    """All rules, including expired ones: PanDA's as its tables hold them, then our own."""
    query = _READ_PANDA.format(
        errors=catalogue.source("retryerrors", _RULE),
        actions=catalogue.source("retryactions", ("retryaction_id", "retry_action", "active")),
    )
    panda_rules = [_panda_rule(row) for row in connection.execute(sa.text(query)).mappings()]
    own_rows = connection.execute(sa.text(_READ_OWN), {"with_removed": with_removed}).mappings()
    return [*panda_rules, *map(_own_rule, own_rows)]


def _panda_rule(row: Mapping[Any, Any]) -> KnownRule:
    active = row["active"] == "Y" and row["action_active"] == "Y"
    expires = row["expiration_date"]
    return KnownRule(
        "panda",
        int(row["retryerror_id"]),
        _rule("panda", int(row["retryerror_id"]), row, active),
        row["retry_action"],
        None if expires is None else expires.replace(tzinfo=UTC),
        row["description"] or "",
    )


def _own_rule(row: Mapping[Any, Any]) -> KnownRule:
    return KnownRule(
        "broker", row["id"], _rule("broker", row["id"], row, row["active"]), row["retry_action"],
        row["expiration_date"], row["reason"], row["added_at"], row["added_by"], row["removed_at"], row["removed_by"],
    )  # fmt: skip


def _rule(origin: Literal["panda", "broker"], number: int, row: Mapping[Any, Any], active: bool) -> RetryRule | None:
    if row["retry_action"] not in ACTIONS:
        return None
    return RetryRule(
        origin=origin,
        rule_id=number,
        source=row["errorsource"],
        code=int(row["errorcode"]),
        action=cast(Action, row["retry_action"]),
        active=active,
        diag=row["errordiag"] or None,
        parameters=read_parameters(row["parameters"]),
        scope=JobScope(row["release"] or None, row["architecture"] or None, row["workqueue_id"] or None),
    )


def read_error_rules(connection: sa.Connection, catalogue: TableCatalogue) -> list[ErrorRule]:
    """PanDA's error classes, ordered by id."""
    columns = ("id", "error_source", "error_code", "error_diag", "error_class", "active")
    query = _READ_CLASSES.format(classes=catalogue.source("error_classification", columns))
    rows = connection.execute(sa.text(query))
    return [
        ErrorRule(int(row[0]), row[1] or "", int(row[2] or 0), row[3] or "", row[4] or "", row[5] == "Y")
        for row in rows
    ]


@dataclass(frozen=True)
class Editing:
    """Who changes rules, when and why."""

    now: datetime
    editor: str
    reason: str


def add_rule(connection: sa.Connection, rule: RetryRule, expires: datetime | None, by: Editing) -> int:
    """Add a rule of our own and return its number."""
    values = {
        "source": rule.source, "code": rule.code, "action": rule.action, "active": rule.active, "diag": rule.diag,
        "parameters": "&".join(f"{name}={value}" for name, value in rule.parameters.items()) or None,
        **vars(rule.scope),
        "expires": expires, "now": by.now, "editor": by.editor, "reason": by.reason,
    }  # fmt: skip
    return int(connection.execute(sa.text(_ADD), values).scalar_one())


def remove_rule(connection: sa.Connection, number: int, by: Editing) -> None:
    """Remove a rule of our own; its row stays, with who removed it and why.

    Raises:
        NotFound: no rule of ours has this number, or it was already removed.
    """
    values = {"id": number, "now": by.now, "editor": by.editor, "reason": by.reason}
    if connection.execute(sa.text(_REMOVE), values).first() is None:
        raise NotFound(f"there is no own retry rule {number}", "broker.retry_rules", "see broker retry-rule list")


_CODES = tuple(column for pair in SOURCES.values() for column in pair if column is not None)
_JOB = ("pandaid", "jeditaskid", "attemptnr", "computingsite", "jobstatus", "atlasrelease", "cmtconfig", "workqueue_id",
        "minramcount", "minramunit", "corecount", "actualcorecount", "starttime", "endtime", "modificationtime",
        "maxrss", "maxpss", *_CODES)  # fmt: skip
_READ_JOBS = "SELECT * FROM {jobs} AS job WHERE job.pandaid = ANY(:jobs) AND jobstatus = 'failed' ORDER BY pandaid"
_READ_FAILED = """
    SELECT * FROM {jobs} AS job
    WHERE jobstatus = 'failed' AND modificationtime > :since AND modificationtime <= :until AND {code}
    ORDER BY pandaid DESC LIMIT :most"""
_TO_LOOK_AT = (
    "SELECT pandaid FROM broker.failed_jobs WHERE NOT pandaid = ANY(:left) ORDER BY failed_at, pandaid LIMIT :most"
)
_LOOKED_AT = "DELETE FROM broker.failed_jobs WHERE pandaid = ANY(:jobs)"


@dataclass(frozen=True)
class FailedRow:
    """A failed job as read from its row."""

    pandaid: int
    jeditaskid: int | None
    attemptnr: int
    queue: str | None
    errors: tuple[JobError, ...]
    scope: JobScope
    job: FailedJob


def failed_to_look_at(connection: sa.Connection, most: int, left: Sequence[int]) -> list[int]:
    """Failed jobs that have not been checked against the rules yet, without those in ``left``; oldest first."""
    return list(connection.scalars(sa.text(_TO_LOOK_AT), {"most": most, "left": list(left)}))


def note_looked_at(connection: sa.Connection, jobs: Sequence[int]) -> None:
    """Record that these jobs have been checked against the rules."""
    connection.execute(sa.text(_LOOKED_AT), {"jobs": list(jobs)})


def read_failed(connection: sa.Connection, catalogue: TableCatalogue, jobs: Sequence[int]) -> list[FailedRow]:
    """The rows of failed jobs."""
    query = _READ_JOBS.format(jobs=catalogue.source("jobsarchived4", _JOB))
    return [_failed(row) for row in connection.execute(sa.text(query), {"jobs": list(jobs)}).mappings()]


def read_failed_by(
    connection: sa.Connection, catalogue: TableCatalogue, rule: RetryRule, since: datetime, until: datetime, most: int
) -> list[FailedRow]:
    """Jobs that failed between two instants (aware) with the source and code of a rule, the newest first."""
    column = SOURCES[rule.source][0]
    code = f"job.{column} = :code"
    if column == "transexitcode":
        code = f"CASE WHEN job.{column} ~ '^-?[0-9]{{1,9}}$' THEN job.{column}::bigint END = :code"
    query = _READ_FAILED.format(jobs=catalogue.source("jobsarchived4", _JOB), code=code)
    values = {"since": naive(since), "until": naive(until), "code": rule.code, "most": most}
    return [_failed(row) for row in connection.execute(sa.text(query), values).mappings()]


def _failed(row: Mapping[Any, Any]) -> FailedRow:
    started, ended = row["starttime"], row["endtime"]
    known = started is not None and ended is not None and started.year > 1970
    measured_kb = max(int(row["maxpss"] or 0), int(row["maxrss"] or 0))
    attempt = int(row["attemptnr"] or 0)
    job = FailedJob(
        pandaid=row["pandaid"],
        jeditaskid=row["jeditaskid"] or 0,
        attemptnr=attempt,
        cores=int(row["corecount"] or 1),
        minramcount_mb=None if row["minramcount"] is None else int(row["minramcount"]),
        minramunit=row["minramunit"],
        measured_mb=measured_kb / 1024 if measured_kb > 0 else None,
        walltime_s=(ended - started).total_seconds() if known else None,
    )
    scope = JobScope(row["atlasrelease"], row["cmtconfig"], row["workqueue_id"])
    return FailedRow(row["pandaid"], row["jeditaskid"], attempt, row["computingsite"], errors_of(row), scope, job)


_READ_TASK = """
    SELECT task.ramcount, task.ramunit, coalesce(task.baseramcount, 0) AS base, task.cputime, task.cputimeunit,
        task.cpuefficiency, task.basewalltime, task.splitrule,
        (SELECT count(*) FROM {panda}.jedi_dataset_contents AS f JOIN {panda}.jedi_datasets AS d
            USING (jeditaskid, datasetid)
         WHERE d.jeditaskid = task.jeditaskid AND d.masterid IS NULL AND d.type = ANY(:types)) AS files,
        (SELECT count(*) FROM {panda}.jedi_dataset_contents AS f JOIN {panda}.jedi_datasets AS d
            USING (jeditaskid, datasetid)
         WHERE d.jeditaskid = task.jeditaskid AND d.masterid IS NULL AND d.type = ANY(:types)
           AND f.ramcount > task.ramcount) AS above,
        (SELECT max(f.ramcount) FROM {panda}.jedi_dataset_contents AS f JOIN {panda}.jedi_datasets AS d
            USING (jeditaskid, datasetid)
         WHERE d.jeditaskid = task.jeditaskid AND d.masterid IS NULL AND d.type = ANY(:types)) AS largest,
        EXISTS (SELECT FROM {panda}.jobsarchived4 AS job WHERE job.jeditaskid = task.jeditaskid
            AND job.jobstatus = 'finished' AND job.transformation NOT LIKE '%build%') AS finished_jobs
    FROM {panda}.jedi_tasks AS task WHERE task.jeditaskid = :task"""
_READ_MORE = """
    SELECT coalesce((SELECT sum(fsize) FROM {panda}.filestable4 WHERE pandaid = :job), 0)::bigint AS fsize_sum,
        (SELECT count(*) FROM {panda}.filestable4 AS r JOIN {panda}.jedi_datasets AS d USING (jeditaskid, datasetid)
         WHERE r.pandaid = :job AND d.masterid IS NULL AND d.type IN ('input', 'pseudo_input')) AS primary_files,
        (SELECT sum(CASE WHEN f.startevent > 0 AND f.endevent > 0 THEN f.endevent - f.startevent
                    ELSE coalesce(f.nevents, 0) END)
         FROM {panda}.filestable4 AS r JOIN {panda}.jedi_datasets AS d USING (jeditaskid, datasetid)
         JOIN {panda}.jedi_dataset_contents AS f USING (jeditaskid, datasetid, fileid)
         WHERE r.pandaid = :job AND r.type = ANY(:types) AND r.lfn NOT LIKE '%DBRelease%' AND d.masterid IS NULL
        )::bigint AS events,
        (SELECT data FROM {panda}.schedconfig_json WHERE panda_queue = :queue) AS queue,
        (SELECT count(DISTINCT act.pandaid) FROM {panda}.filestable4 AS mine JOIN {panda}.filestable4 AS other
            ON other.jeditaskid = mine.jeditaskid AND other.datasetid = mine.datasetid AND other.fileid = mine.fileid
         JOIN broker.retry_actions AS act ON act.pandaid = other.pandaid AND act.jeditaskid = mine.jeditaskid
         WHERE mine.pandaid = :job AND mine.type = ANY(:types) AND act.action LIKE 'increase_memory%'
           AND act.rows_changed > 0) AS raised_before,
        (SELECT count(DISTINCT act.pandaid) FROM broker.retry_actions AS act
         WHERE act.jeditaskid = :task AND act.rule = :rule AND act.pandaid <> :job) AS hits"""


def read_task(connection: sa.Connection, catalogue: TableCatalogue, jeditaskid: int) -> TaskFacts | None:
    """The facts about a task that rules need; None if there is no such task."""
    query = sa.text(catalogue.names.sql(_READ_TASK))
    row = connection.execute(query, {"task": jeditaskid, "types": list(INPUT_TYPES)}).one_or_none()
    if row is None:
        return None
    return TaskFacts(
        row.ramcount, row.ramunit, row.base, row.files, row.above, row.largest, row.cputime, row.cputimeunit,
        row.cpuefficiency, row.basewalltime, row.splitrule, row.finished_jobs,
    )  # fmt: skip


def read_more(connection: sa.Connection, catalogue: TableCatalogue, one: FailedRow, rule: RetryRule) -> FailedJob:
    """Complete a failed job with its files, its queue and what rules did for its input before."""
    arguments = {
        "job": one.pandaid, "task": one.jeditaskid, "queue": one.queue, "rule": rule.name, "types": list(INPUT_TYPES),
    }  # fmt: skip
    row = connection.execute(sa.text(catalogue.names.sql(_READ_MORE)), arguments).one()
    queue = row.queue if isinstance(row.queue, dict) else {}
    fields = {**one.job.__dict__}
    return FailedJob(
        **fields
        | {
            "events": row.events,
            "fsize_sum": row.fsize_sum,
            "primary_files": row.primary_files,
            "corepower": _number(queue.get("corepower")),
            "maxtime_s": int(_number(queue.get("maxtime")) or 0) or None,
            "queue_cores": int(_number(queue.get("corecount", 1)) or 0) or None,
            "raised_before": row.raised_before,
            "hits_of_task": 1 + row.hits,
        }
    )


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | str) and value != "" else None
    except ValueError:
        return None
