"""Reading stored decisions, in whatever form they were written: the only reader, shared by all callers.

``broker.stored_decisions`` has the packed rows of this release and the rows of earlier ones, with names and reasons as
JSON. ``broker.decision_repeats`` has the decisions that a cycle saw again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
from sqlalchemy import text
from sqlalchemy.engine import Connection

from broker.codec.packed_candidates import CandidatesCorruptError, unpack_candidates
from broker.codec.packed_reasons import FunnelSteps, Reasons, ReasonsCorruptError, RejectedNames, unpack_reasons
from broker.codec.packed_remarks import Notes, RemarksCorruptError, pack_remarks, unpack_remarks
from broker.codec.repeats import Body, RepeatsCorruptError, unpack_pattern
from broker.domain.arrays import Ints
from broker.domain.chosen_candidates import Legend
from broker.domain.decisions import Candidate, Decision, DecisionRecord, FunnelStep, Origin, StoredDecision
from broker.errors import BrokerError
from broker.store.connection.plain_rows import mappings
from broker.store.decisions import legends
from broker.store.decisions.legends import clean_json

_READ_REPEATS_BETWEEN = text("""
    SELECT agent_run, decided_at, pattern FROM broker.decision_repeats
    WHERE brokerage = :brokerage AND decided_at > :first AND decided_at <= :last ORDER BY decided_at, id""")


class RepeatsUnreadable(BrokerError):
    """A row of repeated decisions is damaged."""


@dataclass(frozen=True)
class RepeatCount:
    """How often a decision was seen again, and the last cycle that saw it; None if none did."""

    times: int = 0
    last_at: datetime | None = None
    last_run: int | None = None


def sightings(
    connection: Connection, decisions: Sequence[tuple[str, int, datetime]], until: datetime
) -> dict[int, RepeatCount]:
    """How often decisions were seen again up to ``until``, by number.

    Args:
        connection: the connection to read from.
        decisions: brokerage, number and instant of each decision.
        until: cycles for a later instant do not count.
    """
    by_decision = {identifier: RepeatCount() for _, identifier, _ in decisions}
    for brokerage in {name for name, _, _ in decisions}:
        moments = {identifier: moment for name, identifier, moment in decisions if name == brokerage}
        wanted = np.array(sorted(moments), dtype=np.int64)
        values = {"brokerage": brokerage, "first": min(moments.values()), "last": until}
        for row in connection.execute(_READ_REPEATS_BETWEEN, values):
            for identifier in np.intersect1d(wanted, pattern_of(row.pattern)).tolist():
                by_decision[identifier] = RepeatCount(by_decision[identifier].times + 1, row.decided_at, row.agent_run)
    return by_decision


def pattern_of(data: bytes) -> Ints:
    """Unpack the pattern of a row.

    Raises:
        RepeatsUnreadable: the pattern is damaged.
    """
    try:
        return unpack_pattern(bytes(data))
    except RepeatsCorruptError as error:
        raise RepeatsUnreadable(str(error), "broker.decision_repeats", "restore the table from a backup") from error


#: The view from which all decisions are read.
TABLE = "broker.stored_decisions"
#: The columns of a row that :func:`decisions_of` needs.
COLUMNS = (
    "id, agent_run, jeditaskid, datasetid, ramcount, brokerage, outcome, reason, decided_at, snapshot, tuning, seed, "
    "engine, assigned, notes, work, pending_until, legend, reasons, candidates, remarks, seen_again, last_seen_at, "
    "last_agent_run, named_funnel, named_candidates, named_rejected"
)

# The last row of each chunk up to an instant; broker.chunk_states saves the search for the very last ones.
# Skipped decisions are returned only for chunks that have no others.
_LAST_UNTIL = text(f"""
    SELECT DISTINCT ON (brokerage, datasetid, ramcount) id, decided_at, brokerage, datasetid, ramcount FROM {TABLE}
    WHERE jeditaskid = :task AND decided_at <= coalesce(:until, 'infinity'::timestamptz)
      AND decided_at >= coalesce(CAST(:until AS timestamptz) - CAST(:look AS interval), '-infinity'::timestamptz)
      AND (CAST(:brokerage AS text) IS NULL OR brokerage = :brokerage)
    ORDER BY brokerage DESC, datasetid, ramcount NULLS FIRST, outcome = 'skipped', decided_at DESC, id DESC""")  # noqa: S608 - a constant
_READ_CHUNK_STATES = text("""
    SELECT brokerage, decision, decided_at, seen_again, last_seen_at, last_agent_run
    FROM broker.chunk_states WHERE jeditaskid = :task AND (CAST(:brokerage AS text) IS NULL OR brokerage = :brokerage)
    ORDER BY brokerage DESC, datasetid, ramcount NULLS FIRST""")
_READ_CHUNK_KEYS = text("""
    SELECT brokerage, datasetid, ramcount FROM broker.chunk_states
    WHERE jeditaskid = :task AND (CAST(:brokerage AS text) IS NULL OR brokerage = :brokerage)""")
_READ_LAST_SEEN = text("""
    SELECT decision, seen_again, last_seen_at, last_agent_run
    FROM broker.chunk_states WHERE decision = ANY(:ids)""")
_BY_ID = f"""
    SELECT {COLUMNS} FROM broker.stored_decisions
    WHERE id = ANY(:ids) AND decided_at >= :first AND decided_at <= :last"""  # noqa: S608 - constants
#: Queries without the work, which is most of a row; the second one also without notes.
WITHOUT_WORK = _BY_ID.replace("work,", "NULL::bytea AS work,")
REASONS_ALONE = WITHOUT_WORK.replace("notes,", "NULL::jsonb AS notes,").replace("remarks,", "NULL::bytea AS remarks,")

# How far back the rows of a task are read first: decisions about waiting work are repeated all the time.
_FIRST_LOOK = timedelta(days=1)


Alike = dict[tuple[int | None, bytes], Reasons]
"""Unpacked reasons by legend and stored bytes, because much work is rejected alike."""


class DecisionUnreadable(BrokerError):
    """A stored decision is damaged."""


def unreadable(number: int, error: Exception) -> DecisionUnreadable:
    """The error for a decision that cannot be unpacked."""
    remedy = "restore it from a backup, or let it age out"
    return DecisionUnreadable(f"decision {number}: {error}", "broker.decisions", remedy)


def decisions_of(connection: Connection, rows: Iterable[Mapping[str, Any]]) -> list[StoredDecision]:
    """Convert rows with :data:`COLUMNS` to decisions.

    Raises:
        DecisionUnreadable: one of them is damaged.
        LegendUnreadable: the legend of one of them is damaged.
    """
    stored_rows, alike = list(rows), Alike()
    known = legends.read(connection, [row["legend"] for row in stored_rows if row["legend"] is not None])
    return [stored_decision(row, known.get(row["legend"]), alike) for row in stored_rows]


def stored_decision(row: Mapping[str, Any], legend: Legend | None, alike: Alike | None = None) -> StoredDecision:
    """Convert a row with :data:`COLUMNS`, given its legend and a cache of unpacked reasons.

    Raises:
        DecisionUnreadable: the row is damaged.
    """
    try:
        decision = _named(row) if row["reasons"] is None else _packed(row, legend, {} if alike is None else alike)
    except (ReasonsCorruptError, CandidatesCorruptError, RemarksCorruptError) as error:
        raise unreadable(row["id"], error) from error
    origin = Origin(
        row["agent_run"], row["decided_at"], row["snapshot"], row["tuning"] or 0, row["seed"] or 0, row["engine"] or ""
    )
    work = None if row["work"] is None else bytes(row["work"])
    record = DecisionRecord(decision, row["assigned"] or {}, row["pending_until"], work)
    seen = row["seen_again"], row["last_seen_at"], row["last_agent_run"]
    return StoredDecision(row["id"], origin, record, *seen)


def _packed(row: Mapping[str, Any], legend: Legend | None, alike: Alike) -> Decision:
    key = row["legend"], bytes(row["reasons"])
    if key not in alike:
        alike[key] = unpack_reasons(legend, key[1])
    reasons = alike[key]
    notes: Sequence[str] = tuple(row["notes"] or ())
    if row["remarks"] is not None:
        notes = Notes(tuple(notes), unpack_remarks(legend, bytes(row["remarks"])))
    chosen = unpack_candidates(legend, None if row["candidates"] is None else bytes(row["candidates"]))
    return _decision(row, chosen, reasons, notes)


def _named(row: Mapping[str, Any]) -> Decision:
    """The decision in a row of an earlier release, with names in JSON."""
    rejected = {queue: code for code, queues in (row["named_rejected"] or {}).items() for queue in queues}
    steps = tuple(FunnelStep(*step) for step in row["named_funnel"] or [])
    chosen = tuple(
        Candidate(candidate["name"], candidate["weight"], candidate["factors"], candidate.get("bootstrap", False))
        for candidate in row["named_candidates"] or []
    )
    reasons = Reasons(Legend(()), np.zeros(0, dtype=np.int16), "", rejected, steps)
    return _decision(row, chosen, reasons, tuple(row["notes"] or ()))


def _decision(
    row: Mapping[str, Any], candidates: Sequence[Candidate], reasons: Reasons, notes: Sequence[str]
) -> Decision:
    return Decision(
        jeditaskid=row["jeditaskid"],
        datasetid=row["datasetid"],
        ramcount=row["ramcount"],
        brokerage=row["brokerage"],
        outcome=row["outcome"],
        reason=row["reason"] or "",
        candidates=candidates,
        rejected=RejectedNames(reasons),
        funnel=FunnelSteps(reasons),
        notes=notes,
    )


def latest(
    connection: Connection, jeditaskid: int, until: datetime | None = None, brokerage: str | None = None
) -> list[StoredDecision]:
    """The decisions of the last cycle (up to ``until``) that considered a task, one per chunk; empty if no cycle did.

    With ``brokerage`` only its cycles count. Two brokerages may have decided at the same instant. A decision that the
    last cycle saw again is returned as the row in which it was first made.
    """
    decisions = latest_of_each(connection, jeditaskid, until, brokerage)
    last = max((_seen_at(stored) for stored in decisions), default=None)
    return [stored for stored in decisions if _seen_at(stored) == last]


def latest_of_each(
    connection: Connection, jeditaskid: int, until: datetime | None = None, brokerage: str | None = None
) -> list[StoredDecision]:
    """The decisions of the last cycle of each brokerage that considered a task, the nucleus brokerage first."""
    if until is None:
        decisions = _last_states(connection, jeditaskid, brokerage)
        if decisions:
            return decisions
    rows = _last_rows(connection, jeditaskid, until, brokerage)
    if not rows:
        return []
    moments = [row.decided_at for row in rows]
    known = {stored.id: stored for stored in by_id(connection, [row.id for row in rows], min(moments), max(moments))}
    originals = [known[row.id] for row in rows if row.id in known]
    decisions = with_live_counts(connection, originals)
    if until is not None:
        decisions = _as_seen_until(connection, originals, decisions, until)
    return [as_last_seen(stored) for stored in _of_last_cycle(decisions)]


def _last_rows(connection: Connection, jeditaskid: int, until: datetime | None, brokerage: str | None) -> list[Any]:
    """The last row of each chunk of a task, reading no more days than it takes to find all its chunks."""
    values: dict[str, Any] = {"task": jeditaskid, "until": until, "brokerage": brokerage, "look": None}
    if until is not None:
        states = connection.execute(_READ_CHUNK_KEYS, {"task": jeditaskid, "brokerage": brokerage})
        wanted = {tuple(key) for key in states}
        rows = list(connection.execute(_LAST_UNTIL, {**values, "look": _FIRST_LOOK})) if wanted else []
        if wanted and wanted <= {(row.brokerage, row.datasetid, row.ramcount) for row in rows}:
            return rows
    return list(connection.execute(_LAST_UNTIL, values))


def by_id(
    connection: Connection, ids: Sequence[int], first: datetime, last: datetime, query: str = _BY_ID
) -> list[StoredDecision]:
    """The decisions with these numbers that were made from ``first`` to ``last``, in no particular order.

    Pass :data:`WITHOUT_WORK` or :data:`REASONS_ALONE` as ``query`` if only these parts are needed.
    """
    values = {"ids": list(ids), "first": first, "last": last}
    return decisions_of(connection, mappings(connection, text(query), values))


def with_live_counts(connection: Connection, decisions: Sequence[StoredDecision]) -> list[StoredDecision]:
    """The decisions with current repeat counts, which the state of a chunk has for its last decision."""
    rows = connection.execute(_READ_LAST_SEEN, {"ids": [stored.id for stored in decisions]}) if decisions else ()
    live = {row.decision: row for row in rows}
    return [_with_state(stored, live.get(stored.id)) for stored in decisions]


def _with_state(stored: StoredDecision, state: Any) -> StoredDecision:
    if state is None or not state.seen_again:
        return stored
    return dataclasses.replace(
        stored,
        seen_again=state.seen_again,
        last_seen_at=state.last_seen_at,
        last_agent_run=state.last_agent_run,
    )


def as_last_seen(stored: StoredDecision) -> StoredDecision:
    """The decision with the wait of its task counted from the last cycle that saw it again."""
    if stored.last_seen_at is None:
        return stored
    return dataclasses.replace(stored, record=waiting_from(stored, stored.last_seen_at))


def _last_states(connection: Connection, jeditaskid: int, brokerage: str | None) -> list[StoredDecision]:
    """The last decisions according to the chunk states; empty if one of these decisions is not stored."""
    states = list(connection.execute(_READ_CHUNK_STATES, {"task": jeditaskid, "brokerage": brokerage}))
    last = {
        name: max(state.last_seen_at for state in states if state.brokerage == name)
        for name in {state.brokerage for state in states}
    }
    states = [state for state in states if state.last_seen_at == last[state.brokerage]]
    if not states:
        return []
    moments = [state.decided_at for state in states]
    by_number = {
        state.id: state for state in by_id(connection, [state.decision for state in states], min(moments), max(moments))
    }
    if any(state.decision not in by_number for state in states):
        return []
    return [as_last_seen(_with_state(by_number[state.decision], state)) for state in states]


def _as_seen_until(
    connection: Connection, originals: Sequence[StoredDecision], live: Sequence[StoredDecision], until: datetime
) -> list[StoredDecision]:
    """The decisions as they were known at ``until``, without later repeats."""
    late = {stored.id for stored in live if stored.last_seen_at is not None and stored.last_seen_at > until}
    late_decisions = [
        (stored.record.decision.brokerage, stored.id, stored.origin.decided_at)
        for stored in originals
        if stored.id in late
    ]
    seen = sightings(connection, late_decisions, until)
    return [
        seen_at(original, seen[original.id]) if original.id in late else known
        for original, known in zip(originals, live, strict=True)
    ]


def seen_at(stored: StoredDecision, seen: RepeatCount) -> StoredDecision:
    """A decision as of the last cycle in ``seen``."""
    return dataclasses.replace(
        stored,
        seen_again=seen.times,
        last_seen_at=seen.last_at,
        last_agent_run=seen.last_run,
    )


def waiting_from(stored: StoredDecision, moment: datetime) -> DecisionRecord:
    """The record of a decision made again at ``moment``: its task waits equally long, counted from then."""
    until = stored.record.pending_until
    later = None if until is None else until + (moment - stored.origin.decided_at)
    return dataclasses.replace(stored.record, pending_until=later)


def _of_last_cycle(decisions: Sequence[StoredDecision]) -> list[StoredDecision]:
    last: dict[str, datetime] = {}
    for stored in decisions:
        name = stored.record.decision.brokerage
        last[name] = max(last.get(name, _seen_at(stored)), _seen_at(stored))
    return [stored for stored in decisions if _seen_at(stored) == last[stored.record.decision.brokerage]]


def _seen_at(stored: StoredDecision) -> datetime:
    """The instant of the last cycle that made this decision."""
    return stored.last_seen_at or stored.origin.decided_at


def body_of(record: DecisionRecord) -> Body:
    """The parts of a decision that may differ without making it a different one."""
    codes, remarks = packed_notes([record.decision.notes])[0]
    return Body(codes.encode(), remarks, record.work)


def packed_notes(notes: Sequence[Sequence[str]]) -> list[tuple[str, bytes | None]]:
    """The notes of each decision: codes as JSON, and figures packed (None without figures)."""
    rows = [row for row, own in enumerate(notes) if isinstance(own, Notes)]
    remarks: dict[int, bytes | None] = {}
    if rows:
        figures = [own.remarks for own in notes if isinstance(own, Notes)]
        remarks = dict(zip(rows, pack_remarks(figures), strict=True))
    return [
        (_codes(own.codes), remarks[row]) if isinstance(own, Notes) else (_codes(tuple(own)), None)
        for row, own in enumerate(notes)
    ]


@lru_cache(maxsize=64)
def _codes(codes: tuple[str, ...]) -> str:
    """Encode codes as JSON, cached because nearly all decisions of a cycle have the same ones."""
    return clean_json(list(codes))


def with_body(record: DecisionRecord, body: Body) -> DecisionRecord:
    """The same decision with the parts in ``body``.

    Raises:
        RemarksCorruptError: the figures are damaged.
        ValueError: the notes are damaged.
    """
    notes: Sequence[str] = tuple(json.loads(body.notes or b"[]"))
    if body.remarks is not None:
        notes = Notes(tuple(notes), unpack_remarks(_legend(record), body.remarks))
    decision = dataclasses.replace(record.decision, notes=notes)
    return dataclasses.replace(record, decision=decision, work=body.work)


def _legend(record: DecisionRecord) -> Legend | None:
    rejected = record.decision.rejected
    return rejected.reasons.legend if isinstance(rejected, RejectedNames) else None
