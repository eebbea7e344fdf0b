"""A rule and its compiled step take the same numbers, or the chain is refused at process start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.engine.compiled.loop_steps import MOST_ARGUMENTS, STEPS, arguments_of, step_fault, step_of
from broker.engine.shared.chain import QueueChain, RuleChainError
from broker.gdpconfig import Tuning
from broker.rules.analysis_job.filters.queue_cap import QueueCap
from broker.rules.analysis_job.filters.user_queue_length import UserQueueLength
from broker.rules.analysis_job.weights.analysis_running_queued import AnalysisRunningQueued
from broker.rules.contract import CompiledStep, Rule
from broker.rules.production_job.cuts.cap import Cap
from broker.rules.production_job.weights.running_queued import RunningQueued
from broker.rules.production_task.weights.remaining_work import RemainingWork
from broker.rules.shared.cuts.below_min_weight import BelowMinWeight

KEY = "BASE_QUEUE_RATIO_ON_PQ"
CONSTANTS = {"waiting_times": 2.0, "least_running": 20.0}
WITH_STEPS: list[Rule] = [
    RunningQueued(),
    AnalysisRunningQueued(),
    Cap(),
    Cap().configured({"defined_wait": False}),
    BelowMinWeight(),
    QueueCap(),
    UserQueueLength(),
    RemainingWork(),
    RemainingWork().configured({"below_least": "one"}),
]


def derived_rule(base: type[Rule], step: CompiledStep, *keys: str) -> Any:
    """A rule with other keys and another step."""
    return type("Derived", (base,), {"keys": keys, "compiled_step": property(lambda self: step)})()


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a key that the step is not given": (
        lambda: derived_rule(QueueCap, CompiledStep("queue_cap", CONSTANTS), KEY),
        KEY,
    ),
    "a key that the rule does not read": (
        lambda: derived_rule(QueueCap, CompiledStep("queue_cap", {"least_running": 20.0}, {"waiting_times": KEY})),
        KEY,
    ),
    "a constant too few": (
        lambda: derived_rule(QueueCap, CompiledStep("queue_cap", {"least_running": 20.0})),
        "takes waiting_times, least_running",
    ),
    "a constant too many": (
        lambda: derived_rule(QueueCap, CompiledStep("queue_cap", CONSTANTS | {"offset": 1.0})),
        "gives its compiled step 'queue_cap' least_running, offset, waiting_times",
    ),
    "another family than the column holds": (
        lambda: derived_rule(Cap, CompiledStep("cap", {"times_running": 2.0}, {"queue_limit": KEY}), KEY),
        "queue_limit (of NQUEUELIMITSITE)",
    ),
    "a step that there is not": (lambda: derived_rule(QueueCap, CompiledStep("queue_caps")), "analysis_running_queued"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_rule_that_differs_from_its_step_is_refused(case: str) -> None:
    make, message = REFUSED[case]
    rule = make()
    filters, cuts = ((), (rule,)) if isinstance(rule, Cap) else ((rule,), ())
    chain = type("AnyChain", (QueueChain,), {"judges": rule.judges})
    with pytest.raises(RuleChainError, match=f"^toy: the rule {rule.name} ") as refused:
        chain("toy", filters, (), (), cuts)
    assert message in str(refused.value)


def test_a_key_may_take_the_place_of_a_constant() -> None:
    step = CompiledStep("queue_cap", {"least_running": 20.0}, {"waiting_times": KEY})
    rule = derived_rule(QueueCap, step, KEY)
    assert step_fault(rule) == ""
    tuning = Tuning.defaults().with_values({KEY: 0.25}).only(rule.keys)
    assert arguments_of(step, tuning).tolist() == [0.25, 20.0] + [0.0] * (MOST_ARGUMENTS - 2)


def test_a_derived_class_has_no_step_unless_it_declares_one() -> None:
    class WithKey(QueueCap):
        """Reads a key and declares no step."""

        keys = (KEY,)

    assert step_of(QueueCap()) is not None
    assert step_of(WithKey()) is None
    assert step_fault(WithKey()) == ""


def test_every_step_belongs_to_a_rule_with_its_arguments() -> None:
    steps = [step_of(rule) for rule in WITH_STEPS]
    assert {step.name for step in steps if step is not None} == set(STEPS)
    assert [step_fault(rule) for rule in WITH_STEPS] == [""] * len(WITH_STEPS)
