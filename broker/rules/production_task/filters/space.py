"""The storages of a nucleus must have room for the output of all work assigned to it."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain.task_work import AssigningTable
from broker.rules.contract import (
    Bools,
    Filter,
    Floats,
    Observation,
    Options,
    Reason,
    TaskPairs,
    TuningView,
    Value,
    number,
)

THRESHOLD = "DISK_THRESHOLD"
GB_A_TB = 1024.0


class SpaceOptions(Options):
    """The space that counts: free and expired space, which must be over the threshold; or usable space.

    Usable space is without what must stay free and what cannot be used; the expected output is taken off in whole GB,
    exactly the threshold is enough, and what is not reported is 0.
    """

    space: Literal["free_and_expired", "usable"] = "free_and_expired"


class Space(Filter[TaskPairs]):
    """Rejects nuclei with a storage whose space, once the work there is done, will not exceed the share's threshold.

    Free and expired space, less the expected output of all work that the nucleus has, must be larger than
    ``DISK_THRESHOLD_<gshare>``. A storage that does not report its free space is unknown. Source: ATLAS Production Task
    Brokerage, space.
    """

    name = "space"
    reason = Reason(
        code="space",
        title="The storages have room for the output",
        violation="The storages of the nucleus have no room for the output",
        no_candidate="has enough free storage",
        who="ask",
        cure="The data operators delete data there, or operators lower `DISK_THRESHOLD`.",
    )
    provenance = "ATLAS Production Task Brokerage"
    kind = "temporary"
    keys = (THRESHOLD,)
    sources = ("storages",)
    options: SpaceOptions = SpaceOptions()

    def keep(self, pairs: TaskPairs) -> Bools:
        """(T, N): true where the storages have room for the output."""
        if self.options.space == "usable":
            return np.asarray(pairs.facts.left_gb >= _threshold_gb(pairs.tasks, pairs.tuning))
        return np.asarray(
            pairs.facts.usable_gb - pairs.facts.expected_output_gb > _threshold_gb(pairs.tasks, pairs.tuning)
        )

    def unknown(self, pairs: TaskPairs) -> Bools:
        """(T, N): the free space is not reported."""
        unreported = np.isnan(pairs.facts.usable_gb)
        return unreported if self.options.space == "free_and_expired" else np.zeros_like(unreported)

    def observe(self, pairs: TaskPairs) -> Observation:
        """The free space that would remain."""
        share = pairs.tasks.gshare.item()
        usable, expected = number(pairs.facts.usable_gb), number(pairs.facts.expected_output_gb)
        left = None if usable is None or expected is None else usable - expected
        limit = float(_threshold_gb(pairs.tasks, pairs.tuning).item())
        if self.options.space == "usable":
            taken: dict[str, Value] = {"expected_output_gb": expected, "gshare": share}
            return Observation(number(pairs.facts.left_gb), ">=", limit, "GB", THRESHOLD, taken)
        inputs: dict[str, Value] = {"usable_gb": usable, "expected_output_gb": expected, "gshare": share}
        return Observation(left, ">", limit, "GB", THRESHOLD, inputs)


def _threshold_gb(tasks: AssigningTable, tuning: TuningView) -> Floats:
    shares = list(tasks.gshare.ravel())
    return tuning.by_suffix(THRESHOLD, shares).reshape(tasks.gshare.shape) * GB_A_TB
