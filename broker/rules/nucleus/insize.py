"""Enough of the input must be at the nucleus, by volume."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation, Value
from broker.domain.grid import NucleusTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.rules.contract import NucleusGroupFilter, TuningView
from broker.rules.data_locality import CHECK_KEYS, SIZE_FRACTION, has_enough_bytes, is_checked, is_waived, share_percent
from broker.rules.observing import flag, number


class Insize(NucleusGroupFilter):
    """Rejects nuclei with too small a part of the input, by volume, for input above the threshold.

    Disk and tape count. Not for input that is staged to where some of it is, nor for tasks that have waited for a
    nucleus too long; and not when no nucleus has enough and the task may go anywhere. Source: ATLAS Production Task
    Brokerage, data locality.
    """

    name = "insize"
    code = "insize"
    title = "Enough of the volume of the input is at the nucleus"
    keys = CHECK_KEYS
    sources = ("replicas",)
    unknown_policy = "keep"

    def applies(self, tasks: AssigningTable, facts: TaskFacts, tuning: TuningView) -> Bools:
        """Tasks with input that have not waited for too long."""
        return is_checked(tasks, facts, tuning)

    def keep_among(
        self, alive: Bools, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView
    ) -> Bools:
        """(T, N)."""
        return np.asarray(has_enough_bytes(tasks, facts, tuning) | is_waived(alive, tasks, facts, tuning))

    def observe(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Observation:
        """The part that is there."""
        share = number(share_percent(facts.any_bytes, facts.total_bytes))
        inputs: dict[str, Value] = {"total_bytes": number(facts.total_bytes), "staged": flag(tasks.input_prestaging)}
        return Observation(share, ">", tuning.number(SIZE_FRACTION), "%", SIZE_FRACTION, inputs)
