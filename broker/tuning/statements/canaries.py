"""The rows of ``broker.canaries``: tried values, the tuning versions that they make, and their outcomes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.codec.repeats import NEW
from broker.gdpconfig.proposals import Canary, CanaryRefused, Proposal, proposed
from broker.gdpconfig.publish import Published, last_good_to_json, rows_to_json
from broker.store.connection.tables import Names
from broker.store.decisions.decision_rows import pattern_of
from broker.store.gdpconfig_rows import TuningStore
from broker.store.query_context import ResponseModel

_LOCK = sa.text("LOCK TABLE broker.canaries IN SHARE ROW EXCLUSIVE MODE")
_CANARIES = "SELECT id, proposals, share, editor, reason, started_at, ends_at, stopped_at FROM broker.canaries"
_READ_CANARIES = sa.text(f"{_CANARIES} ORDER BY id DESC LIMIT :most")
_READ_RUNNING = sa.text(f"""
    {_CANARIES}
    WHERE started_at <= :now AND ends_at > :now AND (stopped_at IS NULL OR stopped_at > :now)
    ORDER BY id DESC LIMIT 1""")
# One that was stopped before it began never runs.
_READ_WITHIN = sa.text(f"""
    {_CANARIES}
    WHERE started_at < least(ends_at, stopped_at) AND least(ends_at, stopped_at) > :start
      AND (CAST(:end AS timestamptz) IS NULL OR started_at < :end)
    ORDER BY started_at LIMIT 1""")
_INSERT_CANARY = sa.text("""
    INSERT INTO broker.canaries (proposals, share, editor, reason, started_at, ends_at)
    VALUES (CAST(:proposals AS jsonb), :share, :editor, :reason, :started_at, :ends_at) RETURNING id""")
_STOP_CANARY = sa.text("UPDATE broker.canaries SET stopped_at = :now WHERE id = :id")
_READ_VERSION = sa.text("SELECT version FROM broker.canary_versions WHERE canary = :canary AND base = :base")
_ADD_VERSION = sa.text("""
    INSERT INTO broker.gdpconfig_versions (version, editor, reason, fingerprint, rows, last_good)
    SELECT least(min(version), 0) - 1, :editor, :reason, :fingerprint, CAST(:rows AS jsonb), CAST(:last_good AS jsonb)
    FROM broker.gdpconfig_versions RETURNING version""")
_NAME_VERSION = sa.text("INSERT INTO broker.canary_versions (canary, base, version) VALUES (:canary, :base, :version)")
# At its last instant only runs that tried the values count: a canary may be stopped at the very instant of a cycle.
_COUNTS = """
    decided_at >= :since AND decided_at <= :until AND brokerage = ANY(:brokerages)
      AND (tuning IN (SELECT version FROM broker.canary_versions WHERE canary = :canary)
           OR (tuning IN (SELECT base FROM broker.canary_versions WHERE canary = :canary)
               AND (decided_at < :until OR agent_run IN (
                   SELECT agent_run FROM (
                       SELECT agent_run, decided_at, tuning FROM broker.stored_decisions
                       UNION ALL SELECT agent_run, decided_at, tuning FROM broker.decision_repeats
                   ) AS every
                   WHERE decided_at = :until
                   AND tuning IN (SELECT version FROM broker.canary_versions WHERE canary = :canary)))))"""
_SEEN_AGAIN = sa.text(f"SELECT pattern FROM broker.decision_repeats WHERE {_COUNTS}")  # noqa: S608 - a constant
_COUNT_OUTCOMES = sa.text(f"""
    WITH counted AS (
        SELECT id, 1 AS times FROM broker.stored_decisions WHERE {_COUNTS}
        UNION ALL SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:times AS int[]))
    ), decided AS (SELECT id, sum(times) AS times FROM counted GROUP BY id)
    SELECT CASE WHEN tuning < 0 THEN 'canary' ELSE 'rest' END AS "group", brokerage,
           sum(times)::bigint AS decisions, count(DISTINCT jeditaskid) AS tasks,
           coalesce(sum(times) FILTER (WHERE outcome = 'brokered'), 0)::bigint AS brokered,
           coalesce(sum(times) FILTER (WHERE outcome = 'pending'), 0)::bigint AS pending,
           coalesce(sum(times) FILTER (WHERE outcome = 'throttled'), 0)::bigint AS throttled,
           (sum(times * candidate_count) / sum(times))::float8 AS candidates,
           sum(times * (SELECT sum(jobs::bigint) FROM jsonb_each_text(assigned) AS each(queue, jobs)))::bigint AS jobs
    FROM decided JOIN broker.stored_decisions USING (id)
    GROUP BY brokerage, tuning < 0 ORDER BY brokerage, tuning < 0""")  # noqa: S608 - a constant


class OutcomeOfGroup(ResponseModel):
    """Decisions of one brokerage during the canary, about the chosen tasks (``canary``) or the ``rest``.

    Attributes:
        group: group of the tasks.
        brokerage: name of the brokerage.
        decisions: number of decisions.
        tasks: number of distinct tasks.
        brokered: number of decisions with candidates that took jobs.
        pending: number of decisions to wait.
        throttled: number of decisions to throttle the user.
        candidates: mean number of candidates of a decision.
        jobs: total number of jobs.
    """

    group: str
    brokerage: str
    decisions: int
    tasks: int
    brokered: int
    pending: int
    throttled: int
    candidates: float
    jobs: int


def start(
    connection: sa.Connection,
    proposals: Sequence[Proposal],
    share: float,
    span: tuple[datetime, datetime],
    *,
    editor: str,
    reason: str,
) -> Canary:
    """Start a canary.

    Args:
        connection: a transaction that can write.
        proposals: the values.
        share: share of the tasks.
        span: its first instant, and the instant at which it is over.
        editor: who starts it.
        reason: why.

    Raises:
        CanaryRefused: another canary runs at some instant of the span.
    """
    connection.execute(_LOCK)
    other = _first_within(connection, *span)
    if other is not None:
        until = f"until {other.over_at.isoformat()}"
        if other.started_at <= span[0]:
            message, remedy = f"canary {other.id} runs {until}", "wait, or stop it with broker config canary --stop"
        else:
            message = f"canary {other.id} runs from {other.started_at.isoformat()} {until}"
            remedy = f"end before that, or cancel it with {_cancelling(other)}"
        raise CanaryRefused(message, "broker.canaries", remedy)
    rows = json.dumps([[proposal.key, proposal.value, proposal.vo] for proposal in proposals])
    values = {"proposals": rows, "share": share, "editor": editor, "reason": reason}
    number = connection.execute(_INSERT_CANARY, {**values, "started_at": span[0], "ends_at": span[1]}).scalar_one()
    return Canary(number, tuple(proposals), share, editor, reason, *span, None)


def running(connection: sa.Connection, now: datetime) -> Canary | None:
    """The canary in force at an instant; None if there is none."""
    row = connection.execute(_READ_RUNNING, {"now": now}).one_or_none()
    return None if row is None else _canary(row)


def newest(connection: sa.Connection, most: int) -> list[Canary]:
    """The canaries, newest first."""
    return [_canary(row) for row in connection.execute(_READ_CANARIES, {"most": most})]


def _first_within(connection: sa.Connection, start: datetime, end: datetime | None) -> Canary | None:
    """The first canary that runs at some instant of a span; ``end`` None: of all time from ``start``."""
    row = connection.execute(_READ_WITHIN, {"start": start, "end": end}).one_or_none()
    return None if row is None else _canary(row)


def _cancelling(planned: Canary) -> str:
    return f"broker config canary --stop --at {planned.started_at.isoformat()}"


def stop(connection: sa.Connection, now: datetime) -> Canary:
    """Stop the canary in force at an instant; at its first instant, it never runs.

    Raises:
        CanaryRefused: no canary is in force.
    """
    connection.execute(_LOCK)
    canary = running(connection, now)
    if canary is None:
        planned = _first_within(connection, now, None)
        if planned is None:
            raise CanaryRefused("no canary runs", "broker.canaries", "nothing is to be done")
        message = f"no canary runs; canary {planned.id} begins at {planned.started_at.isoformat()}"
        raise CanaryRefused(message, "broker.canaries", f"cancel it with {_cancelling(planned)}")
    connection.execute(_STOP_CANARY, {"id": canary.id, "now": now})
    return canary


def tuning_with(connection: sa.Connection, names: Names, canary: Canary, base: Published, *, writes: bool) -> Published:
    """The values for the tasks that a canary chooses, as a version of their own.

    Args:
        connection: a transaction; one that can write if ``writes``.
        names: schema names of the database.
        canary: the canary in force.
        base: the version for all other tasks.
        writes: whether to make a missing version; if not, the values have version 0.

    Raises:
        ValueRefusedError: the values contradict those in force.
    """
    tuning = proposed(base, canary.proposals)
    version_key = {"canary": canary.id, "base": base.version}
    version = connection.execute(_READ_VERSION, version_key).scalar_one_or_none()
    if version is None and not writes:
        return tuning
    if version is None:
        connection.execute(_LOCK)  # another brokerage may be about to make the version
        version = connection.execute(_READ_VERSION, version_key).scalar_one_or_none()
    if version is not None:
        return TuningStore(names).version(connection, version)
    values = {
        "editor": canary.editor,
        "reason": f"canary {canary.id} on version {base.version}",
        "fingerprint": tuning.fingerprint,
        "rows": json.dumps(rows_to_json(tuning.rows)),
        "last_good": json.dumps(last_good_to_json(tuning.last_good)),
    }
    version = connection.execute(_ADD_VERSION, values).scalar_one()
    connection.execute(_NAME_VERSION, {**version_key, "version": version})
    return Published(version, tuning.rows, tuning.last_good, tuning.catalogue)


def outcomes(connection: sa.Connection, canary: Canary, brokerages: Sequence[str]) -> list[OutcomeOfGroup]:
    """Decisions made while a canary ran, about the chosen tasks and about the rest, by brokerage."""
    values: dict[str, Any] = {"since": canary.started_at, "until": canary.over_at, "canary": canary.id}
    values["brokerages"] = list(brokerages)
    repeats = Counter(
        identifier
        for pattern in connection.execute(_SEEN_AGAIN, values).scalars()
        for identifier in pattern_of(pattern).tolist()
        if identifier != NEW
    )
    rows = connection.execute(_COUNT_OUTCOMES, {**values, "ids": list(repeats), "times": list(repeats.values())})
    return [
        OutcomeOfGroup(**{**row._mapping, "candidates": row.candidates or 0.0, "jobs": row.jobs or 0}) for row in rows
    ]


def _canary(row: sa.Row[Any]) -> Canary:
    columns = dict(row._mapping)
    proposals = tuple(Proposal(key, value, vo) for key, value, vo in columns.pop("proposals"))
    return Canary(proposals=proposals, **columns)
