"""The shape of the two rules on the part of a task's input that is at a nucleus: by size, and by number of files.

Source: ATLAS Production Task Brokerage, data locality.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Observation, Operator, Value
from broker.rules.contract import GroupFilter, TaskPairs
from broker.rules.production_task.data_locality import (
    CHECK_KEYS,
    INSIZE,
    is_checked,
    is_waived,
    locality_options,
    share_percent,
)
from broker.rules.shared.observing import flag, number


class InputShareRule(GroupFilter[TaskPairs]):
    """Rejects nuclei with too small a part of the input, for input above the threshold.

    ``fraction_key``: the gdpconfig key of the part; ``total``: what the observation calls all of the input.
    """

    keys = CHECK_KEYS
    reads = (INSIZE,)
    sources = ("replicas",)
    unknown_policy = "keep"
    provenance = "ATLAS Production Task Brokerage"
    fraction_key: ClassVar[str]
    total: ClassVar[str]

    @abstractmethod
    def enough(self, pairs: TaskPairs) -> Bools:
        """(T, N): the nucleus has enough of the input."""

    @abstractmethod
    def amounts(self, pairs: TaskPairs) -> tuple[Floats, Floats]:
        """Input at the nucleus on disk or tape (T, N), and the whole input (T, 1)."""

    def applies(self, pairs: TaskPairs) -> Bools:
        """Tasks with input that have not waited for too long."""
        return is_checked(pairs.tasks, pairs.facts, pairs.tuning)

    def keep_among(self, alive: Bools, pairs: TaskPairs) -> Bools:
        """(T, N): true where enough of the input is, or where that does not matter."""
        return np.asarray(
            self.enough(pairs) | is_waived(alive, pairs.tasks, pairs.facts, pairs.tuning, locality_options(pairs))
        )

    def observe(self, pairs: TaskPairs) -> Observation:
        """The fraction of the input at the nucleus."""
        here, total = self.amounts(pairs)
        inputs: dict[str, Value] = {self.total: number(total), "staged": flag(pairs.tasks.input_prestaging)}
        limit = pairs.tuning.number(self.fraction_key)
        operator: Operator = ">" if locality_options(pairs).fraction == "above" else ">="
        return Observation(number(share_percent(here, total)), operator, limit, "%", self.fraction_key, inputs)
