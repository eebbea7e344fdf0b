"""No queue is kept while a remaining one lacks an output endpoint for production: PanDA then ends the brokerage."""

from __future__ import annotations

from typing import Any

import numpy as np

from broker.rules.contract import Bools, GroupFilter, JobPairs, Observation, Reason, TuningView, flag
from broker.snapshot.snapshot import Snapshot


class OutputScope(GroupFilter[JobPairs]):
    """Keeps no queue while a remaining one has storages, but none for output in the default scope.

    A queue that an earlier rule has rejected for good does not matter: only the storage check fails. Source: PanDA
    production brokerage, exceptions that end the brokerage of a chunk.
    """

    name = "output_scope"
    reason = Reason(
        code="no_output_in_default_scope",
        title="every candidate with storages has one for output in the default scope",
        violation="A candidate has storages, but none for output in the default scope",
        no_candidate="is without a candidate beside it that has no output endpoint",
        who="ask",
        cure="Operators add an endpoint for writing to the queue in CRIC.",
    )
    sources = ("queues",)
    unknown_policy = "keep"
    provenance = "PanDA production brokerage, exceptions that end the brokerage of a chunk"

    def prepare(self, snapshot: Snapshot, work: Any, tuning: TuningView) -> Bools:
        """(Q,): the queue has relations to storages, none of them for output in the default scope."""
        relations = snapshot.relations
        has_any, has_output = np.zeros((2, len(snapshot.unified)), dtype=np.bool_)
        has_any[relations.unified] = True
        has_output[relations.unified[relations.is_output & relations.of_default_scope]] = True
        return np.asarray((has_any & ~has_output)[snapshot.queues.unified])

    def keep_among(self, alive: Bools, pairs: JobPairs) -> Bools:
        """(T, Q): False for all candidates of a chunk with such a queue among the remaining ones."""
        lacking = (alive & self._lacks_output(pairs)).any(axis=1, keepdims=True)
        return np.broadcast_to(~lacking, alive.shape)

    def _lacks_output(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where the queue has no output endpoint."""
        of_all = pairs.prepared.get(self.name)
        if of_all is None:
            return np.zeros(pairs.candidates.name.shape, dtype=np.bool_)
        return np.asarray(of_all[pairs.positions])[None, :]

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether this queue has no output endpoint."""
        return Observation(flag(self._lacks_output(pairs)), "==", False, "-", "rule")
