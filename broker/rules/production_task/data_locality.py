"""How much of a task's input must be at its nucleus: thresholds, exemptions, and the base class of the two rules.

One rule goes by size, the other by number of files. Shapes: (T, N) for task against nucleus, (T, 1) for the task.

Source: ATLAS Production Task Brokerage, data locality.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np

from broker.domain.task_work import AssigningTable, TaskFacts
from broker.rules.contract import (
    Bools,
    Floats,
    GroupFilter,
    Observation,
    Operator,
    Options,
    TaskPairs,
    TuningView,
    Value,
    flag,
    number,
)

SIZE_THRESHOLD, SIZE_FRACTION = "INPUT_SIZE_THRESHOLD", "INPUT_SIZE_FRACTION"
NUMBER_THRESHOLD, NUMBER_FRACTION = "INPUT_NUM_THRESHOLD", "INPUT_NUM_FRACTION"
LOW_INTENSITY = "MIN_IO_INTENSITY_WITH_LOCAL_DATA"
SMALL_INPUT = "MIN_INPUT_SIZE_WITH_LOCAL_DATA"
HIGH_PRIORITY = "MAX_TASK_PRIO_WITH_LOCAL_DATA"
PERIOD = "DATA_LOCATION_CHECK_PERIOD"
#: Keys of both checks, because each must know whether the other leaves any nucleus.
CHECK_KEYS = (
    SIZE_THRESHOLD,
    SIZE_FRACTION,
    NUMBER_THRESHOLD,
    NUMBER_FRACTION,
    LOW_INTENSITY,
    SMALL_INPUT,
    HIGH_PRIORITY,
    PERIOD,
)
#: Keys that the weights read to know which figures count.
COUNT_KEYS = (SIZE_THRESHOLD, SIZE_FRACTION, NUMBER_THRESHOLD, NUMBER_FRACTION, PERIOD)
GB = 1024.0**3
DAY_S = 86_400.0


def is_checked(tasks: AssigningTable, facts: TaskFacts, tuning: TuningView) -> Bools:
    """(T, 1): the task has input that counts, and has not waited too long for a nucleus."""
    waiting_s = facts.now_s - tasks.frozentime_s
    return np.asarray(facts.examined & ~(waiting_s > tuning.number(PERIOD) * DAY_S))


def is_staged(tasks: AssigningTable, facts: TaskFacts) -> Bools:
    """(T, N): the rest of the input will be staged (data carousel) to where some of it is already."""
    return np.asarray(tasks.input_prestaging & (facts.any_files > 0))


def share_percent(available: Floats, total: Floats) -> Floats:
    """The available part of the total in percent; 100 where the total is 0."""
    return np.divide(available, total, out=np.ones(np.broadcast(available, total).shape), where=total > 0) * 100.0


class LocalityOptions(Options):
    """The share of the input that is enough, and the tasks that are exempt.

    Attributes:
        fraction: more than the fraction must be there, or exactly it is enough too.
        waiver: the priority that counts for it.
    """

    fraction: Literal["above", "from"] = "above"
    waiver: Literal["taskpriority", "currentpriority"] = "taskpriority"

    def reaches(self, percent: Floats, fraction: float) -> Bools:
        """True where a part in percent is enough."""
        return np.asarray(percent > fraction if self.fraction == "above" else percent >= fraction)


SHIPPED = LocalityOptions()
#: The rule whose options apply to all rules on the locality of input.
INSIZE = "insize"


def locality_options(pairs: TaskPairs) -> LocalityOptions:
    """The options of the rule ``insize``, which the other rules on input follow."""
    options = pairs.prepared.get(INSIZE)
    return options if isinstance(options, LocalityOptions) else SHIPPED


def has_enough_bytes(
    tasks: AssigningTable, facts: TaskFacts, tuning: TuningView, options: LocalityOptions = SHIPPED
) -> Bools:
    """(T, N): the input is small, enough of it is at the nucleus on disk or tape, or it is being staged."""
    little = ~(facts.total_bytes > tuning.number(SIZE_THRESHOLD) * GB)
    enough = options.reaches(share_percent(facts.any_bytes, facts.total_bytes), tuning.number(SIZE_FRACTION))
    return np.asarray(little | enough | is_staged(tasks, facts))


def has_enough_files(
    tasks: AssigningTable, facts: TaskFacts, tuning: TuningView, options: LocalityOptions = SHIPPED
) -> Bools:
    """(T, N): the same by number of files."""
    few = ~(facts.total_files > tuning.number(NUMBER_THRESHOLD))
    enough = options.reaches(share_percent(facts.any_files, facts.total_files), tuning.number(NUMBER_FRACTION))
    return np.asarray(few | enough | is_staged(tasks, facts))


def has_enough(
    tasks: AssigningTable, facts: TaskFacts, tuning: TuningView, options: LocalityOptions = SHIPPED
) -> Bools:
    """(T, N): enough bytes and enough files."""
    return has_enough_bytes(tasks, facts, tuning, options) & has_enough_files(tasks, facts, tuning, options)


def may_go_anywhere(
    tasks: AssigningTable, facts: TaskFacts, tuning: TuningView, options: LocalityOptions = SHIPPED
) -> Bools:
    """(T, 1): the task may run away from its data, if no nucleus has enough of them.

    An unknown IO intensity counts as low here.
    """
    low = ~(tasks.iointensity > tuning.number(LOW_INTENSITY))
    small = facts.total_bytes <= tuning.number(SMALL_INPUT) * GB
    priority = tasks.taskpriority if options.waiver == "taskpriority" else tasks.currentpriority
    return np.asarray((low & small) | (priority >= tuning.number(HIGH_PRIORITY)))


def is_waived(
    alive: Bools, tasks: AssigningTable, facts: TaskFacts, tuning: TuningView, options: LocalityOptions = SHIPPED
) -> Bools:
    """(T, 1): no remaining nucleus has enough, and the task may go anywhere."""
    none_has_enough = ~(alive & has_enough(tasks, facts, tuning, options)).any(axis=1, keepdims=True)
    return np.asarray(none_has_enough & may_go_anywhere(tasks, facts, tuning, options))


def counts_in_weight(
    tasks: AssigningTable, facts: TaskFacts, tuning: TuningView, options: LocalityOptions = SHIPPED
) -> Bools:
    """(T, N): whether the available input is part of the weight.

    A checked nucleus without enough input is weighed only if the check was waived for all; then no nucleus's data
    count.
    """
    unchecked = ~is_checked(tasks, facts, tuning)
    has_input = facts.examined & (facts.total_bytes > 0)
    return np.asarray(has_input & (unchecked | has_enough(tasks, facts, tuning, options)))


class InputShareRule(GroupFilter[TaskPairs]):
    """Rejects nuclei with too small a part of the input, for input above the threshold.

    ``fraction_key``: the gdpconfig key of the part; ``total``: the observation's name for the whole input.
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
        """Tasks with input that have not waited too long."""
        return is_checked(pairs.tasks, pairs.facts, pairs.tuning)

    def keep_among(self, alive: Bools, pairs: TaskPairs) -> Bools:
        """(T, N): true where the nucleus has enough of the input, or where that does not matter."""
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
