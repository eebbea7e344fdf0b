"""Finds the jobs on which the timeout rules act, by one SQL expression, and reads one job with all that decides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.lifecycle.model.jobs import (
    ANALYSIS_LABELS,
    BUILDING_LABEL,
    DEFAULT_LABEL,
    JEDI,
    MERGING,
    NEVER_MOVED,
    NO_EVENT_SERVICE,
    TO_BE_KILLED,
    UNSET_TIME,
    Job,
    JobTable,
    Queue,
    watcher_code,
)
from broker.lifecycle.model.limits import TimeoutLimits, before
from broker.lifecycle.model.rules import HEARTBEAT, OWN_STAGE_OUT, RULES, Combined, TimeoutRule
from broker.lifecycle.statements.actions import TABLES, JobAction
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue

COLUMNS = (
    "pandaid", "jobstatus", "computingsite", "jeditaskid", "prodsourcelabel", "currentpriority", "lockedby",
    "relocationflag", "processingtype", "eventservice", "transformation", "jobsubstatus", "commandtopilot",
    "exeerrordiag", "piloterrordiag", "jobdispatchererrorcode", "jobdispatchererrordiag", "modificationtime",
    "statechangetime", "creationtime", "starttime", "endtime",
)  # fmt: skip
"""The columns of a job that are read: the fields of :class:`broker.lifecycle.model.jobs.Job` except its table."""

QUEUE_ARRAYS = {
    "name": "text",
    "exempt": "boolean",
    "known": "boolean",
    "starts_nothing": "boolean",
    "crowded": "boolean",
    "own_s": "float8",
    "own_cut": "timestamp",
}
"""The values of the queues that are passed to the statement, one array each."""

_LABEL = f"coalesce(nullif(job.prodsourcelabel, ''), '{DEFAULT_LABEL}')"
_OF_USERS = f"{_LABEL} IN ({', '.join(repr(label) for label in ANALYSIS_LABELS)})"
_FUNCTIONS: dict[Combined, str] = {"earliest": "least", "first": "coalesce", "by_status": "least"}

SCAN = """
SELECT pandaid, jobstatus, computingsite, jeditaskid, modificationtime, rule,
    extract(epoch FROM %(now)s::timestamp - since)::float8, limit_s, endtime, exeerrordiag, piloterrordiag,
    jobdispatchererrordiag, jobdispatchererrorcode
