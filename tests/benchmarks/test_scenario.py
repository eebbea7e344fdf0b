from __future__ import annotations

from collections import Counter

import pytest
import sqlalchemy as sa

from benchmarks.columns import ColumnScenario, from_rows, size
from benchmarks.scenario import make_scenario
from broker.store.connection.database import Database


def _count_pseudo_queues(scenario: ColumnScenario) -> int:
    """Count the candidates: a unified queue counts once for every resource type that fits its cores."""
    minimum_cores = [mincore for mincore in scenario.tables["resource_types"]["mincore"]]
    count = 0
    for data in scenario.tables["schedconfig_json"]["data"]:
        is_unified = data["capability"] == "ucore"
        count += sum(data["corecount"] >= cores for cores in minimum_cores) if is_unified else 1
    return count


def _count_jobs(scenario: ColumnScenario) -> int:
    files = Counter(scenario.tables["jedi_dataset_contents"]["jeditaskid"])
    tasks = scenario.tables["jedi_tasks"]
    split_rules = dict(zip(tasks["jeditaskid"], tasks["splitrule"], strict=True))
    return sum(-(-number // int(split_rules[task].split(",")[0].removeprefix("NF="))) for task, number in files.items())


@pytest.mark.parametrize(("tasks", "pseudo_queues", "jobs"), [(250, 125, 250), (40, 500, 1001), (1, 8, 3)])
def test_the_scenario_has_the_requested_size(tasks: int, pseudo_queues: int, jobs: int) -> None:
    scenario = make_scenario(tasks, pseudo_queues, jobs, seed=1)
    assert size(scenario.tables["jedi_tasks"]) == tasks
    assert _count_pseudo_queues(scenario) == pseudo_queues
    assert _count_jobs(scenario) == jobs


@pytest.mark.parametrize(("tasks", "pseudo_queues", "jobs"), [(0, 500, 10), (5, 7, 10), (5, 500, 4)])
def test_impossible_sizes_are_refused(tasks: int, pseudo_queues: int, jobs: int) -> None:
    with pytest.raises(ValueError, match="too small"):
        make_scenario(tasks, pseudo_queues, jobs, seed=1)


def test_the_scenario_depends_only_on_its_arguments() -> None:
    first, same_seed, other_seed = (make_scenario(30, 60, 90, seed=seed).rows() for seed in (1, 1, 2))
    assert first == same_seed
    assert first != other_seed


def test_dataset_counters_equal_the_files() -> None:
    tables = make_scenario(30, 60, 95, seed=3).tables
    files = Counter(tables["jedi_dataset_contents"]["datasetid"])
    datasets = tables["jedi_datasets"]
    assert dict(zip(datasets["datasetid"], datasets["nfilestobeused"], strict=True)) == files


def test_columns_keep_the_rows_and_fill_gaps_with_none() -> None:
    assert from_rows([{"a": 1}, {"b": 2}]) == {"a": [1, None], "b": [None, 2]}
    with pytest.raises(ValueError, match="different length"):
        size({"a": [1], "b": []})


def test_copy_writes_every_row(database: Database) -> None:
    scenario = make_scenario(300, 40, 600, seed=1)
    with database.begin() as connection:
        row_count = scenario.copy_into(database.raw(connection), database.names)
    assert row_count == sum(size(columns) for columns in scenario.tables.values())
    with database.begin() as connection:
        names = database.names
        files = connection.scalar(sa.text(f"SELECT count(*) FROM {names.table('jedi_dataset_contents')}"))
        power = connection.scalar(
            sa.text(f"SELECT data ->> 'corepower' FROM {names.table('schedconfig_json')} ORDER BY panda_queue LIMIT 1")
        )
        grouping = connection.scalar(sa.text(f"SELECT rule_groupings FROM {names.own('dataset_metadata')} LIMIT 1"))
    assert files == size(scenario.tables["jedi_dataset_contents"])
    assert float(power or 0) == scenario.tables["schedconfig_json"]["data"][0]["corepower"]
    assert grouping == ["DATASET"]
