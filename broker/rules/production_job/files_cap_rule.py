"""The shape of the rules on files that wait to be transferred to the nucleus: so many at the most."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from broker.domain.arrays import Kept, RowsByKind
from broker.domain.facts import JobFacts
from broker.rules.contract import Bools, Filter, JobPairs, Observation, TuningView
from broker.rules.production_job.link_options import FileCapOptions
from broker.rules.shared.queued_files_cap import against_cap, below_cap, sources_of_cap

#: So many caps are remembered of one snapshot.
MOST_CAPS = 8
#: By cap, and whether equality closes: where links of the last snapshots are open.
_open = Kept[dict[tuple[float, bool], Bools]]()


class FilesCapRule(Filter[JobPairs]):
    """Rejects while more files than a cap wait; where nothing is known none waits, and a cap of 0 closes everything.

    Attributes:
        cap: tuning key of the cap, the one in ``keys``.
    """

    cap: ClassVar[str]
    kind = "temporary"
    sources = ("links",)
    unknown_policy = "keep"
    options: FileCapOptions = FileCapOptions()

    @abstractmethod
    def queued(self, facts: JobFacts) -> RowsByKind:
        """(T, Q) or (T, 1) files that wait, NaN where nothing is known."""

    def needs(self, tuning: TuningView) -> tuple[str, ...]:
        """A cap of 0 closes everything, whatever is known of the links."""
        return sources_of_cap(self.sources, tuning.number(self.cap))

    def applies(self, pairs: JobPairs) -> Bools:
        """(T, 1): chunks with a nucleus."""
        return pairs.facts.has_nucleus

    def keep(self, pairs: JobPairs) -> Bools:
        """Shape of :meth:`queued`, or (T, Q) where the nucleus's own queues are exempt: true below the cap."""
        closes = self.options.equality == "closes"
        waiting = self.queued(pairs.facts)
        open_to_all = _below_cap(waiting, pairs.tuning.number(self.cap), closes).every
        return open_to_all if self.options.at_nucleus == "asked" else open_to_all | self.options.exempt(pairs.facts)

    def observe(self, pairs: JobPairs) -> Observation:
        """Files that wait; none where nothing is known."""
        closes = self.options.equality == "closes"
        seen = against_cap(self.queued(pairs.facts).every, pairs.tuning.number(self.cap), self.cap, closes)
        return self.options.of_asked(pairs.facts, seen)


def _below_cap(waiting: RowsByKind, cap: float, closes: bool) -> RowsByKind:
    """Where :func:`below_cap` says so, made once for the links of a snapshot."""
    if waiting.kind is None:
        return waiting.of_table(below_cap(waiting.table, cap, closes))
    known = _open.of((waiting.table, waiting.column), dict)
    found = known.get((cap, closes))
    if found is None:
        found = waiting.of_table(below_cap(waiting.table, cap, closes)).by_candidate
        # a sweep tries any number of caps on one snapshot
        if len(known) >= MOST_CAPS:
            known.clear()
        known[cap, closes] = found
    return RowsByKind(found, waiting.kind)