FROM (
    SELECT job.*, {since} AS since, {limit_s} AS limit_s
    FROM (
        SELECT job.*, queue.crowded, queue.own_s, queue.own_cut, queue.known, {rule} AS rule
        FROM {jobs} AS job
        LEFT JOIN unnest({arrays}) AS queue ({names}) ON queue.name = job.computingsite
        WHERE {rule} IS NOT NULL AND NOT coalesce(queue.exempt, false)
          AND (%(tasks)s::bigint[] IS NULL OR job.jeditaskid = ANY(%(tasks)s))
    ) AS job
) AS judged
ORDER BY pandaid
LIMIT %(most)s
"""

# A queue that starts nothing is selected when one of its jobs is over the limit by the time of its state.
CROWDED = """
SELECT DISTINCT job.computingsite FROM {jobs} AS job
WHERE job.computingsite = ANY(%(queues)s) AND {over}
"""


def scan(catalogue: TableCatalogue, table: JobTable) -> str:
    """The statement that finds every job of a table on which a rule acts: pandaid, state, ..., number of the rule."""
    arrays = ", ".join(f"%(queue_{name})s::{kind}[]" for name, kind in QUEUE_ARRAYS.items())
    numbered = [(number, rule) for number, rule in enumerate(RULES) if rule.table == table]
    return (
        SCAN.replace("{rule}", _first_rule(numbered))
        .replace("{since}", _by_rule(numbered, _since))
        .replace("{limit_s}", _by_rule(numbered, _limit_s))
        .replace("{jobs}", catalogue.source(table, COLUMNS))
        .replace("{arrays}", arrays)
        .replace("{names}", ", ".join(QUEUE_ARRAYS))
    )


def crowded(catalogue: TableCatalogue, rule: TimeoutRule) -> str:
    """The statement that finds which of ``queues`` a rule about inactive queues applies to."""
    over = f"job.jobstatus IN ({_listed(rule.statuses)}) AND {_fits(rule)} AND {_time_of_state(rule)} < {_cut(rule)}"
    return CROWDED.replace("{jobs}", catalogue.source(rule.table, COLUMNS)).replace("{over}", over)


def cut_name(rule: str) -> str:
    """The parameter with the instant of a rule whose limit is a key; with ``_s`` added, the one with its seconds."""
    return f"cut_{rule}"


def _first_rule(numbered: list[tuple[int, TimeoutRule]]) -> str:
    statuses = dict.fromkeys(status for _, rule in numbered for status in rule.statuses)
    branches = []
    for status in statuses:
        tests = " ".join(f"WHEN {_fires(rule)} THEN {number}" for number, rule in numbered if status in rule.statuses)
        branches.append(f"WHEN '{status}' THEN CASE {tests} END")
    return f"CASE job.jobstatus {' '.join(branches)} END"


def _by_rule(numbered: list[tuple[int, TimeoutRule]], expression: Callable[[TimeoutRule], str]) -> str:
    branches = " ".join(f"WHEN {number} THEN {expression(rule)}" for number, rule in numbered)
    return f"CASE job.rule {branches} END"


def _fits(rule: TimeoutRule) -> str:
    """The conditions on a job, apart from its state and its age."""
    tests = [f"coalesce(job.eventservice, {NO_EVENT_SERVICE}) = {NO_EVENT_SERVICE}"]
    if rule.priority != "any":
        tests.append(f"coalesce(job.currentpriority, 0) {'>=' if rule.priority == 'high' else '<'} %(high_priority)s")
    if rule.labels:
        tests.append(f"{_LABEL} IN ({_listed(rule.labels)})")
    if rule.origin == "from_task":
        tests.append(f"job.lockedby = '{JEDI}'")
    if rule.origin == "not_from_task":
        is_build = f"job.prodsourcelabel = '{BUILDING_LABEL}' AND strpos(job.transformation, 'build') > 0"
        tests.append(f"(job.lockedby IS NULL OR ({is_build}))")
    differs = "<>" if rule.exempt_if_null else "IS DISTINCT FROM"
    if rule.exempt_if_pinned:
        tests.append(f"job.relocationflag {differs} {NEVER_MOVED}")
    if rule.exempt_if_merging:
        tests.append(f"job.processingtype {differs} '{MERGING}'")
    if rule.exempt_if_kill_requested:
        tests.append(f"job.commandtopilot IS DISTINCT FROM '{TO_BE_KILLED}'")
    if rule.needs_substatus:
        tests.append("job.jobsubstatus <> ''")
    return " AND ".join(tests)


def _fires(rule: TimeoutRule) -> str:
    at_queue = "queue.starts_nothing AND " if rule.inactive_queues else ""
    return f"{at_queue}{_fits(rule)} AND {_since(rule)} < {_cut(rule)}"


def _time(clock: str) -> str:
    return f"nullif(job.{clock}, '1970-01-01'::timestamp)"


def _since(rule: TimeoutRule) -> str:
    times = ", ".join(_time(clock) for clock in rule.clock)
    earliest = f"{_FUNCTIONS[rule.combined]}({times})"
    if rule.combined != "by_status":
        return earliest
    own = _time_of_state(rule)
    return f"CASE WHEN crowded AND ({own} < {_cut(rule)}) IS NOT TRUE THEN {earliest} ELSE {own} END"


def _time_of_state(rule: TimeoutRule) -> str:
    branches = " ".join(f"WHEN '{status}' THEN {_time(clock)}" for status, clock in rule.clock_of)
    return f"(CASE job.jobstatus {branches} END)"


def _cut(rule: TimeoutRule) -> str:
    return _limit(rule, "own_cut", "_cut", cut_name(rule.name), "timestamp")


def _limit_s(rule: TimeoutRule) -> str:
    return _limit(rule, "own_s", "_s", f"{cut_name(rule.name)}_s", "float8")


def _limit(rule: TimeoutRule, own: str, ending: str, key: str, kind: str) -> str:
    production, analysis = (f"%({name}{ending})s::{kind}" for name in ("production", "analysis"))
    if rule.limit == HEARTBEAT:
        return f"coalesce({own}, CASE WHEN {_OF_USERS} THEN {analysis} ELSE {production} END)"
    if rule.limit == OWN_STAGE_OUT:
        return f"CASE WHEN known THEN coalesce({own}, {production}) END"
    return f"%({key})s::{kind}"


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(f"'{word}'" for word in words)


@dataclass(frozen=True)
class TimeoutContext:
    """What jobs are judged by.

    Attributes:
        queues: the queues by the name that jobs carry.
        limits: the limits in force.
        now: the instant, naive UTC.
    """

    queues: Mapping[str, Queue]
    limits: TimeoutLimits
    now: datetime

    @classmethod
    def at(cls, now: datetime, queues: Mapping[str, Queue], limits: TimeoutLimits) -> TimeoutContext:
        """The context at an aware instant."""
        return cls(queues, limits, naive(now))

    def start_nothing(self) -> list[str]:
        """The queues that start nothing."""
        since = self.limits.inactive_before(self.now)
        return sorted(name for name, queue in self.queues.items() if queue.starts_nothing(since))


def find_due(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    given: TimeoutContext,
    most: int | None = None,
    tasks: Sequence[int] | None = None,
) -> list[JobAction]:
    """The jobs on which a rule acts, by pandaid.

    Args:
        connection: any transaction.
        catalogue: the tables of the database.
        given: what jobs are judged by.
        most: the maximum number of jobs, those of the lowest pandaid; None for all.
        tasks: only jobs of these tasks; None for all.
    """
    due: list[JobAction] = []
    chosen = {"most": most, "tasks": None if tasks is None else list(tasks)}
    parameters = _parameters(connection, catalogue, given) | chosen
    for table in TABLES:
        statement = scan(catalogue, table)
        rows = Database.raw(connection).execute(statement.encode(), parameters)
        due += [_move(table, *row) for row in rows]
    return sorted(due, key=lambda move: move.pandaid)[:most]


def count_live(connection: sa.Connection, catalogue: TableCatalogue) -> int:
    """How many jobs have not ended."""
    statements = [f"SELECT count(*) FROM {catalogue.names.table(table)}" for table in TABLES]  # noqa: S608 - quoted names
    return sum(int(connection.execute(sa.text(statement)).scalar_one()) for statement in statements)


def triggered_inactive_queues(
    connection: sa.Connection, catalogue: TableCatalogue, given: TimeoutContext
) -> frozenset[str]:
    """The queues that start nothing and have jobs that have waited for too long."""
    queues = given.start_nothing()
    triggered: set[str] = set()
    for rule in RULES:
        if rule.inactive_queues and queues:
            parameters = {**_instants(given), "queues": queues}
            statement = crowded(catalogue, rule)
            rows = Database.raw(connection).execute(statement.encode(), parameters)
            triggered |= {queue for (queue,) in rows}
    return frozenset(triggered)


def find_job(connection: sa.Connection, catalogue: TableCatalogue, pandaid: int) -> Job | None:
    """A job that is not archived; None when there is none."""
    names = tuple(field.name for field in fields(Job) if field.name != "table")
    for table in TABLES:
        source = catalogue.source(table, names)
        statement = sa.text(f"SELECT * FROM {source} AS job WHERE pandaid = :pandaid")  # noqa: S608 - quoted names
        row = connection.execute(statement, {"pandaid": pandaid}).mappings().first()
        if row is not None:
            return Job(**{**row, "table": table, "jobstatus": row["jobstatus"] or ""})
    return None


def _parameters(connection: sa.Connection, catalogue: TableCatalogue, context: TimeoutContext) -> dict[str, Any]:
    idle, inactive_queue_triggered = (
        set(context.start_nothing()),
        triggered_inactive_queues(connection, catalogue, context),
    )
    queues = list(context.queues.values())
    own = [context.limits.own_s(queue) for queue in queues]
    return {
        **_instants(context),
        "queue_name": [queue.name for queue in queues],
        "queue_exempt": [bool(queue.exceptions) for queue in queues],
        "queue_known": [queue.known for queue in queues],
        "queue_starts_nothing": [queue.name in idle for queue in queues],
        "queue_crowded": [queue.name in inactive_queue_triggered for queue in queues],
        "queue_own_s": own,
        "queue_own_cut": [None if limit_s is None else before(context.now, limit_s) for limit_s in own],
    }


def _instants(context: TimeoutContext) -> dict[str, Any]:
    """The limits in seconds, and the instants before which a job is over them."""
    limits = {cut_name(name): limit_s for name, limit_s in context.limits.seconds.items()}
    values: dict[str, Any] = {"now": context.now, "high_priority": context.limits.high_priority}
    for name, limit_s in limits.items():
        values |= {name: before(context.now, limit_s), f"{name}_s": limit_s}
    for name, limit_s in (("production", context.limits.production_s), ("analysis", context.limits.analysis_s)):
        values |= {f"{name}_cut": before(context.now, limit_s), f"{name}_s": limit_s}
    return values


def _move(
    table: JobTable,
    pandaid: int,
    status: str,
    queue: str | None,
    task: int | None,
    changed: datetime | None,
    number: int,
    value_s: float,
    limit_s: float,
    *errors: Any,
) -> JobAction:
    rule = RULES[number]
    code = _code(rule, status, *errors)
    return JobAction(
        pandaid, table, status, changed, queue, task, rule.name, rule.action, code, value_s, limit_s, rule.error
    )


def _code(
    rule: TimeoutRule,
    status: str,
    endtime: datetime | None,
    exe_diag: str | None,
    pilot_diag: str | None,
    diag: str | None,
    code: int | None,
) -> int:
    if rule.code is not None:
        return rule.code
    return watcher_code(
        status,
        has_ended=endtime not in (None, UNSET_TIME),
        has_error=bool(exe_diag or pilot_diag),
        dispatcher_diag=diag,
        dispatcher_code=code,
    )
