"""Storages must have room for what the nucleus has taken on."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Observation, Value
from broker.domain.grid import NucleusTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.rules.contract import NucleusFilter, TuningView
from broker.rules.observing import number

THRESHOLD = "DISK_THRESHOLD"
GB_A_TB = 1024.0


class Space(NucleusFilter):
    """Rejects nuclei with a storage that will have no more room than the share's threshold when the work there is done.

    Free and expired space, less the expected output of all work that the nucleus has, must be larger than
    ``DISK_THRESHOLD_<gshare>``. A storage that does not report its free space is unknown. Source: ATLAS Production Task
    Brokerage, space.
    """

    name = "space"
    code = "space"
    title = "The storages have room for the output"
    kind = "temporary"
    keys = (THRESHOLD,)
    sources = ("storages",)

    def keep(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Bools:
        """(T, N)."""
        return np.asarray(facts.usable_gb - facts.expected_output_gb > _threshold_gb(tasks, tuning))

    def unknown(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Bools:
        """(T, N): the free space is not reported."""
        return np.isnan(facts.usable_gb)

    def observe(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Observation:
        """What will be left."""
        share = tasks.gshare.item()
        usable, expected = number(facts.usable_gb), number(facts.expected_output_gb)
        left = None if usable is None or expected is None else usable - expected
        limit = float(_threshold_gb(tasks, tuning).item())
        inputs: dict[str, Value] = {"usable_gb": usable, "expected_output_gb": expected, "gshare": share}
        return Observation(left, ">", limit, "GB", THRESHOLD, inputs)


def _threshold_gb(tasks: AssigningTable, tuning: TuningView) -> Floats:
    shares = list(tasks.gshare.ravel())
    return tuning.by_suffix(THRESHOLD, shares).reshape(tasks.gshare.shape) * GB_A_TB
