"""The generic job brokerage, decision by decision, tested through whole cycles.

The grid is that of ``small_grid``; queues run only the jobs that a test gives them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.small_grid import (
    DATASET,
    TASK,
    Row,
    dataset,
    input_files,
    jobs,
    next_cycle,
    one_cycle,
    queue,
    scenario,
    task,
)

ONLINE = ["ALPHA_MCORE", "BETA", "GAMMA_MCORE", "GAMMA_TEST"]
AGENT: dict[str, Any] = {"agent": "generic_job", "profile": "panda-gen"}


def tables(
    task_columns: Row | None = None, dataset_columns: Row | None = None, /, **other_tables: Any
) -> dict[str, Any]:
    """Make a task of VO wlcg without input and nucleus, with the given columns, parameters and dataset columns."""
    parameters = {
        key: (task_columns or {}).pop(key) for key in ("PandaSite", "params_cloud") if key in (task_columns or {})
    }
    if "params_cloud" in parameters:
        parameters["cloud"] = parameters.pop("params_cloud")
    columns = {"vo": "wlcg", "nucleus": None, "cloud": None, "corecount": 8, **(task_columns or {})}
    input_columns = {"type": "pseudo_input", "datasetname": "pseudo_dataset", "vo": "wlcg", **(dataset_columns or {})}
    return {
        "jedi_tasks": [task(**columns)],
        "jedi_taskparams": [{"jeditaskid": TASK, "taskparams": json.dumps(parameters)}],
        "jedi_datasets": [dataset(4, **input_columns)],
        "jedi_dataset_contents": input_files(4, 0, type="pseudo_input"),
        **other_tables,
    }


def with_second_task(tables_of_one: dict[str, Any], **columns: Any) -> dict[str, Any]:
    """Add a second task that differs from the first in some columns."""
    task_id, dataset_id = {"jeditaskid": TASK + 1}, {"datasetid": DATASET + 9}
    tables_of_one["jedi_tasks"].append(tables_of_one["jedi_tasks"][0] | task_id | columns)
    tables_of_one["jedi_taskparams"].append({**task_id, "taskparams": "{}"})
    tables_of_one["jedi_datasets"].append(tables_of_one["jedi_datasets"][0] | task_id | dataset_id)
    files = [row | task_id | dataset_id for row in tables_of_one["jedi_dataset_contents"]]
    tables_of_one["jedi_dataset_contents"] += [row | {"fileid": row["fileid"] + 100} for row in files]
    return tables_of_one


def decide_one(database: Database, grid_tables: dict[str, Any]) -> Row:
    """Run one cycle and return its decision on the only chunk."""
    _, (decision,) = one_cycle(database, scenario(**grid_tables), **AGENT, independent=True)
    return decision


def weights(decision: Row) -> dict[str, float]:
    """Return the weights of the candidates."""
    return {candidate["name"]: candidate["weight"] for candidate in decision["candidates"]}


CLOUDS = [queue("ALPHA_MCORE"), queue("BETA", type="unified", capability="ucore", cloud="YY"), queue("GAMMA_MCORE")]
CLOUDS.append(queue("GAMMA_OFF", cloud=""))


@pytest.mark.parametrize(
    ("task_columns", "dataset_columns", "expected"),
    [
        ({}, {}, ONLINE),
        # an unknown cloud counts as none
        ({"cloud": "NOWHERE"}, {}, ONLINE),
        # a named queue is used whatever its status; the name in the task wins over that of the input
        ({"site": "GAMMA_OFF"}, {}, ["GAMMA_OFF"]),
        ({}, {"site": "GAMMA_OFF"}, ["GAMMA_OFF"]),
        ({"site": "ALPHA_MCORE"}, {"site": "GAMMA_OFF"}, ["ALPHA_MCORE"]),
        ({"site": "^GAMMA_[MO]"}, {}, ["GAMMA_MCORE", "GAMMA_OFF"]),
        ({"PandaSite": "GAMMA"}, {}, ["GAMMA_MCORE", "GAMMA_TEST"]),
        ({"PandaSite": "GAMMA", "site": "BETA"}, {}, []),
        # pseudo-queues have no pilots, which tests do not need
        ({"prodsourcelabel": "user"}, {}, ONLINE),
        ({"site": "BETA/MCORE"}, {}, []),
        ({"site": "BETA/MCORE", "prodsourcelabel": "test"}, {}, ["BETA/MCORE"]),
    ],
)
def test_candidates_are_the_named_queues_or_those_of_the_cloud(
    database: Database, task_columns: Row, dataset_columns: Row, expected: list[str]
) -> None:
    assert sorted(weights(decide_one(database, tables(task_columns, dataset_columns)))) == expected


@pytest.mark.parametrize(
    ("task_columns", "expected"),
    [
        ({"cloud": "XX"}, ["ALPHA_MCORE", "GAMMA_MCORE"]),
        ({"params_cloud": "YY"}, ["BETA"]),
        ({"cloud": "XX", "params_cloud": "YY"}, ["ALPHA_MCORE", "GAMMA_MCORE"]),
        # the empty cloud contains only queues without a cloud
        ({"cloud": ""}, []),
        ({"cloud": "", "params_cloud": "YY"}, ["BETA"]),
        # a pattern is searched for only within the cloud
        ({"cloud": "YY", "site": "A"}, ["BETA"]),
        ({"cloud": "YY", "site": "GAMMA"}, []),
    ],
)
def test_the_cloud_comes_from_the_task_or_its_parameters(
    database: Database, task_columns: Row, expected: list[str]
) -> None:
    assert sorted(weights(decide_one(database, tables(task_columns, schedconfig_json=CLOUDS)))) == expected


@pytest.mark.parametrize(
    ("site", "code"),
    [
        ("no such queue", "unknown_queue"),
        ("(", "bad_pattern"),
        # a pattern that could take hours to match
        ("(A|.)*~", "bad_pattern"),
        ("A.*.*.*.*.*~", "bad_pattern"),
        ("A.*.*.*.*~", "unknown_queue"),
    ],
)
def test_a_name_that_matches_no_queue_is_a_rejection(database: Database, site: str, code: str) -> None:
    decision = decide_one(database, tables({"site": site}))
    assert decision["outcome"] == "pending"
    assert set(decision["rejected"].values()) == {code}


def jobs_of_vo(vo: str, queue_name: str, first: int, share: str = "any", **counts: int) -> list[Row]:
    """Make jobs of a VO."""
    return [row | {"vo": vo} for row in jobs(queue_name, first, share, **counts)]


def test_jobs_of_the_vo_count_across_all_shares(database: Database) -> None:
    active = [
        *jobs_of_vo("wlcg", "ALPHA_MCORE", 1, "one", running=5, activated=1),
        *jobs_of_vo("wlcg", "ALPHA_MCORE", 100, "other", running=6),
        *jobs_of_vo("atlas", "GAMMA_MCORE", 200, running=50, activated=9),
        *jobs_of_vo("wlcg", "BETA", 300, running=7, starting=4),
    ]
    defined = [*jobs_of_vo("wlcg", "ALPHA_MCORE", 400, defined=2), *jobs_of_vo("wlcg", "BETA", 500, assigned=3)]
    weight_of = weights(decide_one(database, tables(jobsactive4=active, jobsdefined4=defined)))
    assert weight_of == {"ALPHA_MCORE": 12 / 4 / 3, "BETA": 8.0, "GAMMA_MCORE": 1.0, "GAMMA_TEST": 1.0}


def test_five_queues_are_chosen_used_ones_among_them(database: Database) -> None:
    names = [f"Q{number}" for number in range(8)]
    pilots = scenario().tables["sitedata"][0]
    grid_tables = tables(
        schedconfig_json=[queue(name) for name in names],
        sitedata=[{**pilots, "site": name} for name in names],
        jobsactive4=[
            row
            for number, name in enumerate(names)
            for row in jobs_of_vo("wlcg", name, 100 * number + 1, running=number)
        ],
    )
    grid_tables["jedi_datasets"].append(dataset(0, datasetid=DATASET + 1, type="output", datasetname="out", site="Q0"))
    decision = decide_one(database, grid_tables)
    assert sorted(weights(decision)) == ["Q0", "Q4", "Q5", "Q6", "Q7"]
    assert {decision["rejected"][name] for name in ("Q1", "Q2", "Q3")} == {"five_queues"}


def test_jobs_placed_in_a_cycle_count_for_later_chunks(database: Database) -> None:
    grid_tables = with_second_task(tables({"site": "ALPHA_MCORE"}), currentpriority=100, taskpriority=100)
    _, decisions = one_cycle(database, scenario(**grid_tables), **AGENT)
    assert [weights(decision) for decision in decisions] == [{"ALPHA_MCORE": 1.0}, {"ALPHA_MCORE": 1 / 5 / 5}]
    # the jobs now exist
    assert next_cycle(database, **AGENT)[0].outcome == "done"
    with database.read_snapshot() as connection:
        rows = connection.exec_driver_sql("SELECT count(*) FROM doma_panda.jobsdefined4 WHERE vo = 'wlcg'")
        assert rows.scalar() == 8


@pytest.mark.parametrize("column", ["cpuefficiency", "basewalltime"])
def test_a_chunk_waits_where_panda_aborts_the_brokerage(database: Database, column: str) -> None:
    grid_tables = with_second_task(tables({column: None}), cputimeunit=None)
    _, decisions = one_cycle(database, scenario(**grid_tables), **AGENT, independent=True)
    assert [decision["reason"] for decision in decisions] == ["cpu_figures_missing", ""]
