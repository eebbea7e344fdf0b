"""The storage of the queue must have free space."""

from __future__ import annotations

from typing import Any

from broker.rules.contract import Bools, Filter, JobPairs, Observation, Operator, Reason, TuningView, number
from broker.rules.production_job.storage_order import FREE_SPACE, MIN_FREE_GB, SpaceOptions, has_free_space, space_gb
from broker.snapshot.snapshot import Snapshot


class FreeSpace(Filter[JobPairs]):
    """Rejects queues whose default output endpoint has 200 GB (STORAGE_MIN_FREE_SIZE) of free space or less.

    Source: ATLAS Production Job Brokerage, DISK size check.
    """

    name = FREE_SPACE
    reason = Reason(
        code="disk",
        title="The storage has free space",
        violation="The storage of the queue is full",
        no_candidate="has enough free storage",
        who="ask",
        cure="The site or the data operators delete data there, or operators lower `STORAGE_MIN_FREE_SIZE`.",
    )
    kind = "temporary"
    keys = (MIN_FREE_GB,)
    sources = ("storages",)
    unknown_policy = "keep"
    options: SpaceOptions = SpaceOptions()

    def prepare(self, snapshot: Snapshot, work: Any, tuning: TuningView) -> SpaceOptions | None:
        """The options, for the rules that pass where this one rejects; None if they are the shipped ones."""
        return self.options if self.chosen else None

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where there is enough space; without an endpoint on record (NaN) it is not checked."""
        return has_free_space(pairs.facts, pairs.tuning, self.options)

    def observe(self, pairs: JobPairs) -> Observation:
        """The free space; no limit without an endpoint."""
        free = number(space_gb(pairs.facts, self.options))
        operator: Operator = ">" if self.options.space == "free" else ">="
        return Observation(
            free, operator, None if free is None else pairs.tuning.number(MIN_FREE_GB), "GB", MIN_FREE_GB
        )
