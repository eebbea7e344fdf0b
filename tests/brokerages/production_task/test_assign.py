"""The draw among nuclei: frequencies follow the weights, seeds decide, and tasks draw independently."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agents.brokerage.grid_reading import GridReader
from broker import resources
from broker.brokerages.production_job import brokerage as production_job
from broker.brokerages.production_task import brokerage as production_task
from broker.brokerages.production_task.assign import assign_tasks
from broker.engine.task.cycle import TaskCycle
from broker.engine.task.placing import drawn
from broker.gdpconfig import Tuning
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.task_loading import load_task_work
from broker.store.reads.task_reads import TaskSelection
from broker.store.scenarios.load_dump import load
from tests.brokerages.small_grid import NOW, TASK, input_files
from tests.brokerages.task_engine import task_cycle
from tests.brokerages.task_grid import outputs, pseudo_input, task_scenario, waiting

SEEDS = 10_000
#: The value that chi-square exceeds once in a thousand times, by degrees of freedom.
CHI_SQUARE_0_001 = {1: 10.828, 2: 13.816, 3: 16.266}


def cycle_of(database: Database, scenario: Any) -> TaskCycle:
    """Return the cycle of a scenario in which every task sees the same grid."""
    load(database, scenario)
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        grid = GridReader("live", resources.path("config/sources.yaml")).read(connection, catalogue, NOW, lambda: None)
        work = load_task_work(connection, catalogue, TaskSelection("atlas", NOW))
    tuning = Tuning.defaults()
    return task_cycle(grid.snapshot, work, tuning, production_task.chain(), production_job.chain(), independent=True)


def chi_square(counts: dict[str, int], weights: dict[str, float]) -> float:
    """Return the sum of (observed - expected)^2 / expected."""
    total, all_counts = sum(weights.values()), sum(counts.values())
    expected = {name: all_counts * weight / total for name, weight in weights.items()}
    return sum((counts.get(name, 0) - value) ** 2 / value for name, value in expected.items())


@pytest.mark.slow
def test_frequencies_over_ten_thousand_seeds_follow_the_weights(database: Database) -> None:
    """The weights are 2 for ALPHA and 0.5 for BETA, so ALPHA gets four of five tasks."""
    cycle = cycle_of(database, task_scenario())
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        (task,) = assign_tasks(cycle, seed)
        counts[task.decision.candidates[0].name] += 1
    weights = {candidate.name: candidate.weight for candidate in task.decision.candidates}
    assert weights == pytest.approx({"ALPHA": 2.0, "BETA": 0.5})
    assert chi_square(dict(counts), weights) < CHI_SQUARE_0_001[1], counts
    # the test is sensitive: equal chances are far off
    assert chi_square(dict(counts), {"ALPHA": 1.0, "BETA": 1.0}) > 100


def test_the_draw_follows_any_weights() -> None:
    weights = {"a": 7.5, "b": 0.0, "c": 0.75, "d": 2.4}
    column = np.array(list(weights.values()))
    counts = Counter(list(weights)[drawn(column, np.random.default_rng([seed, 1]).random())] for seed in range(SEEDS))
    assert counts["b"] == 0
    positive = {name: weight for name, weight in weights.items() if weight}
    assert chi_square(dict(counts), positive) < CHI_SQUARE_0_001[2], counts


def two_tasks() -> Any:
    """Make a scenario of two tasks of one share."""
    names = (TASK, TASK + 1)
    return task_scenario(
        jedi_tasks=[waiting(jeditaskid=name) for name in names],
        jedi_datasets=[
            row for name in names for row in (pseudo_input(jeditaskid=name, datasetid=name), *outputs(name, 10 * name))
        ],
        jedi_dataset_contents=[
            {**row, "jeditaskid": name, "datasetid": name, "fileid": row["fileid"] + 10 * name}
            for name in names
            for row in input_files(5, 0, type="pseudo_input", fsize=None)
        ],
    )


@pytest.mark.slow
def test_each_task_draws_from_its_own_stream(database: Database) -> None:
    """The draws of two tasks are independent."""
    cycle = cycle_of(database, two_tasks())
    pairs: Counter[tuple[str, str]] = Counter()
    for seed in range(2000):
        first, second = assign_tasks(cycle, seed)
        pairs[first.decision.candidates[0].name, second.decision.candidates[0].name] += 1
    expected = {(a, b): x * y for a, x in (("ALPHA", 2.0), ("BETA", 0.5)) for b, y in (("ALPHA", 2.0), ("BETA", 0.5))}
    counts = {f"{a} {b}": count for (a, b), count in pairs.items()}
    assert chi_square(counts, {f"{a} {b}": weight for (a, b), weight in expected.items()}) < CHI_SQUARE_0_001[3], pairs


def test_leaving_out_a_task_does_not_change_others(database: Database) -> None:
    cycle = cycle_of(database, two_tasks())
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        work = load_task_work(connection, catalogue, TaskSelection("atlas", NOW, task_ids=(TASK + 1,)))
    rules, jobs = production_task.chain(), production_job.chain()
    alone = task_cycle(cycle.snapshot, work, Tuning.defaults(), rules, jobs, independent=True)
    for seed in range(50):
        _, second = assign_tasks(cycle, seed)
        (single,) = assign_tasks(alone, seed)
        assert single.decision == second.decision


def test_the_same_seed_gives_the_same_decisions(database: Database) -> None:
    cycle = cycle_of(database, two_tasks())
    assert [task.decision for task in assign_tasks(cycle, 5)] == [task.decision for task in assign_tasks(cycle, 5)]


@settings(max_examples=200, deadline=None)
@given(
    weights=st.lists(st.floats(0, 1e308, allow_nan=False, allow_infinity=False), min_size=1, max_size=8),
    seed=st.integers(0, 2**31),
)
def test_a_nucleus_without_weight_is_drawn_only_if_all_are_without(weights: list[float], seed: int) -> None:
    position = drawn(np.array(weights), np.random.default_rng(seed).random())
    assert 0 <= position < len(weights)
    if any(weights):
        assert weights[position] > 0
    else:
        assert position == 0
