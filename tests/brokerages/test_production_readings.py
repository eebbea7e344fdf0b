"""Points that the specification leaves open, decision by decision, tested through whole cycles.

Source: PanDA production brokerage, decisions on open points of the specification, numbered in the names of tests.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.small_grid import (
    DATASET,
    FRESH,
    GB,
    SHARE,
    TASK,
    Row,
    dataset,
    input_files,
    jobs,
    one_cycle,
    queue,
    replica,
    scenario,
    task,
)
from tests.brokerages.task_grid import (
    WEIGHTS,
    broker_tasks,
    busy,
    outputs,
    pseudo_input,
    relation,
    task_scenario,
    waiting,
    weights,
)

SECONDARY = 8500
ALL = ["ALPHA_MCORE", "BETA/MCORE", "GAMMA_MCORE"]


def key(name: str, value: int, component: str = "jobbroker", vo: str = "atlas") -> Row:
    """Make a row of the CONFIG table."""
    return {"app": "jedi", "component": component, "key": name, "vo": vo, "value": str(value), "type": "integer"}


def metadata(name: str = "mc.input", **columns: Any) -> Row:
    """Make the catalogue metadata of a dataset that a replication rule keeps together."""
    return {"scope": "mc", "name": name, "did_type": "DATASET", "length": None, "rule_groupings": ["ALL"], **columns}


def copy(rse: str, available: int, total: int, **columns: Any) -> Row:
    """Make a replica of the master dataset at an endpoint."""
    return {**replica("ALPHA", available, total), "rse": rse, **columns}


def without_input(**tables: Any) -> dict[str, Any]:
    """Make the tables of a task without input."""
    return {
        "jedi_tasks": [task()],
        "jedi_datasets": [dataset(4, type="pseudo_input", datasetname="pseudo_dataset")],
        "jedi_dataset_contents": input_files(4, 0, type="pseudo_input"),
        **tables,
    }


def with_input(files: int = 4, /, **tables: Any) -> dict[str, Any]:
    """Make the tables of a task with ``files`` files of 2 GB, all of them at BETA by default."""
    return {
        "jedi_tasks": [task()],
        "jedi_datasets": [dataset(files)],
        "jedi_dataset_contents": input_files(files, 2 * GB),
        "dataset_replicas": [replica("BETA", files, files)],
        **tables,
    }


def decide_one(database: Database, tables: dict[str, Any]) -> Row:
    """Run one cycle and return its decision on the only chunk."""
    _, (decision,) = one_cycle(database, scenario(**tables))
    return decision


def names(decision: Row) -> list[str]:
    """Return the sorted names of the candidates."""
    return sorted(candidate["name"] for candidate in decision["candidates"])


def tape_at_beta(is_tape: str | None = "Y") -> dict[str, list[Row]]:
    """Make the storages of the grid and one more, from which BETA reads."""
    defaults = {table: [dict(row) for row in rows] for table, rows in scenario().tables.items()}
    extra = {**defaults["ddm_endpoint"][1], "ddm_endpoint_name": "BETA_TAPE", "type": "DATATAPE", "is_tape": is_tape}
    reads = {**defaults["panda_ddm_relation"][1], "ddm_endpoint_name": "BETA_TAPE", "roles": "read_lan"}
    reads |= {"default_read": "N", "default_write": "N", "order_read": 2, "order_write": None}
    return {
        "ddm_endpoint": [*defaults["ddm_endpoint"], extra],
        "panda_ddm_relation": [*defaults["panda_ddm_relation"], reads],
    }


@pytest.mark.parametrize(("ramcount", "accepted"), [(500, True), (400, False)])
def test_29_least_memory_of_a_pseudo_queue_is_its_share_of_the_slot(
    database: Database, ramcount: int, accepted: bool
) -> None:
    """A slot has 8 cores and 3,200 MB: SCORE needs at least 400 MB; a job has 450 or 360 MB (500 or 400 x 0.9)."""
    beta = queue("BETA", type="unified", capability="ucore", minrss=400 * 8)
    tables = without_input(
        jedi_tasks=[task(corecount=1, ramcount=ramcount, resource_type="SCORE")],
        schedconfig_json=[queue("ALPHA_MCORE"), beta],
    )
    decision = decide_one(database, tables)
    assert names(decision) == (["BETA/SCORE"] if accepted else [])
    assert accepted or decision["rejected"]["BETA/SCORE"] == "highmemory"


def test_30_a_partial_copy_on_disk_counts_beside_a_complete_one_on_tape(database: Database) -> None:
    """3 of 4 files are on disk: (8 + 6) / 8 / (1 + 1 / 100). All files are on tape, which does not count as disk."""
    copies = [copy("BETA_TAPE", 4, 4, is_tape=True), replica("BETA", 3, 4)]
    decision = decide_one(database, with_input(dataset_replicas=copies, **tape_at_beta()))
    factors = {candidate["name"]: candidate["factors"]["data_availability"] for candidate in decision["candidates"]}
    assert factors["BETA/MCORE"] == pytest.approx(14 / 8 / 1.01)


@pytest.mark.parametrize(("available", "reason"), [(0, "no_complete_replica"), (1, "")])
def test_31_a_replica_without_any_file_is_not_complete(database: Database, available: int, reason: str) -> None:
    decision = decide_one(database, with_input(7, dataset_replicas=[replica("BETA", available, 7)]))
    assert decision["reason"] == reason


def test_31_a_task_without_any_of_its_input_anywhere_waits(database: Database) -> None:
    tables = {
        "jedi_datasets": [dataset(7, nevents=100), *outputs()],
        "jedi_dataset_contents": input_files(7, GB),
        "dataset_replicas": [replica("ALPHA", 0, 7)],
    }
    (decision,) = broker_tasks(database, task_scenario(**tables))
    assert (decision["outcome"], decision["reason"]) == ("pending", "no_complete_replica")


@pytest.mark.parametrize(("first", "bare"), [("ALPHA_A", True), ("ALPHA_Z", False)])
def test_32_the_first_queue_of_a_nucleus_is_the_first_by_name(database: Database, first: str, bare: bool) -> None:
    """A second queue of ALPHA sorts before or after ALPHA_Q and comes first in the table. Only it is bare."""
    defaults = {table: [dict(row) for row in rows] for table, rows in task_scenario().tables.items()}
    extra = queue(first, params={"bareNucleus": "only"})
    tables = {
        "schedconfig_json": [extra, *defaults["schedconfig_json"]],
        "panda_site": [{"panda_site_name": first, "site_name": "ALPHA"}, *defaults["panda_site"]],
        "panda_ddm_relation": [
            {**relation("ALPHA", "ALPHA_DATADISK"), "panda_site_name": first},
            *defaults["panda_ddm_relation"],
        ],
    }
    (decision,) = broker_tasks(database, task_scenario(**tables))
    assert set(weights(decision)) == ({"BETA"} if bare else {"ALPHA", "BETA"})


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({}, "no_complete_replica"),
        ({"dataset_metadata": [metadata()]}, "no_complete_replica"),
        ({"dataset_metadata": [metadata(rule_groupings=["NONE"])]}, ""),
        ({"dataset_metadata": [metadata(rule_groupings=[])]}, ""),
        ({"dataset_replicas": []}, "unknown_dataset"),
        ({"dataset_replicas": [], "dataset_metadata": [metadata()]}, "no_complete_replica"),
        ({"dataset_replicas": [replica("BETA", 40, 40)]}, ""),
    ],
)
def test_33_a_dataset_without_metadata_must_be_complete(
    database: Database, tables: dict[str, Any], reason: str
) -> None:
    decision = decide_one(database, with_input(40, **{"dataset_replicas": [replica("BETA", 20, 40)], **tables}))
    assert decision["reason"] == reason


@pytest.mark.parametrize(
    ("endpoint_tape", "row_tape", "on_disk"),
    [
        ("Y", False, False),
        ("N", True, True),
        ("Y", None, False),
        ("N", None, True),
        (None, True, False),
        (None, False, True),
        (None, None, True),
    ],
)
def test_34_the_endpoint_decides_whether_a_replica_is_on_tape(
    database: Database, endpoint_tape: str | None, row_tape: bool | None, on_disk: bool
) -> None:
    copies = [copy("BETA_TAPE", 4, 4, is_tape=row_tape)]
    decision = decide_one(database, with_input(dataset_replicas=copies, **tape_at_beta(endpoint_tape)))
    factors = {candidate["name"]: candidate["factors"]["data_availability"] for candidate in decision["candidates"]}
    assert factors["BETA/MCORE"] == pytest.approx(2.0 if on_disk else 1 / 1.04)


@pytest.mark.parametrize(
    ("nfiles", "length", "whole"),
    [(4, None, True), (5, None, False), (5, 4, True), (4, 5, False), (None, None, True), (None, 5, False)],
)
def test_35_the_catalogue_decides_how_many_files_a_dataset_has(
    database: Database, nfiles: int | None, length: int | None, whole: bool
) -> None:
    """Only complete copies of a secondary dataset count; the replica at BETA claims 4 of 4 files."""
    tables = with_secondary(
        [dataset(4), dataset(4, datasetid=SECONDARY, masterid=DATASET, datasetname="mc:mc.more", nfiles=nfiles)],
        [replica("BETA", 4, 4), {**replica("BETA", 4, 4), "name": "mc.more"}],
        dataset_metadata=[metadata("mc.more", length=length)],
    )
    assert (beta_misses(decide_one(database, tables)) == 0) is whole


@pytest.mark.parametrize(
    ("container_length", "parts", "whole"),
    [(None, (2, 2), True), (None, (2, 3), False), (None, (2, None), True), (5, (2, 2), False), (4, (3, 3), True)],
)
def test_35_a_container_has_its_own_length_or_the_sum_of_its_constituents(
    database: Database, container_length: int | None, parts: tuple[int | None, int | None], whole: bool
) -> None:
    """The 4 files counted by JEDI are used if the length of a constituent is unknown."""
    contents = [
        {"scope": "mc", "name": "mc.more/", "child_scope": "mc", "child_name": f"mc.part{at}"} for at in range(2)
    ]
    tables = with_secondary(
        [dataset(4), dataset(4, datasetid=SECONDARY, masterid=DATASET, datasetname="mc:mc.more/")],
        [replica("BETA", 4, 4), *({**replica("BETA", 2, 2), "name": f"mc.part{at}"} for at in range(2))],
        container_contents=contents,
        dataset_metadata=[
            metadata("mc.more/", length=container_length, did_type="CONTAINER"),
            *(metadata(f"mc.part{at}", length=length) for at, length in enumerate(parts)),
        ],
    )
    assert (beta_misses(decide_one(database, tables)) == 0) is whole


def with_secondary(datasets: list[Row], replicas: list[Row], **tables: Any) -> dict[str, Any]:
    """Make a task with a second dataset and four files in each."""
    files = [{**row, "datasetid": SECONDARY, "lfn": f"more.{at}"} for at, row in enumerate(input_files(4, 2 * GB))]
    return with_input(
        jedi_datasets=datasets,
        jedi_dataset_contents=[*input_files(4, 2 * GB), *files],
        dataset_replicas=replicas,
        **tables,
    )


def beta_misses(decision: Row) -> int:
    """Return how many of the 8 files of 2 GB BETA lacks, from (total + available) / total / (1 + missing / 100)."""
    (factor,) = (
        candidate["factors"]["data_availability"]
        for candidate in decision["candidates"]
        if candidate["name"] == "BETA/MCORE"
    )
    return next(missing for missing in range(9) if factor == pytest.approx((2 - missing / 8) / (1 + missing / 100)))


def test_36_an_unlisted_share_is_brokered_by_its_own_jobs(database: Database) -> None:
    """ALPHA runs 9 jobs of the share, and others of a listed share: (9 + 1) / 10; network 2.5."""
    tables = without_input(
        jedi_tasks=[task(gshare="Nobody's")],
        global_shares=[{"name": SHARE, "value": 100, "parent": None}],
        jobsactive4=[*jobs("ALPHA_MCORE", 1000, "Nobody's", running=9), *jobs("ALPHA_MCORE", 2000, running=19)],
    )
    decision = decide_one(database, tables)
    assert names(decision) == ALL
    assert {item["name"]: item["weight"] for item in decision["candidates"]}["ALPHA_MCORE"] == pytest.approx(2.5)


@pytest.mark.parametrize("resource_queue", [False, True])
def test_37_tasks_without_a_work_queue_count_for_the_work_of_their_share(
    database: Database, resource_queue: bool
) -> None:
    """A task without a work queue has 2,000 events of 100 HS06 s at ALPHA, with and without a Resource work queue."""
    working, work = busy(101, "ALPHA", 2000, workqueue_id=None)
    queues = [{"queue_id": 7, "queue_name": "big", "queue_function": "Resource", "vo": "atlas"}]
    grid = task_scenario(
        jedi_tasks=[waiting(), working],
        jedi_datasets=[pseudo_input(), *outputs(), work],
        **({"jedi_work_queue": queues} if resource_queue else {}),
    )
    (decision,) = broker_tasks(database, grid)
    assert weights(decision)["ALPHA"] == pytest.approx(WEIGHTS["ALPHA"] * 50 / 200_000)


def test_37_jobs_of_a_resource_work_queue_count_with_all_labels(database: Database) -> None:
    """The work queue runs 9 jobs with two labels and shares: (9 + 1) / 10; network 2.5."""
    work_queue = {"workqueue_id": 7}
    running = [
        *({**row, **work_queue} for row in jobs("ALPHA_MCORE", 1000, running=4)),
        *({**row, **work_queue, "prodsourcelabel": "test"} for row in jobs("ALPHA_MCORE", 2000, "Other", running=5)),
        *jobs("ALPHA_MCORE", 3000, running=30),
    ]
    queues = [{"queue_id": 7, "queue_name": "big", "queue_function": "Resource", "vo": "atlas"}]
    tables = without_input(jedi_tasks=[task(**work_queue)], jobsactive4=running, jedi_work_queue=queues)
    decision = decide_one(database, tables)
    assert {item["name"]: item["weight"] for item in decision["candidates"]}["ALPHA_MCORE"] == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("name", "master_only", "reason"),
    [("mc:mc.a.b.c.log.d", False, ""), ("mc:mc.more", True, ""), ("mc:mc.more", False, "unknown_dataset")],
)
def test_38_the_dry_run_looks_up_no_files(database: Database, name: str, master_only: bool, reason: str) -> None:
    """The unknown secondary dataset is a log, is ignored by the task, or is missed by the data look-up."""
    secondary = dataset(5, datasetid=SECONDARY, masterid=DATASET, datasetname=name)
    files = [{**row, "datasetid": SECONDARY, "lfn": f"more.{at}"} for at, row in enumerate(input_files(5, GB))]
    parameters = [{"jeditaskid": TASK, "taskparams": '{"taskBrokerOnMaster": true}'}]
    grid = task_scenario(
        jedi_datasets=[dataset(5, nevents=100), secondary, *outputs()],
        jedi_dataset_contents=[*input_files(5, GB), *files],
        dataset_replicas=[replica("ALPHA", 5, 5)],
        **({"jedi_taskparams": parameters} if master_only else {}),
    )
    (decision,) = broker_tasks(database, grid)
    assert decision["reason"] == reason


def test_38_outside_the_dry_run_an_unknown_secondary_makes_the_chunk_wait(database: Database) -> None:
    tables = with_secondary(
        [dataset(4), dataset(4, datasetid=SECONDARY, masterid=DATASET, datasetname="mc:mc.more")],
        [replica("BETA", 4, 4)],
    )
    assert decide_one(database, tables)["reason"] == "unknown_dataset"


def test_39_a_queue_not_for_production_is_rejected_as_such(database: Database) -> None:
    tables = without_input(
        jedi_tasks=[task(site="ALPHA_MCORE,GAMMA_MCORE,GONE")],
        schedconfig_json=[queue("ALPHA_MCORE"), queue("GAMMA_MCORE", type="analysis")],
    )
    decision = decide_one(database, tables)
    assert names(decision) == ["ALPHA_MCORE"]
    assert decision["rejected"] == {"GAMMA_MCORE": "not_production", "GONE": "unknown_queue"}


@pytest.mark.parametrize(
    ("name", "code"), [("NQUEUED_SAT_CAP", "link_unusable"), ("NQUEUED_NUC_CAP_FOR_JOBS", "links_full")]
)
@pytest.mark.parametrize("links", [[], [("BETA", 0)], [("BETA", 1)]])
def test_40_a_cap_of_0_closes_what_it_limits(
    database: Database, name: str, code: str, links: list[tuple[str, int]]
) -> None:
    rows = [
        {"src": source, "dst": "ALPHA", "key": "Production Output_queued", "value": files, "ts": FRESH}
        for source, files in links
    ]
    decision = decide_one(database, without_input(config=[key(name, 0)], network_matrix_kv=rows))
    assert names(decision) == []
    assert {decision["rejected"][queue] for queue in ALL} == {code}


def test_40_a_cap_of_0_closes_even_if_all_link_figures_are_stale(database: Database) -> None:
    old = {"src": "BETA", "dst": "ALPHA", "key": "Production Output_queued", "value": 5, "ts": "2026-08-01T01:00:00"}
    tables = without_input(config=[key("NQUEUED_SAT_CAP", 0)], network_matrix_kv=[old])
    record, (decision,) = one_cycle(database, scenario(**tables))
    assert any("links" in note for note in record.notes)
    assert {decision["rejected"][queue] for queue in ALL} == {"link_unusable"}


@pytest.mark.parametrize("cap", [0, 1])
def test_40_a_cap_of_0_closes_every_nucleus(database: Database, cap: int) -> None:
    grid = task_scenario(config=[key("NQUEUED_NUC_CAP", cap, "taskbrokerage", "")])
    (decision,) = broker_tasks(database, grid)
    assert set(weights(decision)) == (set() if cap == 0 else {"ALPHA", "BETA"})
    assert cap or decision["rejected"] == {"ALPHA": "transfer_backlog", "BETA": "transfer_backlog"}


@pytest.mark.parametrize(("cap", "outcome"), [(0, "brokered"), (5, "pending")])
def test_40_keys_for_which_0_means_the_default_keep_that_meaning(database: Database, cap: int, outcome: str) -> None:
    """At every queue 15 jobs wait, fewer than 20 and more than 5."""
    waiting_jobs = [
        row
        for at, name in enumerate(("ALPHA_MCORE", "BETA", "GAMMA_MCORE"))
        for row in jobs(name, 1000 * at, activated=15)
    ]
    tables = without_input(config=[key("NQUEUELIMITSITE_" + SHARE, cap)], jobsactive4=waiting_jobs)
    assert decide_one(database, tables)["outcome"] == outcome


@pytest.mark.parametrize(
    ("catchall", "local_only"),
    [
        ("use_only_local_data", True),
        ("a,use_only_local_data=False", True),
        (" use_only_local_dataXYZ ,b", True),
        ("not_use_only_local_data", False),
        ("", False),
    ],
)
def test_41_an_item_beginning_with_the_flag_name_sets_it(database: Database, catchall: str, local_only: bool) -> None:
    gamma = queue("GAMMA_MCORE", catchall=catchall)
    decision = decide_one(database, with_input(schedconfig_json=[queue("ALPHA_MCORE"), gamma]))
    assert names(decision) == (["ALPHA_MCORE"] if local_only else ["ALPHA_MCORE", "GAMMA_MCORE"])
    assert decision["rejected"].get("GAMMA_MCORE") == ("non_local" if local_only else None)
