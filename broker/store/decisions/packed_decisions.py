"""Decisions in the form in which they are stored, a batch at once, and what tells whether two are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from broker.codec.packed_candidates import pack_candidates, pack_named_candidates
from broker.codec.packed_reasons import pack_named, pack_reasons
from broker.codec.repeats import Body
from broker.domain.chosen_candidates import ChosenCandidates
from broker.domain.decision_counts import reasons_of
from broker.domain.decision_records import DecisionRecord, Origin
from broker.domain.legend import Legend
from broker.store.decisions.decision_bodies import packed_notes
from broker.store.decisions.plain_json import clean_counts, clean_json
from broker.store.summaries.chunk_state_writing import ChunkKey


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
