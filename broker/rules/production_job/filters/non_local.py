"""Queues may refuse jobs whose input would have to be moved."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import JobFacts
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, Value, flag, number


class NonLocal(Filter[JobPairs]):
    """Rejects queues with ``use_only_local_data`` that do not have all input, by bytes and files, on disk.

    Input of unknown location counts as missing. Source: PanDA production brokerage, data availability.
    """

    name = "non_local"
    reason = Reason(
        code="non_local",
        title="All input is local, for queues that ask for it",
        violation="The queue reads local data only and does not have all of the input",
        no_candidate="has all of the input on its own storage",
        who="ask",
        cure="The data operators put the input on a storage of the queue, or the site allows remote reading there.",
    )
    sources = ("queues",)
    after_temporary = True
    provenance = "PanDA production brokerage, data availability"

    def applies(self, pairs: JobPairs) -> Bools:
        """(T, 1): chunks with input."""
        return np.asarray(pairs.facts.total_bytes > 0)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q), or (1, Q) if no queue requires local input."""
        strict = pairs.candidates.use_only_local_data
        if not strict.any():
            return np.asarray(~strict)
        facts, there = pairs.facts, pairs.facts.by_kind("available_bytes")
        complete = there.by_chunk >= facts.total_bytes
        complete &= facts.by_kind("available_files").by_chunk >= facts.total_files
        return np.asarray(~strict | there.of_chunks(complete).every)

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether the queue has all input or does not need it."""
        strict = flag(pairs.candidates.use_only_local_data)
        inputs: dict[str, Value] = {
            "total_bytes": number(pairs.facts.total_bytes),
            "available_bytes": number(pairs.facts.available_bytes),
            "total_files": number(pairs.facts.total_files),
            "available_files": number(pairs.facts.available_files),
        }
        value = flag(_is_complete(pairs.facts)) or not strict
        return Observation(value, "==", True, "-", "queue.use_only_local_data", inputs)


def _is_complete(facts: JobFacts) -> Bools:
    there = facts.available_bytes >= facts.total_bytes
    return np.asarray(there & (facts.available_files >= facts.total_files))
