"""The stored decisions of one run of an agent as a cycle that can be replayed.

The decisions of a cycle share a run, a brokerage, a snapshot, a version of the tuning and a seed. They come in the
order in which they were made: by ascending id, with decisions that were seen again at their place in the pattern of
their batch.
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
    """No decision with this number is stored, or it is no longer stored."""


@dataclass(frozen=True)
class CycleKey:
    """The identity of a stored cycle, and its number of decisions.

    Attributes:
        brokerage: the brokerage that decided.
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
        brokerage: the brokerage that decided.
        origin: run, instant, snapshot, tuning, seed and engine of all of them.
        decisions: each with its work in ``record.work`` (None if none was stored).
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

    ``snapshot`` and ``brokerages`` restrict them to that snapshot and these brokerages.
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
    """The decisions of a cycle; empty if they have been cleaned up in the meantime."""
    values = _values_of(key)
    own = decisions_of(connection, (dict(row._mapping) for row in connection.execute(_OF_CYCLE, values)))
    repeats = list(connection.execute(_READ_REPEATS_OF_CYCLE, values))
    if repeats:
        own = _in_order(own, repeats, _decided_before(connection, repeats, key), key)
    return StoredCycle(key.brokerage, key.origin, tuple(with_live_counts(connection, own)))


def plain_rows(connection: Connection, key: CycleKey) -> Sequence[Any] | None:
    """Outcome, reason, jobs and work of the decisions of a cycle, in order; None if it saw some of them again.

    The jobs are the text of a JSON object, because parsing all rows at once is many times faster. The explanations of
    the decisions are not read; they take most of the time of :func:`read_cycle`.
    """
    values = _values_of(key)
    if connection.execute(_SAW_AGAIN, values).scalar_one():
        return None
    return connection.execute(_PLAIN_OF_CYCLE, values).all()


def _decided_before(connection: Connection, repeats: Sequence[Any], key: CycleKey) -> dict[int, StoredDecision]:
    ids = {identifier for row in repeats for identifier in pattern_of(row.pattern).tolist()} - {NEW}
    decisions = by_id(connection, sorted(ids), day_of(key.origin.decided_at), key.origin.decided_at)
    return {decision.id: decision for decision in decisions}


def _in_order(
    own: Sequence[StoredDecision], repeats: Sequence[Any], before: Mapping[int, StoredDecision], key: CycleKey
) -> list[StoredDecision]:
    """Merge the rows of a cycle with those it saw again; the id of a pattern precedes those of its batch's rows."""
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


def _seen_again(stored: StoredDecision, difference: bytes | None, key: CycleKey) -> StoredDecision:
    """A decision as a later cycle of the same day made it."""
    record = waiting_from(stored, key.origin.decided_at)
    if difference is not None:
        try:
            body = changed(body_of(stored.record), difference)
            record = with_body(record, body)
        except (RepeatsCorruptError, RemarksCorruptError, ValueError) as error:
            raise _unreadable(error) from error
    return dataclasses.replace(stored, origin=key.origin, record=record)


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
    """Iterate over the cycles of :func:`cycle_keys`, with only one in memory at a time."""
    for key in cycle_keys(connection, since=since, until=until, snapshot=snapshot, brokerages=brokerages):
        yield read_cycle(connection, key)


def whole(cycles: Sequence[CycleKey] | Sequence[StoredCycle]) -> list[bool]:
    """Whether each cycle is a whole run: with a canary, a run has one cycle for each of two versions of the tuning.

    Each of the two counts what the other one placed, so it cannot be replayed as a whole by itself.
    """
    runs = [(cycle.brokerage, dataclasses.replace(cycle.origin, tuning=0)) for cycle in cycles]
    parts = Counter(runs)
    return [parts[run] == 1 for run in runs]


def cycles_of(decisions: Iterable[StoredDecision]) -> list[StoredCycle]:
    """Group decisions read from elsewhere into cycles, ordered by the first decision of each."""
    by_cycle: dict[tuple[str, Origin], list[StoredDecision]] = {}
    for decision in decisions:
        by_cycle.setdefault((decision.record.decision.brokerage, decision.origin), []).append(decision)
    return [
        StoredCycle(brokerage, origin, tuple(cycle_decisions))
        for (brokerage, origin), cycle_decisions in by_cycle.items()
    ]


def one_decision(connection: Connection, identifier: int) -> StoredDecision:
    """The decision with this number (``id`` of ``broker.decisions``).

    Raises:
        NoSuchDecision: there is no such decision.
    """
    row = connection.execute(_READ_DECISION, {"id": identifier}).one_or_none()
    if row is None:
        raise NoSuchDecision(
            f"no decision {identifier}", "broker.decisions", "broker story TASK lists the decisions of a task"
        )
    (decision,) = with_live_counts(connection, decisions_of(connection, [dict(row._mapping)]))
    return decision


def decided_works(connection: Connection, key: CycleKey) -> list[StoredOutcome]:
    """The outcomes of a cycle in the order in which they were decided; empty if they have been cleaned up meanwhile."""
    rows = plain_rows(connection, key)
    if rows is not None:
        # the server produces these texts from stored JSON
        assigned = read_json(("[" + ",".join([row.assigned or "{}" for row in rows]) + "]").encode())
        return [
            StoredOutcome(row.outcome, row.reason or "", jobs or {}, bytes(row.work or b""))
            for row, jobs in zip(rows, assigned, strict=True)
        ]
    return [
        StoredOutcome(record.decision.outcome, record.decision.reason, record.assigned, record.work or b"")
        for record in (stored.record for stored in read_cycle(connection, key).decisions)
    ]
