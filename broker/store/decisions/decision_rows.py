"""Stored decisions as they are read, in whatever form they were written: the one reader of all that asks about them.

``broker.stored_decisions`` has the packed rows of this release and the rows with names and reasons as JSON of those
before it.

Which decisions a cycle saw again, read back from ``broker.decision_repeats``.
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
    """A row of repeated decisions that is damaged."""


@dataclass(frozen=True)
class Sightings:
    """How often a decision was seen again, and the last cycle that did; None where none did."""

    times: int = 0
    last_at: datetime | None = None
    last_run: int | None = None


def sightings(
    connection: Connection, decisions: Sequence[tuple[str, int, datetime]], until: datetime
) -> dict[int, Sightings]:
    """How often decisions were seen again up to ``until``.

    Args:
        connection: to read from.
        decisions: brokerage, number and instant of each.
        until: cycles for a later instant do not count.
    """
    found = {identifier: Sightings() for _, identifier, _ in decisions}
    for brokerage in {one for one, _, _ in decisions}:
        own = {identifier: moment for name, identifier, moment in decisions if name == brokerage}
        wanted = np.array(sorted(own), dtype=np.int64)
        values = {"brokerage": brokerage, "first": min(own.values()), "last": until}
        for row in connection.execute(_READ_REPEATS_BETWEEN, values):
            for identifier in np.intersect1d(wanted, pattern_of(row.pattern)).tolist():
                found[identifier] = Sightings(found[identifier].times + 1, row.decided_at, row.agent_run)
    return found


def pattern_of(data: bytes) -> Ints:
    """The pattern of a row.

    Raises:
        RepeatsUnreadable: it is damaged.
    """
    try:
        return unpack_pattern(bytes(data))
    except RepeatsCorruptError as error:
        raise RepeatsUnreadable(str(error), "broker.decision_repeats", "restore the table from a backup") from error


#: Where all decisions are read.
TABLE = "broker.stored_decisions"
#: The columns of a row that :func:`decisions_of` needs.
COLUMNS = (
    "id, agent_run, jeditaskid, datasetid, ramcount, brokerage, outcome, reason, decided_at, snapshot, tuning, seed, "
    "engine, assigned, notes, work, pending_until, legend, reasons, candidates, remarks, seen_again, last_seen_at, "
    "last_agent_run, named_funnel, named_candidates, named_rejected"
)

# The last row of each chunk up to an instant; what is in broker.chunk_states saves looking for the very last ones.
# What was not written is shown where there is nothing else.
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
#: Without what is most of a row: its work; and without notes.
WITHOUT_WORK = _BY_ID.replace("work,", "NULL::bytea AS work,")
REASONS_ALONE = WITHOUT_WORK.replace("notes,", "NULL::jsonb AS notes,").replace("remarks,", "NULL::bytea AS remarks,")

# So far back the rows of a task are read first: what waits is decided about again and again.
_FIRST_LOOK = timedelta(days=1)


Alike = dict[tuple[int | None, bytes], Reasons]
"""Reasons by their legend and what is stored of them: much work is rejected alike."""


class DecisionUnreadable(BrokerError):
    """A stored decision that is damaged."""


def unreadable(number: int, error: Exception) -> DecisionUnreadable:
    """The error for a decision of which something cannot be unpacked."""
    remedy = "restore it from a backup, or let it age out"
    return DecisionUnreadable(f"decision {number}: {error}", "broker.decisions", remedy)


def decisions_of(connection: Connection, rows: Iterable[Mapping[str, Any]]) -> list[StoredDecision]:
    """Rows with :data:`COLUMNS` as decisions.

    Raises:
        DecisionUnreadable: one of them is damaged.
        LegendUnreadable: what its positions stand for is.
    """
    found, alike = list(rows), Alike()
    known = legends.read(connection, [row["legend"] for row in found if row["legend"] is not None])
    return [stored_decision(row, known.get(row["legend"]), alike) for row in found]


def stored_decision(row: Mapping[str, Any], legend: Legend | None, alike: Alike | None = None) -> StoredDecision:
    """A row with :data:`COLUMNS`, the legend that it names, and reasons that were unpacked before.

    Raises:
        DecisionUnreadable: it is damaged.
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
    """A row of a release before, with names in JSON."""
    rejected = {queue: code for code, queues in (row["named_rejected"] or {}).items() for queue in queues}
    steps = tuple(FunnelStep(*step) for step in row["named_funnel"] or [])
    chosen = tuple(
        Candidate(one["name"], one["weight"], one["factors"], one.get("bootstrap", False))
        for one in row["named_candidates"] or []
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
    """The decisions of the last cycle (up to ``until``) that looked at a task, one a chunk; none when no cycle has.

    With ``brokerage`` only its cycles count. Two brokerages may have decided at the same instant. A decision that the
    last cycle saw again is the row where it was made first.
    """
    found = latest_of_each(connection, jeditaskid, until, brokerage)
    last = max((_seen_at(stored) for stored in found), default=None)
    return [stored for stored in found if _seen_at(stored) == last]


def latest_of_each(
    connection: Connection, jeditaskid: int, until: datetime | None = None, brokerage: str | None = None
) -> list[StoredDecision]:
    """The decisions of the last cycle of each brokerage that looked at a task; that of the nucleus comes first."""
    if until is None:
        found = _last_states(connection, jeditaskid, brokerage)
        if found:
            return found
    rows = _last_rows(connection, jeditaskid, until, brokerage)
    if not rows:
        return []
    moments = [row.decided_at for row in rows]
    known = {one.id: one for one in by_id(connection, [row.id for row in rows], min(moments), max(moments))}
    as_made = [known[row.id] for row in rows if row.id in known]
    found = with_live_counts(connection, as_made)
    if until is not None:
        found = _as_seen_until(connection, as_made, found, until)
    return [as_last_seen(one) for one in _of_last_cycle(found)]


def _last_rows(connection: Connection, jeditaskid: int, until: datetime | None, brokerage: str | None) -> list[Any]:
    """The last row of each chunk of a task; of its days only as many are read as it takes to find all its chunks."""
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
    """The decisions of these numbers that were made from ``first`` to ``last``, in no order.

    ``query``: :data:`WITHOUT_WORK`, or :data:`REASONS_ALONE`, where not all of them is needed.
    """
    values = {"ids": list(ids), "first": first, "last": last}
    return decisions_of(connection, mappings(connection, text(query), values))


def with_live_counts(connection: Connection, decisions: Sequence[StoredDecision]) -> list[StoredDecision]:
    """The decisions with how often they were seen again by now: of the last one of a chunk its state knows that."""
    rows = connection.execute(_READ_LAST_SEEN, {"ids": [one.id for one in decisions]}) if decisions else ()
    live = {row.decision: row for row in rows}
    return [_with_state(one, live.get(one.id)) for one in decisions]


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
    """The decision with its task waiting from the last cycle on that saw it again."""
    if stored.last_seen_at is None:
        return stored
    return dataclasses.replace(stored, record=waiting_from(stored, stored.last_seen_at))


def _last_states(connection: Connection, jeditaskid: int, brokerage: str | None) -> list[StoredDecision]:
    """The last decisions by the states of the chunks; none where these do not name all of them."""
    states = list(connection.execute(_READ_CHUNK_STATES, {"task": jeditaskid, "brokerage": brokerage}))
    last = {
        name: max(one.last_seen_at for one in states if one.brokerage == name)
        for name in {one.brokerage for one in states}
    }
    states = [one for one in states if one.last_seen_at == last[one.brokerage]]
    if not states:
        return []
    moments = [one.decided_at for one in states]
    rows = {one.id: one for one in by_id(connection, [one.decision for one in states], min(moments), max(moments))}
    if any(one.decision not in rows for one in states):
        return []
    return [as_last_seen(_with_state(rows[one.decision], one)) for one in states]


def _as_seen_until(
    connection: Connection, as_made: Sequence[StoredDecision], live: Sequence[StoredDecision], until: datetime
) -> list[StoredDecision]:
    """The decisions as they were known at ``until``: of what came later nothing is said."""
    late = {one.id for one in live if one.last_seen_at is not None and one.last_seen_at > until}
    asked = [(one.record.decision.brokerage, one.id, one.origin.decided_at) for one in as_made if one.id in late]
    seen = sightings(connection, asked, until)
    return [
        seen_at(made, seen[made.id]) if made.id in late else known for made, known in zip(as_made, live, strict=True)
    ]


def seen_at(made: StoredDecision, seen: Sightings) -> StoredDecision:
    """A decision as of the last of some cycles that saw it again."""
    return dataclasses.replace(
        made,
        seen_again=seen.times,
        last_seen_at=seen.last_at,
        last_agent_run=seen.last_run,
    )


def waiting_from(made: StoredDecision, moment: datetime) -> DecisionRecord:
    """What became of a decision when it was made again at ``moment``: its task waits from then on, and as long."""
    until = made.record.pending_until
    later = None if until is None else until + (moment - made.origin.decided_at)
    return dataclasses.replace(made.record, pending_until=later)


def _of_last_cycle(decisions: Sequence[StoredDecision]) -> list[StoredDecision]:
    last: dict[str, datetime] = {}
    for one in decisions:
        name = one.record.decision.brokerage
        last[name] = max(last.get(name, _seen_at(one)), _seen_at(one))
    return [one for one in decisions if _seen_at(one) == last[one.record.decision.brokerage]]


def _seen_at(stored: StoredDecision) -> datetime:
    """The instant of the last cycle that decided so."""
    return stored.last_seen_at or stored.origin.decided_at


def body_of(record: DecisionRecord) -> Body:
    """The parts of a decision that do not make it another one."""
    codes, remarks = packed_notes([record.decision.notes])[0]
    return Body(codes.encode(), remarks, record.work)


def packed_notes(notes: Sequence[Sequence[str]]) -> list[tuple[str, bytes | None]]:
    """Of each decision the notes that are codes, as JSON, and those that are figures, packed."""
    rows = [row for row, own in enumerate(notes) if isinstance(own, Notes)]
    remarks: dict[int, bytes | None] = {}
    if rows:
        some = [own.remarks for own in notes if isinstance(own, Notes)]
        remarks = dict(zip(rows, pack_remarks(some), strict=True))
    return [
        (_codes(own.codes), remarks[row]) if isinstance(own, Notes) else (_codes(tuple(own)), None)
        for row, own in enumerate(notes)
    ]


@lru_cache(maxsize=64)
def _codes(codes: tuple[str, ...]) -> str:
    """As JSON: nearly all decisions of a cycle have the same."""
    return clean_json(list(codes))


def with_body(record: DecisionRecord, body: Body) -> DecisionRecord:
    """The same decision with these parts.

    Raises:
        RemarksCorruptError: the figures are damaged.
        ValueError: the notes are.
    """
    notes: Sequence[str] = tuple(json.loads(body.notes or b"[]"))
    if body.remarks is not None:
        notes = Notes(tuple(notes), unpack_remarks(_legend(record), body.remarks))
    decision = dataclasses.replace(record.decision, notes=notes)
    return dataclasses.replace(record, decision=decision, work=body.work)


def _legend(record: DecisionRecord) -> Legend | None:
    rejected = record.decision.rejected
    return rejected.reasons.legend if isinstance(rejected, RejectedNames) else None
