"""The decisions of one run of an agent, together: a cycle that can be decided again.

A cycle here is what shares a run, a brokerage, a snapshot, a version of the tuning and a seed. Its decisions come in
the order in which they were made: as their ids rise, those that were seen again where the pattern of their batch has
them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.engine import Connection

from broker.codec.packed_remarks import RemarksCorruptError
from broker.codec.repeats import NEW, RepeatsCorruptError, changed, changes_by_place
from broker.codec.work_texts import read_json
from broker.domain.decisions import Origin, StoredDecision, StoredOutcome
from broker.errors import NotFound
from broker.store.decisions.decision_days import day_of
from broker.store.decisions.decision_rows import (
    COLUMNS,
    TABLE,
    RepeatsUnreadable,
    body_of,
    by_id,
    decisions_of,
    pattern_of,
    waiting_from,
    with_body,
    with_live_counts,
)

_SAME = ("agent_run", "brokerage", "decided_at", "snapshot", "tuning", "seed", "engine")

_READ_CYCLES = text(f"""
    SELECT {", ".join(_SAME)}, min(id) AS first, sum(size) AS size
    FROM (
        SELECT id, 1 AS size, {", ".join(_SAME)} FROM {TABLE}
        UNION ALL SELECT id, size, {", ".join(_SAME)} FROM broker.decision_repeats
    ) AS decided
    WHERE decided_at >= coalesce(:since, '-infinity'::timestamptz)
      AND decided_at <= coalesce(:until, 'infinity'::timestamptz)
      AND (CAST(:snapshot AS text) IS NULL OR snapshot = :snapshot)
      AND (CAST(:brokerages AS text[]) IS NULL OR brokerage = ANY(:brokerages))
    GROUP BY {", ".join(_SAME)}
    ORDER BY first""")  # noqa: S608 - constants

_IN_CYCLE = """
    agent_run IS NOT DISTINCT FROM :agent_run AND brokerage = :brokerage AND decided_at = :decided_at
    AND snapshot IS NOT DISTINCT FROM :snapshot AND coalesce(tuning, 0) = :tuning AND coalesce(seed, 0) = :seed
    AND coalesce(engine, '') = :engine"""

_OF_CYCLE = text(f"SELECT {COLUMNS} FROM {TABLE} WHERE {_IN_CYCLE} ORDER BY id")  # noqa: S608 - constants
_READ_REPEATS_OF_CYCLE = text(
    f"SELECT id, pattern, changes FROM broker.decision_repeats WHERE {_IN_CYCLE} ORDER BY id"  # noqa: S608 - a constant
)
_PLAIN_OF_CYCLE = text(
    f"SELECT outcome, reason, assigned::text AS assigned, work FROM {TABLE} WHERE {_IN_CYCLE} ORDER BY id"  # noqa: S608 - constants
)
_SAW_AGAIN = text(
    f"SELECT EXISTS (SELECT FROM broker.decision_repeats WHERE {_IN_CYCLE})"  # noqa: S608 - a constant
)
_READ_DECISION = text(f"SELECT {COLUMNS} FROM {TABLE} WHERE id = :id")  # noqa: S608 - constants


class NoSuchDecision(NotFound):
    """No decision of that number is stored, or none any more."""


@dataclass(frozen=True)
class CycleKey:
    """What tells a stored cycle from others, and how many decisions it has.

    Attributes:
        brokerage: that decided.
        origin: run, instant, snapshot, tuning, seed and engine of its decisions.
        size: number of decisions.
    """

    brokerage: str
    origin: Origin
    size: int


@dataclass(frozen=True)
class StoredCycle:
    """The decisions of one cycle, in the order in which they were made.

    Attributes:
        brokerage: that decided.
        origin: run, instant, snapshot, tuning, seed and engine of all of them.
        decisions: with the work of each in ``record.work`` (None where none was stored).
    """

    brokerage: str
    origin: Origin
    decisions: tuple[StoredDecision, ...]


def cycle_keys(
    connection: Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    snapshot: str | None = None,
    brokerages: Sequence[str] | None = None,
) -> list[CycleKey]:
    """The stored cycles that decided for an instant from ``since`` to ``until`` (both included), oldest first.

    With ``snapshot`` only those on that one; with ``brokerages`` only those of these.
    """
    names = None if brokerages is None else list(brokerages)
    values = {"since": since, "until": until, "snapshot": snapshot, "brokerages": names}
    return [
        CycleKey(
            row.brokerage,
            Origin(row.agent_run, row.decided_at, row.snapshot, row.tuning or 0, row.seed or 0, row.engine or ""),
            row.size,
        )
        for row in connection.execute(_READ_CYCLES, values)
    ]


def _values_of(key: CycleKey) -> dict[str, Any]:
    origin = key.origin
    return {
        "agent_run": origin.agent_run,
        "brokerage": key.brokerage,
        "decided_at": origin.decided_at,
        "snapshot": origin.snapshot,
        "tuning": origin.tuning,
        "seed": origin.seed,
        "engine": origin.engine,
    }


def read_cycle(connection: Connection, key: CycleKey) -> StoredCycle:
    """The decisions of a cycle; none if they were cleared away meanwhile."""
    values = _values_of(key)
    own = decisions_of(connection, (dict(row._mapping) for row in connection.execute(_OF_CYCLE, values)))
    repeats = list(connection.execute(_READ_REPEATS_OF_CYCLE, values))
    if repeats:
        own = _in_order(own, repeats, _decided_before(connection, repeats, key), key)
    return StoredCycle(key.brokerage, key.origin, tuple(with_live_counts(connection, own)))


def plain_rows(connection: Connection, key: CycleKey) -> Sequence[Any] | None:
    """Outcome, reason, jobs and work of the decisions of a cycle, in order; None where it saw some of them again.

    The jobs are the text of an object, which is many times quicker to read for all rows at once.
    What explains the decisions is not read: that is most of what :func:`read_cycle` takes.
    """
    values = _values_of(key)
    if connection.execute(_SAW_AGAIN, values).scalar_one():
        return None
    return connection.execute(_PLAIN_OF_CYCLE, values).all()


def _decided_before(connection: Connection, repeats: Sequence[Any], key: CycleKey) -> dict[int, StoredDecision]:
    ids = {identifier for row in repeats for identifier in pattern_of(row.pattern).tolist()} - {NEW}
    found = by_id(connection, sorted(ids), day_of(key.origin.decided_at), key.origin.decided_at)
    return {one.id: one for one in found}


def _in_order(
    own: Sequence[StoredDecision], repeats: Sequence[Any], before: Mapping[int, StoredDecision], key: CycleKey
) -> list[StoredDecision]:
    """The rows of a cycle and those that it saw again; a pattern is older than the rows of its batch."""
    rows, merged = list(reversed(own)), []
    for row in repeats:
        while rows and rows[-1].id < row.id:
            merged.append(rows.pop())
        changes = _changes(row)
        for place, identifier in enumerate(pattern_of(row.pattern).tolist()):
            if identifier == NEW:
                merged += [rows.pop()] if rows else []
            elif identifier in before:
                merged.append(_seen_again(before[identifier], changes.get(place), key))
    return merged + list(reversed(rows))


def _changes(row: Any) -> dict[int, bytes]:
    try:
        return changes_by_place(None if row.changes is None else bytes(row.changes))
    except RepeatsCorruptError as error:
        raise _unreadable(error) from error


def _seen_again(made: StoredDecision, difference: bytes | None, key: CycleKey) -> StoredDecision:
    """A decision as a later cycle of the day came to it."""
    record = waiting_from(made, key.origin.decided_at)
    if difference is not None:
        try:
            body = changed(body_of(made.record), difference)
            record = with_body(record, body)
        except (RepeatsCorruptError, RemarksCorruptError, ValueError) as error:
            raise _unreadable(error) from error
    return dataclasses.replace(made, origin=key.origin, record=record)


def _unreadable(error: Exception) -> RepeatsUnreadable:
    return RepeatsUnreadable(str(error), "broker.decision_repeats", "restore the table from a backup")


def stored_cycles(
    connection: Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    snapshot: str | None = None,
    brokerages: Sequence[str] | None = None,
) -> Iterator[StoredCycle]:
    """The cycles of :func:`cycle_keys`, one after the other, so that only one is held in memory."""
    for key in cycle_keys(connection, since=since, until=until, snapshot=snapshot, brokerages=brokerages):
        yield read_cycle(connection, key)


def whole(cycles: Sequence[CycleKey] | Sequence[StoredCycle]) -> list[bool]:
    """For each whether it is all of its run: with a canary, a run has a cycle for each of two versions of the tuning.

    Such a part counts what the other one placed, so that it cannot be decided as a whole by itself.
    """
    runs = [(one.brokerage, dataclasses.replace(one.origin, tuning=0)) for one in cycles]
    parts = Counter(runs)
    return [parts[run] == 1 for run in runs]


def cycles_of(decisions: Iterable[StoredDecision]) -> list[StoredCycle]:
    """The cycles of decisions that were read from elsewhere, in the order of their first ones."""
    found: dict[tuple[str, Origin], list[StoredDecision]] = {}
    for one in decisions:
        found.setdefault((one.record.decision.brokerage, one.origin), []).append(one)
    return [StoredCycle(brokerage, origin, tuple(some)) for (brokerage, origin), some in found.items()]


def one_decision(connection: Connection, identifier: int) -> StoredDecision:
    """The decision of this number (``id`` of ``broker.decisions``).

    Raises:
        NoSuchDecision: there is none.
    """
    row = connection.execute(_READ_DECISION, {"id": identifier}).one_or_none()
    if row is None:
        raise NoSuchDecision(
            f"no decision {identifier}", "broker.decisions", "broker story TASK lists the decisions of a task"
        )
    (found,) = with_live_counts(connection, decisions_of(connection, [dict(row._mapping)]))
    return found


def decided_works(connection: Connection, key: CycleKey) -> list[StoredOutcome]:
    """The decisions of a cycle, in the order in which they were made; none if they were cleared away meanwhile."""
    rows = plain_rows(connection, key)
    if rows is not None:
        # the server makes these texts of what it stores as JSON
        assigned = read_json(("[" + ",".join([row.assigned or "{}" for row in rows]) + "]").encode())
        return [
            StoredOutcome(row.outcome, row.reason or "", jobs or {}, bytes(row.work or b""))
            for row, jobs in zip(rows, assigned, strict=True)
        ]
    return [
        StoredOutcome(one.decision.outcome, one.decision.reason, one.assigned, one.work or b"")
        for one in (stored.record for stored in read_cycle(connection, key).decisions)
    ]
