"""Retry rules as typed answers: list them, test one on jobs that failed, add and remove our own."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.errors import NotFound
from broker.retries.answers.new_rule import NewRule, WrongRule
from broker.retries.model.retry_effects import Effect, effect_of
from broker.retries.model.retry_rules import JobScope, RetryRule, fits
from broker.retries.statements import retry_rows
from broker.retries.statements.retry_rows import Editing, FailedRow, KnownRule
from broker.retries.statements.retry_writes import retry_actions
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.query_context import QueryContext, ResponseModel

MOST_JOBS = 20_000
"""How many failed jobs a test of a rule checks, newest first."""
MOST_EXAMPLES = 20


class RetryRuleLine(ResponseModel):
    """A retry rule.

    Attributes:
        rule: name of the rule: ``panda:12`` in PanDA's tables, ``broker:3`` for our own.
        active: false if it is passive, by itself or by its action in PanDA's tables.
        counts: whether it is in force: not expired, not removed, with a known action.
        fault: why it cannot act; null if it can.
        about: remarks stored with it.
    """

    rule: str
    source: str | None
    code: int | None
    action: str
    active: bool
    counts: bool
    diag: str | None
    parameters: dict[str, str]
    architecture: str | None
    release: str | None
    work_queue: int | None
    expires: datetime | None
    fault: str | None
    about: str
    added_at: datetime | None
    added_by: str | None
    removed_at: datetime | None
    removed_by: str | None


class RetryRules(ResponseModel):
    """The retry rules, PanDA's first."""

    now: datetime
    rules: tuple[RetryRuleLine, ...]


class RetryActionLine(ResponseModel):
    """What a rule did, or would have done, to the input of a job or its task.

    Attributes:
        active: false: the rule was passive, and nothing was done.
        target: ``files`` of the job, its ``task``, or ``none``.
        rows_changed: number of rows that it changed.
        before: columns with their values before the action.
        after: columns with their values after the action.
        reason: reason in words.
        evidence: error message, and measured and requested memory and time.
    """

    acted_at: datetime
    pandaid: int
    attemptnr: int
    queue: str | None
    rule: str
    rules_version: str
    errorsource: str
    errorcode: int
    action: str
    active: bool
    target: str
    rows_changed: int
    before: dict[str, Any]
    after: dict[str, Any]
    reason: str
    evidence: dict[str, Any]


class WouldHave(ResponseModel):
    """The effect that a rule would have had on one failed job."""

    pandaid: int
    jeditaskid: int
    queue: str | None
    attemptnr: int
    diag: str
    target: str
    after: dict[str, Any]
    reason: str


class RuleTest(ResponseModel):
    """The effect that a rule would have had on the jobs that failed since an instant.

    Attributes:
        looked_at: number of failed jobs examined with its source and code.
        is_cut: whether there were more, and only the newest were examined.
        jobs: number of jobs to which it would have applied: its message and scope match them too.
        tasks: number of tasks of these jobs.
        by_queue: these jobs by queue, most frequent first.
        by_effect: these jobs by effect, most frequent first.
        later_attempts: later jobs with the same input that the rule would have prevented.
        later_core_h: core hours of those that failed: the saving of the rule.
        later_finished: number of those that finished.
        later_finished_core_h: core hours of those that finished: the cost of the rule.
        examples: newest jobs.
    """

    now: datetime
    since: datetime
    rule: RetryRuleLine
    looked_at: int
    is_cut: bool
    jobs: int
    tasks: int
    by_queue: dict[str, int]
    by_effect: dict[str, int]
    later_attempts: int
    later_core_h: float
    later_finished: int
    later_finished_core_h: float
    examples: tuple[WouldHave, ...]
    sentence: str


def rule_list(query: QueryContext, *, with_removed: bool = False) -> RetryRules:
    """The rules of PanDA's tables and our own."""
    known = retry_rows.read_rules(query.connection, query.catalogue, with_removed=with_removed)
    return RetryRules(now=query.now, rules=tuple(_line(one, query.now) for one in known))


