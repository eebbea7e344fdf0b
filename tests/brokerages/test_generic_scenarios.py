"""The generic job brokerage, one decision after the other, each seen in the outcome of a whole cycle.

The grid is that of ``small_grid``; queues run no more than the jobs that a test gives them.
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


def tables(asked: Row | None = None, master: Row | None = None, /, **more: Any) -> dict[str, Any]:
    """A task of VO wlcg without input and without nucleus, with what its row, parameters and dataset ask for."""
    parameters = {key: (asked or {}).pop(key) for key in ("PandaSite", "params_cloud") if key in (asked or {})}
    if "params_cloud" in parameters:
        parameters["cloud"] = parameters.pop("params_cloud")
    own = {"vo": "wlcg", "nucleus": None, "cloud": None, "corecount": 8, **(asked or {})}
    pseudo = {"type": "pseudo_input", "datasetname": "pseudo_dataset", "vo": "wlcg", **(master or {})}
    return {
        "jedi_tasks": [task(**own)],
        "jedi_taskparams": [{"jeditaskid": TASK, "taskparams": json.dumps(parameters)}],
        "jedi_datasets": [dataset(4, **pseudo)],
        "jedi_dataset_contents": input_files(4, 0, type="pseudo_input"),
        **more,
    }


def with_another(given: dict[str, Any], **columns: Any) -> dict[str, Any]:
    """The tables with a second task like the first, but for some columns."""
    of_task, of_dataset = {"jeditaskid": TASK + 1}, {"datasetid": DATASET + 9}
    given["jedi_tasks"].append(given["jedi_tasks"][0] | of_task | columns)
    given["jedi_taskparams"].append({**of_task, "taskparams": "{}"})
    given["jedi_datasets"].append(given["jedi_datasets"][0] | of_task | of_dataset)
    files = [row | of_task | of_dataset for row in given["jedi_dataset_contents"]]
    given["jedi_dataset_contents"] += [row | {"fileid": row["fileid"] + 100} for row in files]
    return given


def decided(database: Database, given: dict[str, Any]) -> Row:
    """The decision of a cycle on the one chunk."""
    _, (decision,) = one_cycle(database, scenario(**given), **AGENT, independent=True)
    return decision


def weights(decision: Row) -> dict[str, float]:
    """The candidates with their weights."""
    return {one["name"]: one["weight"] for one in decision["candidates"]}


CLOUDS = [queue("ALPHA_MCORE"), queue("BETA", type="unified", capability="ucore", cloud="YY"), queue("GAMMA_MCORE")]
CLOUDS.append(queue("GAMMA_OFF", cloud=""))


@pytest.mark.parametrize(
    ("asked", "master", "expected"),
    [
        ({}, {}, ONLINE),
        # an unknown cloud is as none
        ({"cloud": "NOWHERE"}, {}, ONLINE),
        # what is named is taken whatever its status; the name wins over that of the input
        ({"site": "GAMMA_OFF"}, {}, ["GAMMA_OFF"]),
        ({}, {"site": "GAMMA_OFF"}, ["GAMMA_OFF"]),
        ({"site": "ALPHA_MCORE"}, {"site": "GAMMA_OFF"}, ["ALPHA_MCORE"]),
        ({"site": "^GAMMA_[MO]"}, {}, ["GAMMA_MCORE", "GAMMA_OFF"]),
        ({"PandaSite": "GAMMA"}, {}, ["GAMMA_MCORE", "GAMMA_TEST"]),
        ({"PandaSite": "GAMMA", "site": "BETA"}, {}, []),
        # pseudo-queues have no pilots, which tests do without
        ({"prodsourcelabel": "user"}, {}, ONLINE),
        ({"site": "BETA/MCORE"}, {}, []),
        ({"site": "BETA/MCORE", "prodsourcelabel": "test"}, {}, ["BETA/MCORE"]),
    ],
)
def test_candidates_are_what_is_named_or_the_cloud(
    database: Database, asked: Row, master: Row, expected: list[str]
) -> None:
    assert sorted(weights(decided(database, tables(asked, master)))) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"cloud": "XX"}, ["ALPHA_MCORE", "GAMMA_MCORE"]),
        ({"params_cloud": "YY"}, ["BETA"]),
        ({"cloud": "XX", "params_cloud": "YY"}, ["ALPHA_MCORE", "GAMMA_MCORE"]),
        # a cloud without a name that some queue has is not that of queues with one
        ({"cloud": ""}, []),
        ({"cloud": "", "params_cloud": "YY"}, ["BETA"]),
        # a pattern is looked for in the cloud alone
        ({"cloud": "YY", "site": "A"}, ["BETA"]),
        ({"cloud": "YY", "site": "GAMMA"}, []),
    ],
)
def test_the_cloud_is_that_of_the_task_or_of_its_parameters(
    database: Database, asked: Row, expected: list[str]
) -> None:
    assert sorted(weights(decided(database, tables(asked, schedconfig_json=CLOUDS)))) == expected


@pytest.mark.parametrize(
    ("site", "code"),
    [
        ("no such queue", "unknown_queue"),
        ("(", "bad_pattern"),
        # what could take hours to search for
        ("(A|.)*~", "bad_pattern"),
        ("A.*.*.*.*.*~", "bad_pattern"),
        ("A.*.*.*.*~", "unknown_queue"),
    ],
)
def test_a_name_that_finds_nothing_is_told(database: Database, site: str, code: str) -> None:
    decision = decided(database, tables({"site": site}))
    assert decision["outcome"] == "pending"
    assert set(decision["rejected"].values()) == {code}


def of_vo(vo: str, where: str, first: int, share: str = "any", **counts: int) -> list[Row]:
    """Jobs of a VO."""
    return [row | {"vo": vo} for row in jobs(where, first, share, **counts)]


def test_jobs_of_the_vo_count_in_all_shares(database: Database) -> None:
    active = [
        *of_vo("wlcg", "ALPHA_MCORE", 1, "one", running=5, activated=1),
        *of_vo("wlcg", "ALPHA_MCORE", 100, "other", running=6),
        *of_vo("atlas", "GAMMA_MCORE", 200, running=50, activated=9),
        *of_vo("wlcg", "BETA", 300, running=7, starting=4),
    ]
    defined = [*of_vo("wlcg", "ALPHA_MCORE", 400, defined=2), *of_vo("wlcg", "BETA", 500, assigned=3)]
    found = weights(decided(database, tables(jobsactive4=active, jobsdefined4=defined)))
    assert found == {"ALPHA_MCORE": 12 / 4 / 3, "BETA": 8.0, "GAMMA_MCORE": 1.0, "GAMMA_TEST": 1.0}


def test_five_queues_are_taken_and_those_that_the_task_has_used(database: Database) -> None:
    names = [f"Q{at}" for at in range(8)]
    pilots = scenario().tables["sitedata"][0]
    given = tables(
        schedconfig_json=[queue(name) for name in names],
        sitedata=[{**pilots, "site": name} for name in names],
        jobsactive4=[row for at, name in enumerate(names) for row in of_vo("wlcg", name, 100 * at + 1, running=at)],
    )
    given["jedi_datasets"].append(dataset(0, datasetid=DATASET + 1, type="output", datasetname="out", site="Q0"))
    decision = decided(database, given)
    assert sorted(weights(decision)) == ["Q0", "Q4", "Q5", "Q6", "Q7"]
    assert {decision["rejected"][name] for name in ("Q1", "Q2", "Q3")} == {"five_queues"}


def test_what_a_cycle_has_placed_counts_for_the_chunk_behind(database: Database) -> None:
    given = with_another(tables({"site": "ALPHA_MCORE"}), currentpriority=100, taskpriority=100)
    _, told = one_cycle(database, scenario(**given), **AGENT)
    assert [weights(one) for one in told] == [{"ALPHA_MCORE": 1.0}, {"ALPHA_MCORE": 1 / 5 / 5}]
    # the jobs are there now
    assert next_cycle(database, **AGENT)[0].outcome == "done"
    with database.read_snapshot() as connection:
        rows = connection.exec_driver_sql("SELECT count(*) FROM doma_panda.jobsdefined4 WHERE vo = 'wlcg'")
        assert rows.scalar() == 8


@pytest.mark.parametrize("column", ["cpuefficiency", "basewalltime"])
def test_where_panda_ends_the_brokerage_the_chunk_waits(database: Database, column: str) -> None:
    given = with_another(tables({column: None}), cputimeunit=None)
    _, told = one_cycle(database, scenario(**given), **AGENT, independent=True)
    assert [one["reason"] for one in told] == ["cpu_figures_missing", ""]
