"""Nuclei that have some input only on tape are avoided if possible."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Floats, TaskPairs, Weight
from broker.rules.production_task.data_locality import COUNT_KEYS, INSIZE, counts_in_weight, locality_options

ON_TAPE = 0.001


class Tape(Weight[TaskPairs]):
    """tapeWeight: 0.001 where a part of the input is on tape only, else 1, regardless of the IO intensity.

    1 where the check of data locality was waived. Source: ATLAS Production Task Brokerage, weight.
    """

    name = "tape"
    code = "tape"
    title = "Input on tape counts little"
    provenance = "ATLAS Production Task Brokerage"
    keys = COUNT_KEYS
    sources = ("replicas",)
    reads = (INSIZE,)

    def factor(self, pairs: TaskPairs) -> Floats:
        """(T, N): 0.001 where a part of the input is on tape only, else 1."""
        on_tape = (pairs.facts.any_bytes > pairs.facts.disk_bytes) & counts_in_weight(
            pairs.tasks, pairs.facts, pairs.tuning, locality_options(pairs)
        )
        return np.where(on_tape, ON_TAPE, 1.0)