def _line(one: KnownRule, now: datetime) -> RetryRuleLine:
    rule = one.rule
    scope = JobScope() if rule is None else rule.scope
    return RetryRuleLine(
        rule=f"{one.origin}:{one.rule_id}",
        source=None if rule is None else rule.source,
        code=None if rule is None else rule.code,
        action=one.action,
        active=rule is not None and rule.active,
        counts=one.counts(now),
        diag=None if rule is None else rule.diag,
        parameters={} if rule is None else dict(rule.parameters),
        architecture=scope.architecture,
        release=scope.release,
        work_queue=scope.workqueue_id,
        expires=one.expires,
        fault=f"no action is called {one.action}" if rule is None else rule.fault,
        about=one.about,
        added_at=one.added_at,
        added_by=one.added_by,
        removed_at=one.removed_at,
        removed_by=one.removed_by,
    )


def rule_named(query: QueryContext, name: str) -> KnownRule:
    """Find a rule by its name, or one of our own by its number.

    Raises:
        NotFound: there is no such rule.
    """
    wanted = f"broker:{name}" if name.isdecimal() else name
    known = {f"{one.origin}:{one.rule_id}": one for one in retry_rows.read_rules(query.connection, query.catalogue)}
    if wanted not in known:
        raise NotFound(f"there is no retry rule {name[:40]}", "retry rules", "see broker retry-rule list")
    return known[wanted]


def written(new: NewRule) -> KnownRule:
    """A rule that is only tested, not added."""
    return KnownRule("broker", 0, new.rule(), new.action, new.expires, "")


def test_rule(query: QueryContext, one: KnownRule, days: float = 7.0) -> RuleTest:
    """What a rule would have done to the jobs that failed in the last ``days`` days.

    Raises:
        WrongRule: the rule cannot act at all.
    """
    line = _line(one, query.now)
    if one.rule is None or one.rule.fault is not None:
        raise WrongRule(line.fault or "it has no action", line.rule, "correct the rule")
    rule, since = one.rule, query.now - timedelta(days=days)
    failed = retry_rows.read_failed_by(query.connection, query.catalogue, rule, since, query.now, MOST_JOBS + 1)
    hits = [job for job in failed[:MOST_JOBS] if _hit(rule, job)]
    effects = [(job, _would(query, rule, job)) for job in hits]
    later = _later(query, rule, [job.pandaid for job in hits])
    by_effect = Counter(effect.reason if effect.target == "none" else _short(effect) for _, effect in effects)
    return RuleTest(
        now=query.now, since=since, rule=line, looked_at=min(len(failed), MOST_JOBS), is_cut=len(failed) > MOST_JOBS,
        jobs=len(hits), tasks=len({job.jeditaskid for job in hits}),
        by_queue=dict(Counter(job.queue or "unknown" for job in hits).most_common(MOST_EXAMPLES)),
        by_effect=dict(by_effect.most_common(MOST_EXAMPLES)), **later,
        examples=tuple(_example(job, effect, rule) for job, effect in effects[:MOST_EXAMPLES]),
        sentence=_sentence(rule, len(hits), days, later),
    )  # fmt: skip


def _hit(rule: RetryRule, job: FailedRow) -> bool:
    error = next((one for one in job.errors if (one.source, one.code) == (rule.source, rule.code)), None)
    return error is not None and fits(rule, error, job.scope)


def _would(query: QueryContext, rule: RetryRule, job: FailedRow) -> Effect:
    """The effect of a rule on a job, with its task as it is now."""
    tasks: dict[int, Any] = query.cache.setdefault("retry_tasks", {})
    number = job.jeditaskid or 0
    if number not in tasks:
        tasks[number] = retry_rows.read_task(query.connection, query.catalogue, number)
    if tasks[number] is None:
        return Effect("its task is not on record any more")
    if rule.action in ("increase_cputime", "reduce_input_per_job"):
        return effect_of(rule, retry_rows.read_more(query.connection, query.catalogue, job, rule), tasks[number])
    return effect_of(rule, job.job, tasks[number])


def _short(effect: Effect) -> str:
    after = ", ".join(f"{name} {'as it is' if value is None else value}" for name, value in effect.after.items())
    return f"{effect.target}: {after}"


def _example(job: FailedRow, effect: Effect, rule: RetryRule) -> WouldHave:
    error = next(one for one in job.errors if one.source == rule.source)
    return WouldHave(
        pandaid=job.pandaid, jeditaskid=job.jeditaskid or 0, queue=job.queue, attemptnr=job.attemptnr,
        diag=error.diag, target=effect.target, after=dict(effect.after), reason=effect.reason,
    )  # fmt: skip


