"""Storing the decisions of a batch in the transaction that carries them out.

A decision that is the same as the last one about its chunk (outcome, candidates, reasons, jobs) gets no row of its own
for the rest of the day. It is counted on that row, and the cycle records which decisions it saw again and where their
work differed, so that it can be replayed.

For example, runs 1 and 6 of an agent decide three chunks; in run 6 only the second chunk has a different outcome:

    decisions          id 1, 2, 3 of run 1; id 5 of run 6 (the second chunk). One id goes to the repeats.
    decision_repeats   id 4 of run 6, size 2, pattern 1 0 3: chunk 0 is row 1, chunk 1 is new, chunk 2 is row 3
    chunk_states       chunk 0: decision 1, seen_again 1, last run 6, decisions 2
                       chunk 1: decision 5, seen_again 0, last run 6, decisions 1
                       chunk 2: decision 3, seen_again 1, last run 6, decisions 2
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from broker.codec.decision_counts import main_reasons, reasons_of
from broker.codec.packed_candidates import pack_candidates, pack_named_candidates
from broker.codec.packed_reasons import pack_named, pack_reasons
from broker.codec.repeats import NEW, Body, pack_changes, pack_pattern
from broker.domain.chosen_candidates import ChosenCandidates, Legend
from broker.domain.decisions import DecisionRecord, Origin, is_late
from broker.store.decisions import legends
from broker.store.decisions.decision_days import day_of
from broker.store.decisions.decision_rows import packed_notes
from broker.store.decisions.legends import clean_counts, clean_json, clean_text
from broker.store.summaries import chunk_state_writing, count_writing
from broker.store.summaries.chunk_state_writing import ChunkKey, KnownState, NewState, SeenAgain
from broker.store.summaries.reason_counts import bucket_of


@dataclass(frozen=True)
class PackedDecision:
    """A decision as it is stored.

    Attributes:
        record: the decision.
        legend: of its packed columns; None if it was made with names.
        reasons: packed.
        candidates: packed; None without candidates.
        assigned: as JSON.
        notes: as JSON.
        remarks: packed; None without remarks.
    """

    record: DecisionRecord
    legend: Legend | None
    reasons: bytes
    candidates: bytes | None
    assigned: str
    notes: str
    remarks: bytes | None

    @property
    def key(self) -> ChunkKey:
        """The chunk that it decides on, a key that all decisions about the chunk share."""
        decision = self.record.decision
        return decision.jeditaskid, decision.datasetid, decision.ramcount

    @property
    def body(self) -> Body:
        """The parts that may differ without making it a different decision."""
        return Body(self.notes.encode(), self.remarks, self.record.work)

    def state(self, origin: Origin) -> bytes:
        """A digest that is equal for equal decisions.

        It covers the version of the tuning, the engine, and how long the task waits afterwards, too.
        """
        decision, until = self.record.decision, self.record.pending_until
        legend = "" if self.legend is None else self.legend.sha256
        waits = "" if until is None else str((until - origin.decided_at).total_seconds())
        tuning = str(origin.tuning_for(decision.jeditaskid))
        words = "\n".join((decision.outcome, decision.reason, legend, self.assigned, waits, tuning, origin.engine))
        return _digest(words.encode("utf-8", "replace"), self.reasons, self.candidates or b"")

    def work_state(self) -> bytes:
        """A digest of the parts that may differ."""
        return _digest(self.notes.encode(), self.remarks or b"", self.record.work or b"")


def packed(records: Sequence[DecisionRecord]) -> list[PackedDecision]:
    """Pack decisions into the form in which they are stored."""
    by_row: dict[int, PackedDecision] = {}
    by_position = []
    for row, record in enumerate(records):
        reasons = reasons_of(record)
        if reasons is None or not reasons.legend.names:
            by_row[row] = _named(record)
        else:
            by_position.append((row, record, reasons))
    all_reasons = pack_reasons([reasons for _, _, reasons in by_position])
    all_candidates = _candidates([record for _, record, _ in by_position])
    all_notes = packed_notes([record.decision.notes for _, record, _ in by_position])
    columns = zip(by_position, all_reasons, all_candidates, all_notes, strict=True)
    for (row, record, reasons), why, chosen, (notes, remarks) in columns:
        by_row[row] = PackedDecision(record, reasons.legend, why, chosen, _assigned(record), notes, remarks)
    return [by_row[row] for row in range(len(records))]


def _named(record: DecisionRecord) -> PackedDecision:
    """Pack a decision that was made with names."""
    decision = record.decision
    reasons = pack_named(decision.rejected, decision.funnel)
    candidates = pack_named_candidates(tuple(decision.candidates))
    return PackedDecision(record, None, reasons, candidates, _assigned(record), clean_json(list(decision.notes)), None)


def _candidates(records: Sequence[DecisionRecord]) -> list[bytes | None]:
    all_chosen = [record.decision.candidates for record in records]
    places = iter(pack_candidates([chosen for chosen in all_chosen if isinstance(chosen, ChosenCandidates)]))
    return [
        next(places) if isinstance(chosen, ChosenCandidates) else pack_named_candidates(tuple(chosen))
        for chosen in all_chosen
    ]


def _assigned(record: DecisionRecord) -> str:
    return clean_counts(record.assigned)


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(4, "little"))
        digest.update(part)
    return digest.digest()


COLUMNS = (
    "id, agent_run, jeditaskid, datasetid, ramcount, brokerage, outcome, reason, decided_at, snapshot, tuning, seed, "
    "engine, legend, reasons, candidates, candidate_count, remarks, assigned, notes, work, pending_until"
)
_COPY = f"COPY broker.decisions ({COLUMNS}) FROM STDIN"
_RESERVE_IDS = "SELECT nextval('broker.decisions_id_seq') FROM generate_series(1, %s)"
_STILL_STORED = """
    SELECT id, CASE WHEN id = ANY(%(changed)s) THEN notes END, CASE WHEN id = ANY(%(changed)s) THEN remarks END,
        CASE WHEN id = ANY(%(changed)s) THEN work END
    FROM broker.decisions WHERE id = ANY(%(ids)s) AND decided_at >= %(first)s AND decided_at <= %(last)s"""
_INSERT_REPEATS = """
    INSERT INTO broker.decision_repeats
        (id, agent_run, brokerage, decided_at, snapshot, tuning, seed, engine, size, pattern, changes)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"""
_CLOSE_DECISIONS = """
    UPDATE broker.decisions AS d
    SET seen_again = one.seen_again, last_seen_at = one.last_seen_at, last_agent_run = one.last_agent_run
    FROM unnest(%s::bigint[], %s::timestamptz[], %s::int[], %s::timestamptz[], %s::bigint[])
        AS one (id, decided_at, seen_again, last_seen_at, last_agent_run)
    WHERE d.id = one.id AND d.decided_at = one.decided_at"""


def save(connection: psycopg.Connection[Any], origin: Origin, records: Sequence[DecisionRecord]) -> int:
    """Store decisions and the data for lists in the transaction of ``connection``; return the number of decisions."""
    by_brokerage: dict[str, list[DecisionRecord]] = {}
    for record in records:
        by_brokerage.setdefault(record.decision.brokerage, []).append(record)
    for brokerage, some in sorted(by_brokerage.items()):
        _Batch(connection, origin, brokerage, packed(some)).save()
    return len(records)


class _Batch:
    """Writes the decisions of one brokerage into the database."""

    def __init__(
        self, connection: psycopg.Connection[Any], origin: Origin, brokerage: str, decisions: list[PackedDecision]
    ) -> None:
        self._connection, self._origin, self._brokerage = connection, origin, brokerage
        self._now, self._decisions = origin.decided_at, decisions
        self._states = [decision.state(origin) for decision in decisions]
        tasks = [decision.record.decision.jeditaskid for decision in decisions]
        self._known = chunk_state_writing.known_states(connection, brokerage, tasks)
        self._again = self._seen_again()
        self._main_reasons = main_reasons([decision.record for decision in decisions])

    def save(self) -> None:
        """Write rows, repeats, states and counts."""
        groups = self._groups()
        patterns = [rows for rows in groups.values() if any(row in self._again for row in rows)]
        new = [row for row in range(len(self._decisions)) if row not in self._again]
        ids = [row[0] for row in self._connection.execute(_RESERVE_IDS, [len(patterns) + len(new)]).fetchall()]
        for identifier, rows in zip(ids, patterns, strict=False):
            self._save_pattern(identifier, rows)
        numbers = dict(zip(new, ids[len(patterns) :], strict=True))
        self._save_rows(numbers)
        self._save_states(numbers)
        records = [decision.record for decision in self._decisions]
        distinct = list(self._distinct())
        count_writing.add(self._connection, self._brokerage, self._now, records, distinct, self._main_reasons)

    def _seen_again(self) -> dict[int, tuple[KnownState, Body | None]]:
        """The last, equal decision by place in the batch, with the body of its row if the work differs."""
        day, repeats = day_of(self._now), {}
        taken: set[int] = set()
        for row, (decision, state) in enumerate(zip(self._decisions, self._states, strict=True)):
            known = self._known.get(decision.key)
            if known is None or known.state != state or known.decision in taken:
                continue
            if self._folds(row, known) and day <= known.decided_at <= known.last_seen_at < self._now:
                repeats[row] = known
                taken.add(known.decision)
        changed = {
            known.decision for row, known in repeats.items() if known.work_state != self._decisions[row].work_state()
        }
        bodies = self._bodies([known.decision for known in repeats.values()], changed) if repeats else {}
        return {row: (known, bodies[known.decision]) for row, known in repeats.items() if known.decision in bodies}

    def _folds(self, row: int, known: KnownState) -> bool:
        """Whether a decision may be counted on the earlier row.

        Jobs that were written took files of their chunk, so work that is the same to the byte means that none were.
        """
        packed_decision = self._decisions[row]
        return (
            self._origin.only_recorded
            or packed_decision.record.decision.outcome != "brokered"
            or known.work_state == packed_decision.work_state()
        )

    def _bodies(self, ids: list[int], changed: set[int]) -> dict[int, Body | None]:
        """The rows that still exist, with their bodies for those in ``changed``."""
        values = {"ids": ids, "changed": sorted(changed), "first": day_of(self._now), "last": self._now}
        return {
            identifier: None
            if identifier not in changed
            else Body(clean_json(notes or []).encode(), _bytes(remarks), _bytes(work))
            for identifier, notes, remarks, work in self._connection.execute(_STILL_STORED, values)
        }

    def _groups(self) -> Mapping[int, list[int]]:
        """The places in the batch by version of the tuning; a canary makes it two versions."""
        groups: dict[int, list[int]] = {}
        for row, decision in enumerate(self._decisions):
            groups.setdefault(self._origin.tuning_for(decision.record.decision.jeditaskid), []).append(row)
        return groups

    def _save_pattern(self, identifier: int, rows: Sequence[int]) -> None:
        origin = self._origin
        pattern, changes = [], {}
        for place, row in enumerate(rows):
            known, body = self._again.get(row, (None, None))
            pattern.append(NEW if known is None else known.decision)
            if body is not None:
                changes[place] = (body, self._decisions[row].body)
        size = sum(entry != NEW for entry in pattern)
        tuning = origin.tuning_for(self._decisions[rows[0]].record.decision.jeditaskid)
        about = origin.agent_run, self._brokerage, self._now, origin.snapshot, tuning, origin.seed, origin.engine
        self._connection.execute(
            _INSERT_REPEATS, [identifier, *about, size, pack_pattern(pattern), pack_changes(changes)]
        )

    def _save_rows(self, numbers: Mapping[int, int]) -> None:
        used_legends = {legend.sha256: legend for row in numbers if (legend := self._decisions[row].legend) is not None}
        ids = legends.save(self._connection, used_legends.values(), self._now)
        with self._connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for values in self._rows(numbers, ids):
                copy.write_row(values)

    def _rows(self, numbers: Mapping[int, int], legend_ids: Mapping[str, int]) -> Iterator[tuple[Any, ...]]:
        origin = self._origin
        for row, identifier in numbers.items():
            packed_decision = self._decisions[row]
            decision = packed_decision.record.decision
            yield (
                identifier,
                origin.agent_run,
                decision.jeditaskid,
                decision.datasetid,
                decision.ramcount,
                decision.brokerage,
                decision.outcome,
                clean_text(decision.reason),
                origin.decided_at,
                origin.snapshot,
                origin.tuning_for(decision.jeditaskid),
                origin.seed,
                origin.engine,
                None if packed_decision.legend is None else legend_ids[packed_decision.legend.sha256],
                packed_decision.reasons,
                packed_decision.candidates,
                len(decision.candidates),
                packed_decision.remarks,
                packed_decision.assigned,
                packed_decision.notes,
                packed_decision.record.work,
                packed_decision.record.pending_until,
            )

    def _save_states(self, numbers: Mapping[int, int]) -> None:
        again = [SeenAgain(known.decision, self._pending_until(row)) for row, (known, _) in self._again.items()]
        chunk_state_writing.save_again(self._connection, again, self._now, self._origin.agent_run)
        # of two decisions about one chunk the later one is its last; skipped ones were not written and changed nothing
        last = {self._decisions[row].key: row for row in numbers if not self._is_late(row)}
        states = [self._state(row, numbers[row]) for row in last.values()]
        closed = [
            known for key in last if (known := self._known.get(key)) is not None and known.seen_again
            and known.last_seen_at <= self._now
        ]  # fmt: skip
        if closed:
            columns = ("decision", "decided_at", "seen_again", "last_seen_at", "last_agent_run")
            self._connection.execute(_CLOSE_DECISIONS, [[getattr(known, name) for known in closed] for name in columns])
        chunk_state_writing.save(self._connection, states)

    def _state(self, row: int, identifier: int) -> NewState:
        one, now = self._decisions[row], self._now
        decision, known = one.record.decision, self._known.get(one.key)
        reason = clean_text(decision.reason)
        alike = known is not None and (known.outcome, known.reason) == (decision.outcome, reason)
        waited = None if known is None else known.waiting_since
        return NewState(
            brokerage=self._brokerage,
            jeditaskid=decision.jeditaskid,
            datasetid=decision.datasetid,
            ramcount=decision.ramcount,
            decision=identifier,
            decided_at=now,
            outcome=decision.outcome,
            reason=reason,
            outcome_since=known.outcome_since if known is not None and alike else now,
            waiting_since=None if decision.outcome == "brokered" else waited or now,
            last_seen_at=now,
            last_agent_run=self._origin.agent_run,
            decisions=known.decisions + 1 if known is not None and alike else 1,
            seen_again=0,
            pending_until=self._pending_until(row),
            candidate_count=len(decision.candidates),
            jobs=sum(one.record.assigned.values()),
            assigned=one.assigned,
            state=self._states[row],
            work_state=one.work_state(),
            main_reason=clean_text(self._main_reasons[row]),
        )

    def _is_late(self, row: int) -> bool:
        return is_late(self._decisions[row].record.decision.outcome)

    def _pending_until(self, row: int) -> datetime | None:
        return self._decisions[row].record.pending_until

    def _distinct(self) -> Iterator[bool]:
        """For each decision, whether it is the first of its kind for its chunk in this bucket; False if skipped."""
        start = bucket_of(self._now)
        for packed_decision in self._decisions:
            known, decision = self._known.get(packed_decision.key), packed_decision.record.decision
            yield not is_late(decision.outcome) and (
                known is None
                or known.last_seen_at < start
                or (known.outcome, known.reason) != (decision.outcome, decision.reason)
            )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
