"""The base class of the rules that cap the files waiting to be transferred to the nucleus."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from broker.domain.arrays import IdentityCache, RowsByKind
from broker.domain.facts import JobFacts
from broker.rules.contract import Bools, Filter, JobPairs, Observation, TuningView
from broker.rules.production_job.link_options import FileCapOptions
from broker.rules.shared.queued_files_cap import against_cap, below_cap, sources_of_cap

#: Maximum number of caps cached for one snapshot.
MOST_CAPS = 8
#: Where links of the last snapshots are open, by cap and by whether equality closes.
_open = IdentityCache[dict[tuple[float, bool], Bools]]()


class FilesCapRule(Filter[JobPairs]):
    """Rejects while more files than a cap wait; an unknown number counts as 0, and a cap of 0 closes everything.

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
        """(T, Q) or (T, 1) waiting files; NaN where unknown."""

    def needs(self, tuning: TuningView) -> tuple[str, ...]:
        """The links, except at a cap of 0 that closes everything without them; where equality closes, it does not."""
        return sources_of_cap(self.sources, tuning.number(self.cap), self.options.equality == "passes")

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
        """The waiting files; 0 if unknown."""
        closes = self.options.equality == "closes"
        seen = against_cap(self.queued(pairs.facts).every, pairs.tuning.number(self.cap), self.cap, closes)
        return self.options.observation(pairs.facts, seen)


def _below_cap(waiting: RowsByKind, cap: float, closes: bool) -> RowsByKind:
    """The result of :func:`below_cap`, computed once for the links of a snapshot."""
    if waiting.kind is None:
        return waiting.of_table(below_cap(waiting.table, cap, closes))
    known = _open.of((waiting.table, waiting.column), dict)
    open_links = known.get((cap, closes))
    if open_links is None:
        open_links = waiting.of_table(below_cap(waiting.table, cap, closes)).by_candidate
        # a sweep may try any number of caps on one snapshot
        if len(known) >= MOST_CAPS:
            known.clear()
        known[cap, closes] = open_links
    return RowsByKind(open_links, waiting.kind)