_LATER = """
    WITH later AS (
        SELECT DISTINCT other.pandaid FROM {files} AS mine JOIN {files} AS other
            ON other.jeditaskid = mine.jeditaskid AND other.datasetid = mine.datasetid AND other.fileid = mine.fileid
        WHERE mine.pandaid = ANY(:jobs) AND other.pandaid > mine.pandaid AND mine.type = ANY(:types)
          AND coalesce(other.attemptnr, 0) >= :most
    )
    SELECT jobstatus = 'finished' AS is_finished, count(*) AS jobs,
        coalesce(sum(extract(epoch FROM endtime - starttime)
                * coalesce(nullif(actualcorecount, 0), nullif(corecount, 0), 1))
            FILTER (WHERE starttime > '1970-01-01' AND endtime >= starttime), 0)::double precision / 3600 AS core_h
    FROM later JOIN {jobs} AS job USING (pandaid) GROUP BY 1"""


def _later(query: QueryContext, rule: RetryRule, jobs: list[int]) -> dict[str, Any]:
    """The outcome of the attempts that a limit would have prevented; zeros for other actions."""
    none = {"later_attempts": 0, "later_core_h": 0.0, "later_finished": 0, "later_finished_core_h": 0.0}
    if rule.most_attempts is None or rule.action not in ("no_retry", "limit_retry") or not jobs:
        return none
    files = query.catalogue.source("filestable4", ("pandaid", "jeditaskid", "datasetid", "fileid", "attemptnr", "type"))
    columns = ("pandaid", "jobstatus", "starttime", "endtime", "corecount", "actualcorecount")
    statement = _LATER.format(files=files, jobs=query.catalogue.source("jobsarchived4", columns))
    arguments = {"jobs": jobs, "types": list(retry_rows.INPUT_TYPES), "most": rule.most_attempts}
    rows = {bool(row[0]): row for row in query.connection.execute(sa.text(statement), arguments)}
    failed, finished = rows.get(False), rows.get(True)
    return {
        "later_attempts": sum(row[1] for row in rows.values()),
        "later_core_h": 0.0 if failed is None else round(failed[2], 3),
        "later_finished": 0 if finished is None else finished[1],
        "later_finished_core_h": 0.0 if finished is None else round(finished[2], 3),
    }


def _sentence(rule: RetryRule, jobs: int, days: float, later: dict[str, Any]) -> str:
    applied = f"{rule.action} would have applied to {jobs} jobs of the last {days:g} days"
    if rule.action not in ("no_retry", "limit_retry"):
        return applied
    failed = later["later_attempts"] - later["later_finished"]
    return (
        f"{applied}: {failed} later attempts that did not finish would not have been made, {later['later_core_h']:.1f} "
        f"core hours saved; {later['later_finished']} that finished would have been lost"
    )


def actions_of(
    query: QueryContext, *, task: int | None = None, job: int | None = None, since: datetime | None = None
) -> tuple[RetryActionLine, ...]:
    """What rules did for a task or a job, the oldest first."""
    return tuple(RetryActionLine(**row) for row in retry_actions(query.connection, task=task, job=job, since=since))


def add(database: Database, new: NewRule, by: Editing) -> RetryRuleLine:
    """Add a rule of our own; it takes effect with the next cycle of the agent ``retries``.

    Raises:
        WrongRule: the rule could not act as written.
    """
    rule = new.rule()
    with database.begin() as connection:
        number = retry_rows.add_rule(connection, rule, new.expires, by)
    known = KnownRule("broker", number, new.rule(number), new.action, new.expires, by.reason, by.now, by.editor)
    return _line(known, by.now)


def remove(database: Database, number: int, by: Editing) -> RetryRuleLine:
    """Remove a rule of our own and return it as it stays on record.

    Raises:
        NotFound: no rule of ours has this number, or it was already removed.
    """
    with database.begin() as connection:
        retry_rows.remove_rule(connection, number, by)
        catalogue = TableCatalogue.read(connection, database.names)
        known = retry_rows.read_rules(connection, catalogue, with_removed=True)
    return next(_line(one, by.now) for one in known if (one.origin, one.rule_id) == ("broker", number))
