"""Storing the decisions of a batch with the transaction that brings them about.

A decision that is the same as the last one about its chunk (outcome, candidates, reasons, jobs) gets no row of its own
for the rest of the day: it is counted on that row, and the cycle keeps which ones it saw again and where their work was
another, so that it can be replayed.

Three chunks are decided by runs 1 and 6 of an agent; in run 6 only the second chunk has another outcome:

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
        legend: of its packed columns; None where it was made with names.
        reasons: packed.
        candidates: packed; None for none.
        assigned: as JSON.
        notes: as JSON.
        remarks: packed; None for none.
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
        """The chunk that it decides on: all its decisions have this key."""
        decision = self.record.decision
        return decision.jeditaskid, decision.datasetid, decision.ramcount

    @property
    def body(self) -> Body:
        """What may differ though it is the same decision."""
        return Body(self.notes.encode(), self.remarks, self.record.work)

    def state(self, origin: Origin) -> bytes:
        """A digest that two decisions share which are the same.

        They have the version of the tuning and the engine in common, too, and how long the task waits after them.
        """
        decision, until = self.record.decision, self.record.pending_until
        legend = "" if self.legend is None else self.legend.sha256
        waits = "" if until is None else str((until - origin.decided_at).total_seconds())
        tuning = str(origin.tuning_for(decision.jeditaskid))
        words = "\n".join((decision.outcome, decision.reason, legend, self.assigned, waits, tuning, origin.engine))
        return _digest(words.encode("utf-8", "replace"), self.reasons, self.candidates or b"")

    def work_state(self) -> bytes:
        """A digest of what may differ."""
        return _digest(self.notes.encode(), self.remarks or b"", self.record.work or b"")


def packed(records: Sequence[DecisionRecord]) -> list[PackedDecision]:
    """Decisions in the form in which they are stored."""
    found: dict[int, PackedDecision] = {}
    by_position = []
    for row, record in enumerate(records):
        reasons = reasons_of(record)
        if reasons is None or not reasons.legend.names:
            found[row] = _named(record)
        else:
            by_position.append((row, record, reasons))
    all_reasons = pack_reasons([reasons for _, _, reasons in by_position])
    all_candidates = _candidates([record for _, record, _ in by_position])
    all_notes = packed_notes([record.decision.notes for _, record, _ in by_position])
    columns = zip(by_position, all_reasons, all_candidates, all_notes, strict=True)
    for (row, record, reasons), why, chosen, (notes, remarks) in columns:
        found[row] = PackedDecision(record, reasons.legend, why, chosen, _assigned(record), notes, remarks)
    return [found[row] for row in range(len(records))]


def _named(record: DecisionRecord) -> PackedDecision:
    """A decision that was made with names."""
    decision = record.decision
    reasons = pack_named(decision.rejected, decision.funnel)
    candidates = pack_named_candidates(tuple(decision.candidates))
    return PackedDecision(record, None, reasons, candidates, _assigned(record), clean_json(list(decision.notes)), None)


def _candidates(records: Sequence[DecisionRecord]) -> list[bytes | None]:
    all_chosen = [record.decision.candidates for record in records]
    places = iter(pack_candidates([one for one in all_chosen if isinstance(one, ChosenCandidates)]))
    return [
        next(places) if isinstance(one, ChosenCandidates) else pack_named_candidates(tuple(one)) for one in all_chosen
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
    """Store decisions in the transaction of ``connection``, with all that lists are made from; how many there were."""
    by_brokerage: dict[str, list[DecisionRecord]] = {}
    for record in records:
        by_brokerage.setdefault(record.decision.brokerage, []).append(record)
    for brokerage, some in sorted(by_brokerage.items()):
        _Batch(connection, origin, brokerage, packed(some)).save()
    return len(records)


class _Batch:
    """Decisions of one brokerage on their way into the database."""

    def __init__(
        self, connection: psycopg.Connection[Any], origin: Origin, brokerage: str, decisions: list[PackedDecision]
    ) -> None:
        self._connection, self._origin, self._brokerage = connection, origin, brokerage
        self._now, self._decisions = origin.decided_at, decisions
        self._states = [one.state(origin) for one in decisions]
        tasks = [one.record.decision.jeditaskid for one in decisions]
        self._known = chunk_state_writing.known_states(connection, brokerage, tasks)
        self._again = self._seen_again()
        self._main_reasons = main_reasons([one.record for one in decisions])

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
        records = [one.record for one in self._decisions]
        distinct = list(self._distinct())
        count_writing.add(self._connection, self._brokerage, self._now, records, distinct, self._main_reasons)

    def _seen_again(self) -> dict[int, tuple[KnownState, Body | None]]:
        """By place in the batch the last decision that says the same, and what its row has where the work differs."""
        day, found = day_of(self._now), {}
        taken: set[int] = set()
        for row, (one, state) in enumerate(zip(self._decisions, self._states, strict=True)):
            known = self._known.get(one.key)
            if known is None or known.state != state or known.decision in taken:
                continue
            if self._folds(row, known) and day <= known.decided_at <= known.last_seen_at < self._now:
                found[row] = known
                taken.add(known.decision)
        changed = {
            known.decision for row, known in found.items() if known.work_state != self._decisions[row].work_state()
        }
        bodies = self._bodies([known.decision for known in found.values()], changed) if found else {}
        return {row: (known, bodies[known.decision]) for row, known in found.items() if known.decision in bodies}

    def _folds(self, row: int, known: KnownState) -> bool:
        """Jobs that were written took the files of their chunk: of work that is the same to the byte, none were."""
        one = self._decisions[row]
        return (
            self._origin.only_recorded
            or one.record.decision.outcome != "brokered"
            or known.work_state == one.work_state()
        )

    def _bodies(self, ids: list[int], changed: set[int]) -> dict[int, Body | None]:
        """The rows that still are there, with their bodies where those are needed."""
        values = {"ids": ids, "changed": sorted(changed), "first": day_of(self._now), "last": self._now}
        return {
            identifier: None
            if identifier not in changed
            else Body(clean_json(notes or []).encode(), _bytes(remarks), _bytes(work))
            for identifier, notes, remarks, work in self._connection.execute(_STILL_STORED, values)
        }

    def _groups(self) -> Mapping[int, list[int]]:
        """The places of the batch by the version of the tuning: with a canary there are two."""
        groups: dict[int, list[int]] = {}
        for row, one in enumerate(self._decisions):
            groups.setdefault(self._origin.tuning_for(one.record.decision.jeditaskid), []).append(row)
        return groups

    def _save_pattern(self, identifier: int, rows: Sequence[int]) -> None:
        origin = self._origin
        pattern, changes = [], {}
        for place, row in enumerate(rows):
            known, body = self._again.get(row, (None, None))
            pattern.append(NEW if known is None else known.decision)
            if body is not None:
                changes[place] = (body, self._decisions[row].body)
        size = sum(one != NEW for one in pattern)
        tuning = origin.tuning_for(self._decisions[rows[0]].record.decision.jeditaskid)
        about = origin.agent_run, self._brokerage, self._now, origin.snapshot, tuning, origin.seed, origin.engine
        self._connection.execute(
            _INSERT_REPEATS, [identifier, *about, size, pack_pattern(pattern), pack_changes(changes)]
        )

    def _save_rows(self, numbers: Mapping[int, int]) -> None:
        wanted = {one.sha256: one for row in numbers if (one := self._decisions[row].legend) is not None}
        ids = legends.save(self._connection, wanted.values(), self._now)
        with self._connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for values in self._rows(numbers, ids):
                copy.write_row(values)

    def _rows(self, numbers: Mapping[int, int], legend_ids: Mapping[str, int]) -> Iterator[tuple[Any, ...]]:
        origin = self._origin
        for row, identifier in numbers.items():
            one = self._decisions[row]
            decision = one.record.decision
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
                None if one.legend is None else legend_ids[one.legend.sha256],
                one.reasons,
                one.candidates,
                len(decision.candidates),
                one.remarks,
                one.assigned,
                one.notes,
                one.record.work,
                one.record.pending_until,
            )

    def _save_states(self, numbers: Mapping[int, int]) -> None:
        again = [SeenAgain(known.decision, self._pending_until(row)) for row, (known, _) in self._again.items()]
        chunk_state_writing.save_again(self._connection, again, self._now, self._origin.agent_run)
        # of two decisions about one chunk the later one is its last; one that was not written changed nothing
        last = {self._decisions[row].key: row for row in numbers if not self._is_late(row)}
        states = [self._state(row, numbers[row]) for row in last.values()]
        closed = [
            known for key in last if (known := self._known.get(key)) is not None and known.seen_again
            and known.last_seen_at <= self._now
        ]  # fmt: skip
        if closed:
            columns = ("decision", "decided_at", "seen_again", "last_seen_at", "last_agent_run")
            self._connection.execute(_CLOSE_DECISIONS, [[getattr(one, name) for one in closed] for name in columns])
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
        """For each decision whether its chunk was not decided so in this bucket before; of a late one nothing was."""
        start = bucket_of(self._now)
        for one in self._decisions:
            known, decision = self._known.get(one.key), one.record.decision
            yield not is_late(decision.outcome) and (
                known is None
                or known.last_seen_at < start
                or (known.outcome, known.reason) != (decision.outcome, decision.reason)
            )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
