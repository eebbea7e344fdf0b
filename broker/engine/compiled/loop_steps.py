"""The steps of the compiled loops: their numbers there, and the arguments that they take from rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.analysis import KEYS
from broker.domain.arrays import Floats
from broker.rules.contract import LOAD_FAMILIES, CompiledStep, Rule, TuningView

RUNNING_QUEUED, ANALYSIS_RUNNING_QUEUED = 1, 2
QUEUE_CAP, USER_QUEUE_LENGTH = 1, 2
CAP, CAP_WITHOUT_DEFINED, BELOW_MIN_WEIGHT = 1, 2, 3
REMAINING_WORK, REMAINING_WORK_FROM_LEAST = 1, 2


@dataclass(frozen=True)
class LoopStep:
    """A step of a loop.

    Attributes:
        number: identifies it in the loop among the steps of its kind.
        arguments: names of the numbers that the rule gives it, constants or keys, in the order in which it reads them.
        columns: names of the columns of chunks that it reads; :data:`LOAD_FAMILIES` are the values they hold.
    """

    number: int
    arguments: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


_OF_CAP = ("times_running",), ("queue_limit",)
STEPS = {
    "running_queued": LoopStep(RUNNING_QUEUED, ("queued_offset", "largest_many_assigned")),
    "analysis_running_queued": LoopStep(ANALYSIS_RUNNING_QUEUED),
    "cap": LoopStep(CAP, *_OF_CAP),
    "cap_without_defined": LoopStep(CAP_WITHOUT_DEFINED, *_OF_CAP),
    "below_min_weight": LoopStep(BELOW_MIN_WEIGHT, (), ("min_weight",)),
    "queue_cap": LoopStep(QUEUE_CAP, ("waiting_times", "least_running")),
    "user_queue_length": LoopStep(USER_QUEUE_LENGTH, KEYS),
    "remaining_work": LoopStep(REMAINING_WORK, ("least_hs06s",)),
    "remaining_work_from_least": LoopStep(REMAINING_WORK_FROM_LEAST, ("least_hs06s",)),
}
#: Width of the arrays of arguments; unused arguments are 0.
MOST_ARGUMENTS = max(len(step.arguments) for step in STEPS.values())


def step_of(rule: Rule) -> CompiledStep | None:
    """The step that equals a rule; None without one.

    A class derived from a rule with a step is another rule, unless it names its own step.
    """
    step = rule.compiled_step if "compiled_step" in vars(type(rule)) else None
    return step if isinstance(step, CompiledStep) else None


def step_fault(rule: Rule) -> str:
    """Why the loop would not do the same as the rule with a step; empty if it would, or the rule has no step."""
    given = step_of(rule)
    if given is None:
        return ""
    step = STEPS.get(given.name)
    if step is None:
        return f"names the compiled step {given.name!r}, and there is none; there are {', '.join(sorted(STEPS))}"
    differing = sorted({*rule.keys} ^ {*given.keys.values()})
    if differing:
        return (
            f"and its compiled step {given.name!r} do not read the same gdpconfig keys ({', '.join(differing)}): large "
            "cycles would be decided by other values; name them in keys of the CompiledStep, or return None there"
        )
    columns = {name: LOAD_FAMILIES[name] for name in step.columns}
    differ = any(given.keys.get(name) != family for name, family in columns.items())
    named = sorted([*given.constants, *given.keys])
    if differ or named != sorted([*step.arguments, *columns]):
        takes = [*step.arguments, *(f"{name} (of {family})" for name, family in columns.items())]
        return (
            f"gives its compiled step {given.name!r} {', '.join(named) or 'nothing'}; "
            f"the step takes {', '.join(takes) or 'nothing'}"
        )
    return ""


def arguments_of(step: CompiledStep, tuning: TuningView) -> Floats:
    """(MOST_ARGUMENTS,) the arguments of the step, in the loop's order.

    Args:
        step: of a rule.
        tuning: the gdpconfig values that the rule declares.
    """
    given = np.zeros(MOST_ARGUMENTS)
    for at, name in enumerate(STEPS[step.name].arguments):
        given[at] = step.constants[name] if name in step.constants else tuning.number(step.keys[name])
    return given
