"""The baseline policies, and the statements that a comparison of many figures supports."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from broker.brokerages.profile import ProfileError
from broker.errors import BrokerError
from broker.simulation.answers.figures_of_merit import PrimaryVerdict, primary_verdict, sentence
from broker.simulation.commands.policies import wanted_policies
from broker.simulation.model.comparing import Case, CaseResult, compare, simulate_case
from broker.simulation.model.conservation import violations
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.figures import Stats
from broker.simulation.model.intervals import Interval, holm, interval, seeds_to_find
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.merit import stats
from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.real.brokered import Brokered
from broker.simulation.model.scenario import Outage, Scenario
from broker.simulation.model.scenario_file import FixedScenario
from tests.simulation.small_grids import closed, queue, task

MINE = "profile: mine\nextends: flow\n"


def jobs_by_queue(policy: str, scenario: Scenario) -> list[int]:
    """The jobs of each queue after the first cycle."""
    loop = ClosedLoop(scenario, find_policy(policy), 1)
    loop.events.run(61.0)
    assert violations(loop.grid) == []
    return [int(n) for n in loop.grid.counts.sum(axis=(1, 2))]


def test_the_shortest_queue_ignores_sizes_and_the_least_loaded_does_not() -> None:
    scenario = dataclasses.replace(closed(task(1, 12)), queues=(queue(0, 16), queue(1, 32)))
    assert jobs_by_queue("shortest_queue", scenario) == [6, 6]
    assert jobs_by_queue("least_loaded", scenario) == [4, 8]


@pytest.mark.parametrize(("jobs", "expected"), [(8, [8, 0]), (10, [9, 1]), (16, [12, 4])])
def test_a_queue_without_the_input_counts_as_half_full(jobs: int, expected: list[int]) -> None:
    kind = dataclasses.replace(closed().kinds["hour"], input_gb=1.0)
    assert jobs_by_queue("least_loaded_local", closed(task(1, jobs), kinds={"hour": kind})) == expected


def test_without_input_no_queue_is_far() -> None:
    assert jobs_by_queue("least_loaded_local", closed(task(1, 8))) == [4, 4]


def test_the_shortest_delay_knows_the_published_power() -> None:
    scenario = dataclasses.replace(closed(task(1, 20)), queues=(queue(0), queue(1, corepower=20.0)))
    assert jobs_by_queue("shortest_delay", scenario) == [0, 20]


def test_the_clairvoyant_sees_true_speed_failures_and_outages() -> None:
    slow, fast = queue(0, corepower=20.0, hidden_speed=0.25), queue(1)
    assert jobs_by_queue("clairvoyant", dataclasses.replace(closed(task(1, 10)), queues=(slow, fast))) == [0, 10]
    hole = dataclasses.replace(fast, failure_rate=1.0, hidden_speed=9.0)
    assert jobs_by_queue("clairvoyant", dataclasses.replace(closed(task(1, 10)), queues=(slow, hole))) == [10, 0]
    down = dataclasses.replace(closed(task(1, 10)), queues=(slow, fast), outages=(Outage((1,), 1800.0, 9000.0),))
    assert jobs_by_queue("clairvoyant", down) == [10, 0]


def test_the_clairvoyant_holds_back_jobs_without_room() -> None:
    loop = ClosedLoop(closed(task(1, 50)), find_policy("clairvoyant"), 1)
    loop.events.run(61.0)
    assert len(loop.grid.tasks[1].unassigned) == 50 - 32
    assert stats(loop.run()).delivered == 1.0


def test_delivered_counts_the_work_of_jobs_wherever_they_run() -> None:
    scenario = dataclasses.replace(closed(task(1, 32)), queues=(queue(0, hidden_speed=0.5), queue(1)))
    scenario = dataclasses.replace(scenario, days=1.5 / 24, closed=False)
    figures = stats(ClosedLoop(scenario, find_policy("least_loaded"), 1).run())
    assert figures.delivered == pytest.approx(0.5), "the slow half is still running after an hour and a half"
    assert figures.finish_mean_s == pytest.approx(5400.0) and figures.wait_mean_s == pytest.approx(60.0)


def test_a_custom_profile_with_values_is_a_policy(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(MINE, encoding="utf-8")
    (mine,) = wanted_policies([], [file], ["FLOW_BYTE_PRICE=7"], False)
    assert mine.label == "mine" and mine.values == (("FLOW_BYTE_PRICE", 7.0),)
    result = simulate_case(mine.case(FixedScenario(closed(task(1))), 1))
    assert result.label == "mine" and result.stats.delivered == 1.0
    seed, flow = wanted_policies(["seed", "flow", "seed"], [], [], False)
    assert (seed.label, flow.label, flow.profile) == ("seed", "flow", None)


def test_a_profile_extends_another_one_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(MINE.replace("mine", "base"), encoding="utf-8")
    file = tmp_path / "mine.yaml"
    file.write_text("profile: mine\nextends: base\n", encoding="utf-8")
    (mine,) = wanted_policies([], [file], [], False)
    assert (
        Brokered(closed(task(1)), 1, profile=mine.profile or "")
        .rules["production_job"]
        .chain.named_steps["placement"]
        .together
    )  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("policies", "text", "values", "database", "message"),
    [
        (["mine"], MINE, [], False, "no policy is called mine"),
        (["flow"], MINE.replace("mine", "flow").replace("extends: flow", "extends: seed"), [], False, "two policies"),
        (["random"], None, ["FLOW_BYTE_PRICE=7"], False, "no policy here reads"),
        (["flow"], None, ["FLOW_BYTE_PRICE=7"], True, "shipped tuning"),
        (["random"], None, [], True, "no agent decides so"),
        ([], MINE, ["FLOW_BITE_PRICE=7"], False, "FLOW_BITE_PRICE"),
        ([], "profile: mine\nextends: nothing\n", [], False, "extends nothing"),
    ],
)
def test_policies_that_cannot_be_compared_are_refused(
    tmp_path: Path, policies: list[str], text: str | None, values: list[str], database: bool, message: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text or "", encoding="utf-8")
    with pytest.raises((BrokerError, ProfileError), match=message):
        wanted_policies(policies, [file] if text else [], values, database)


def test_a_profile_without_the_three_brokerages_is_refused() -> None:
    with pytest.raises(SimulationError, match="panda-gen has no brokerage production_task"):
        Brokered(closed(task(1)), 1, profile="panda-gen")


def test_holm_stops_at_the_first_insignificant_figure() -> None:
    # 5 % over 4, 3, 2, 1: .0125, .0167, .025, .05
    assert holm({"a": 0.0124, "b": 0.0166, "c": 0.0501, "d": 0.001, "e": math.nan}) == {"a", "b", "d"}
    assert holm({"a": 0.013, "b": 0.0167, "c": 0.02, "d": 0.02}) == set()
    assert holm({}) == set()


def test_the_p_value_is_that_of_the_t_test() -> None:
    # differences 1, 2, 3: t = 2 sqrt(3) on 2 degrees, p = .0742
    assert interval([1.0, 2.0, 3.0]).p_value == pytest.approx(0.0742, abs=1e-4)
    assert interval([1.0, 1.0]).p_value == 0.0 and interval([0.0, 0.0]).p_value == 1.0
    assert math.isnan(interval([1.0]).p_value)


def test_the_number_of_seeds_that_find_an_effect() -> None:
    # s = 1: (2.8 / 0.5)^2 = 31.4
    assert seeds_to_find(interval([1.0, 2.0, 3.0]), 0.5) == 32
    assert seeds_to_find(interval([1.0]), 0.5) is None and seeds_to_find(interval([1.0, 2.0]), 0.0) is None


def results(label: str, delivered: list[float], finish: float) -> list[CaseResult]:
    no_stats = dict.fromkeys(Stats.__dataclass_fields__, math.nan)
    return [
        CaseResult(label, seed, Stats(**{**no_stats, "delivered": value, "finish_mean_s": finish}), (), {}, 0, 0.0, 0.0)
        for seed, value in enumerate(delivered)
    ]


def test_a_comparison_in_words() -> None:
    first, second, third = compare(
        [
            *results("seed", [0.50, 0.51, 0.49], 7200.0),
            *results("flow", [0.55, 0.56, 0.541], 7000.0),
            *results("other", [0.60, 0.41, 0.50], math.nan),
        ]
    )
    assert first.significant == frozenset() and second.significant == {"delivered", "finish_mean_s"}
    assert sentence(second, first) == (
        "flow, against seed: delivers 10.1 % +- 0.3 more; finishes tasks 2.8 % +- 0.0 sooner"
    )
    assert sentence(third, first).startswith("other, against seed: delivers: not told from seed (")
    assert "finishes tasks: not known" in sentence(third, first)
    assert isinstance(second.differences["delivered"], Interval) and np.isnan(second.differences["use"].mean)


@pytest.mark.parametrize(
    ("delivered", "phrase"),
    [
        ([0.50, 0.52, 0.48], "no difference from baseline"),  # equal for each seed
        ([0.501, 0.519, 0.48], "no difference from baseline"),  # 0 +- .0025, and 2 % are .01
        ([0.51, 0.51, 0.48], "not told from baseline (8 seeds would find 2 %)"),  # 0 +- .025
        ([0.51, 0.53, 0.49], "2.0 % +- 0.0 more"),
    ],
)
def test_sides_without_a_difference_are_reported_as_equal(delivered: list[float], phrase: str) -> None:
    first, second = compare(
        [*results("baseline", [0.50, 0.52, 0.48], 7200.0), *results("K=1", delivered, 7200.0)],
    )
    colon = "" if phrase.endswith("more") else ":"
    expected = f"K=1, against baseline: delivers{colon} {phrase}; finishes tasks: no difference from baseline"
    assert sentence(second, first) == expected


@pytest.mark.parametrize(
    ("difference", "mean", "word"),
    [
        (Interval(0.0, 0.0, 10), 0.5, "no difference"),
        (Interval(0.0, 0.0, 10), 0.0, "no difference"),  # neither delivered anything
        (Interval(0.0, 0.01, 10), 0.5, "no difference"),  # 2 % of .5 are .01
        (Interval(0.0, 0.0101, 10), 0.5, "not told"),
        (Interval(0.004, 0.006, 10), 0.5, "no difference"),
        (Interval(0.004, 0.0061, 10), 0.5, "not told"),  # it reaches beyond 2 % on one side
        (Interval(-0.004, 0.0061, 10), 0.5, "not told"),
        (Interval(0.02, 0.019, 10), 0.5, "better"),
        (Interval(-0.02, 0.019, 10), 0.5, "worse"),
        (Interval(0.02, math.nan, 1), 0.5, "not known"),  # one seed
    ],
)
def test_the_verdict_on_a_difference(difference: Interval, mean: float, word: PrimaryVerdict) -> None:
    assert primary_verdict("delivered", difference, mean) == word


def test_a_case_runs_a_policy_by_name() -> None:
    assert simulate_case(Case("x", "clairvoyant", 1, FixedScenario(closed(task(1))))).label == "x"
