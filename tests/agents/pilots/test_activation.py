"""Which jobs are activated, and which wait for their input."""

from __future__ import annotations

from typing import Any

import pytest

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import run_cycle
from broker.pilots.statements.activation import ActivationSplit, write_sorted
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.scenarios.load_dump import load
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms
from tests.brokerages import small_grid
from tests.brokerages.small_grid import DATASET, TASK, Row
from tests.pools.pool_grid import at, emptied, execute, rows

FILES = 4


@pytest.fixture
def database(shared_database: Database) -> Database:
    return emptied(shared_database)


def job(pandaid: int, queue: str | None, status: str = "defined") -> Row:
    return {
        "pandaid": pandaid, "jeditaskid": TASK, "jobstatus": status, "computingsite": queue, "vo": "atlas",
        "currentpriority": 5, "gshare": "S", "modificationtime": small_grid.FRESH,
    }  # fmt: skip


def file_of(pandaid: int, number: int, kind: str = "input", **columns: Any) -> Row:
    """The input file of a job: the ``number``-th of the dataset."""
    return {
        "row_id": pandaid * 100 + number, "pandaid": pandaid, "lfn": f"f{number}", "scope": "mc", "type": kind,
        "status": "ready", "jeditaskid": TASK, "datasetid": DATASET, "fileid": number, "dataset": "mc:mc.input",
        **columns,
    }  # fmt: skip


def scenario(
    queue: str = "BETA", replicas: list[Row] | None = None, file_replicas: list[Row] | None = None, **tables: list[Row]
) -> small_grid.Scenario:
    """Four jobs at a queue, each with one file of the dataset of the task."""
    numbers = range(1, FILES + 1)
    contents = [
        {
            "jeditaskid": TASK,
            "datasetid": DATASET,
            "fileid": number,
            "lfn": f"f{number}",
            "scope": "mc",
            "status": "running",
        }
        for number in numbers
    ]
    defaults = {
        "jedi_tasks": [small_grid.task()],
        "jedi_datasets": [small_grid.dataset(FILES)],
        "jedi_dataset_contents": contents,
        "jobsdefined4": [job(number, queue) for number in numbers],
        "filestable4": [file_of(number, number) for number in numbers],
        "dataset_replicas": replicas or [],
        "file_replicas": file_replicas or [],
    }
    return small_grid.scenario(**{**defaults, **tables})


def cycle(database: Database, **request: Any) -> tuple[RunRecord, dict[int, str]]:
    """One cycle: its record, and the status that it emitted for each job."""
    agent, objects = registry.make("activation", request.pop("options", {}), ProcessSettings()), list[dict[str, Any]]()
    cycle_request = CycleRequest(emit=objects.append, **request)
    with database.begin() as connection:
        lease = leases.acquire(connection, "activation", "test", LeaseTerms()).lease if cycle_request.writes else None
    record = run_cycle(agent, CycleContext(database, at(0), 1, 60.0, cycle_request, lease=lease))
    if lease is not None:
        with database.begin() as connection:
            leases.release(connection, lease)
    assert record.outcome == "done", record.error
    return record, {item["pandaid"]: item["jobstatus"] for item in objects}


def ready_jobs(database: Database, loaded: small_grid.Scenario) -> list[int]:
    """The jobs that would be activated."""
    load(database, loaded, replace=True)
    _, status_by_job = cycle(database, dry_run=True)
    return sorted(number for number, status in status_by_job.items() if status == "activated")


def replica(site: str, available: int, total: int = FILES, **columns: Any) -> Row:
    return {**small_grid.replica(site, available, total), **columns}


def file_replica(number: int, site: str) -> Row:
    return {"scope": "mc", "name": f"f{number}", "rse": f"{site}_DATADISK"}


@pytest.mark.parametrize(
    ("replicas", "files", "expected"),
    [
        ([replica("BETA", 4)], [], [1, 2, 3, 4]),
        # another site's storage is not read from here
        ([replica("GAMMA", 4)], [], []),
        ([], [], []),
        # the first files by number are available
        ([replica("BETA", 3)], [], [1, 2, 3]),
        ([replica("BETA", 3), replica("GAMMA", 4)], [], [1, 2, 3]),
        ([replica("BETA", 0)], [], []),
        # a complete copy of fewer files than the dataset has by now
        ([replica("BETA", 2, 2)], [], [1, 2]),
        # a file with its own replicas is only where these are
        ([replica("BETA", 3)], [file_replica(1, "GAMMA"), file_replica(4, "BETA")], [2, 3, 4]),
        ([], [file_replica(2, "BETA")], [2]),
        ([replica("BETA", 4)], [file_replica(1, "GAMMA")], [1, 2, 3, 4]),
        ([replica("BETA", 0, state="VP")], [], [1, 2, 3, 4]),
        # the endpoint, not the row of the replica, says what is on tape
        ([replica("BETA", 4, is_tape=True)], [], [1, 2, 3, 4]),
    ],
)
def test_jobs_are_ready_when_their_input_is_available(
    database: Database, replicas: list[Row], files: list[Row], expected: list[int]
) -> None:
    assert ready_jobs(database, scenario(replicas=replicas, file_replicas=files)) == expected


def test_input_on_tape_is_not_available(database: Database) -> None:
    loaded = scenario(replicas=[replica("BETA", 4)])
    endpoints = [{**row, "is_tape": "Y"} for row in loaded.tables["ddm_endpoint"]]
    assert ready_jobs(database, scenario(replicas=[replica("BETA", 4)], ddm_endpoint=endpoints)) == []


def test_jobs_without_real_input_are_ready(database: Database) -> None:
    files = [
        file_of(1, 1, kind="pseudo_input"),
        file_of(2, 1, datasetid=77, dataset="pseudo_dataset"),
        file_of(3, 1, kind="log"),
    ]
    assert ready_jobs(database, scenario(filestable4=files)) == [1, 2, 3, 4]


def test_a_job_waits_for_a_file_of_an_unknown_dataset(database: Database) -> None:
    files = [file_of(1, 1, jeditaskid=None, datasetid=None, dataset=None)]
    assert ready_jobs(database, scenario(filestable4=files, replicas=[replica("BETA", 4)])) == [2, 3, 4]


@pytest.mark.parametrize(
    ("queue_wan", "splitrule", "expected"),
    [(True, "NF=1,IW=1", [1, 2, 3]), (True, "NF=1", []), (False, "NF=1,IW=1", []), (True, "XIW=1", [])],
)
def test_reading_over_wan(database: Database, queue_wan: bool, splitrule: str, expected: list[int]) -> None:
    queue = small_grid.queue("BETA", direct_access_lan=True, direct_access_wan=queue_wan)
    loaded = scenario(
        replicas=[replica("GAMMA", 3)], schedconfig_json=[queue], jedi_tasks=[small_grid.task(splitrule=splitrule)]
    )
    assert ready_jobs(database, loaded) == expected


CLOSED = [
    ("is_tape = 'Y'", False, []),
    ("is_tape = 'Y'", True, []),
    ("blacklisted_read = 'Y'", True, []),
    ('detailed_status = \'{"read_wan": "OFF"}\'', True, []),
    ('detailed_status = \'{"read_wan": "OFF"}\'', False, [1, 2]),
    ('detailed_status = \'{"read_wan": "ON"}\', is_tape = NULL', True, [1, 2]),
]


@pytest.mark.parametrize(("state", "over_wan", "expected"), CLOSED)
def test_tape_and_endpoints_that_are_closed_to_other_sites(
    database: Database, state: str, over_wan: bool, expected: list[int]
) -> None:
    """Job 1 reads a file with its own replica, job 2 one of the first files of the dataset."""
    site = "GAMMA" if over_wan else "BETA"
    queue = small_grid.queue("BETA", direct_access_lan=True, direct_access_wan=over_wan)
    loaded = scenario(
        replicas=[replica(site, 2, is_tape=None)],
        file_replicas=[file_replica(1, site)],
        schedconfig_json=[queue],
        jedi_tasks=[small_grid.task(splitrule="NF=1,IW=1")],
    )
    load(database, loaded, replace=True)
    execute(database, f"UPDATE doma_panda.ddm_endpoint SET {state} WHERE site_name = :site", site=site)
    status_by_job = cycle(database, dry_run=True)[1]
    assert sorted(number for number, status in status_by_job.items() if status == "activated") == expected


def test_jobs_wait_while_their_endpoints_cannot_be_read(database: Database) -> None:
    loaded = scenario(replicas=[replica("BETA", 4)])
    load(database, loaded, replace=True)
    execute(database, "UPDATE doma_panda.ddm_endpoint SET blacklisted_read = 'Y'")
    assert cycle(database, dry_run=True)[1] == dict.fromkeys(range(1, 5), "assigned")
    execute(database, "UPDATE doma_panda.ddm_endpoint SET blacklisted_read = NULL")
    execute(database, "UPDATE doma_panda.panda_ddm_relation SET roles = 'write_lan'")
    assert "activated" not in cycle(database, dry_run=True)[1].values()


def test_jobs_move_and_wait_until_their_input_comes(database: Database) -> None:
    load(database, scenario(replicas=[replica("BETA", 3)]), replace=True)
    before = rows(database, "SELECT * FROM doma_panda.jobsdefined4 ORDER BY pandaid")
    cycle(database, dry_run=True)
    assert rows(database, "SELECT * FROM doma_panda.jobsdefined4 ORDER BY pandaid") == before
    record, _ = cycle(database, options={"jobs_of_a_batch": 2})
    assert record.counts == {
        "ready": 3, "waiting_for_input": 1, "activated": 3, "assigned": 1, "queued": 3, "left": 0, "new_queues": 1,
        "dropped_queues": 0, "task_queues": 1, "limits": 0, "limits_corrected": 0,
    }  # fmt: skip
    active = rows(
        database, "SELECT pandaid, jobstatus, computingsite, gshare, statechangetime FROM doma_panda.jobsactive4"
    )
    assert sorted(active) == [(n, "activated", "BETA", "S", at(0).replace(tzinfo=None)) for n in (1, 2, 3)]
    assert rows(database, "SELECT pandaid, jobstatus FROM doma_panda.jobsdefined4") == [(4, "assigned")]
    log = "SELECT pandaid, jobstatus, computingsite, modiftime_extended FROM doma_panda.jobs_statuslog ORDER BY 1, 2"
    expected_log = [(1, "activated"), (2, "activated"), (3, "activated"), (4, "assigned")]
    assert rows(database, log) == [(job, status, "BETA", at(0).replace(tzinfo=None)) for job, status in expected_log]
    assert cycle(database)[0].counts["assigned"] == 0  # the job is assigned already
    execute(database, "UPDATE broker.dataset_replicas SET available_files = 4")
    record, _ = cycle(database)
    assert (record.counts["activated"], record.counts["queued"]) == (1, 1)
    assert rows(database, "SELECT count(*) FROM doma_panda.jobsdefined4") == [(0,)]
    assert rows(database, "SELECT count(*), min(weight) FROM broker.task_queues") == [(1, 1000.0)]


MEANWHILE = [
    ("jobstatus = 'closed'", "closed"),
    ("jobstatus = 'cancelled'", "cancelled"),
    ("jobstatus = 'pending'", "pending"),
    ("computingsite = 'GAMMA'", "defined"),
    ("computingsite = NULL", "defined"),
]


@pytest.mark.parametrize("is_ready", [True, False])
@pytest.mark.parametrize(("change", "status"), MEANWHILE)
def test_a_job_that_moved_or_ended_after_it_was_read_is_left_unchanged(
    database: Database, change: str, status: str, is_ready: bool
) -> None:
    load(database, scenario(), replace=True)
    jobs_read = ((1, "BETA"), (2, "BETA"))
    execute(database, f"UPDATE doma_panda.jobsdefined4 SET {change} WHERE pandaid = 1")
    before = rows(database, "SELECT job::text FROM doma_panda.jobsdefined4 AS job WHERE pandaid = 1")
    with database.begin() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        sorted_jobs = ActivationSplit(jobs_read, ()) if is_ready else ActivationSplit((), jobs_read)
        counts = write_sorted(connection, catalogue, sorted_jobs, at(0))
    assert counts == {"activated": int(is_ready), "assigned": int(not is_ready)}  # job 2, which has not changed
    assert rows(database, "SELECT job::text FROM doma_panda.jobsdefined4 AS job WHERE pandaid = 1") == before
    assert rows(database, "SELECT jobstatus FROM doma_panda.jobsdefined4 WHERE pandaid = 1") == [(status,)]
    assert rows(database, "SELECT pandaid FROM doma_panda.jobsactive4") == ([(2,)] if is_ready else [])
    assert rows(database, "SELECT pandaid FROM doma_panda.jobs_statuslog") == [(2,)]


def test_jobs_in_other_states_stay(database: Database) -> None:
    jobs = [job(1, "BETA", "pending"), job(2, "BETA", "throttled"), job(3, None), job(4, "BETA", "assigned")]
    assert ready_jobs(database, scenario(jobsdefined4=jobs, replicas=[replica("BETA", 4)])) == [4]


def test_beside_panda_nothing_is_activated(database: Database) -> None:
    load(database, scenario(replicas=[replica("BETA", 4)]), replace=True)
    agent = registry.make("activation", {}, ProcessSettings(job_generation="jedi"))
    record = run_cycle(agent, CycleContext(database, at(0), 1, 60.0, CycleRequest(dry_run=True)))
    assert record.notes == ("PanDA activates its jobs itself",)


def test_shares_are_tuned(database: Database) -> None:
    jobs = [{**job(number, "BETA"), "gshare": f"S{number}", "jobstatus": "activated"} for number in (1, 2)]
    share = {"app": "pandaserver", "component": "matcher", "key": "MATCH_SHARE_S2", "value": "250", "type": "int"}
    load(database, small_grid.scenario(jobsactive4=jobs, config=[{**share, "vo": "atlas"}]), replace=True)
    cycle(database)
    assert rows(database, "SELECT share, weight FROM broker.task_queues ORDER BY 1") == [("S1", 1000.0), ("S2", 250.0)]


@pytest.mark.parametrize("key", [True, False])
def test_jobs_are_held_from_nodes_in_the_transaction_that_lets_them_wait(database: Database, key: bool) -> None:
    execute(database, "TRUNCATE broker.failed_inputs, broker.queue_health")
    loaded = scenario(replicas=[replica("BETA", 4)])
    contents = [{**row, "pandaid": row["fileid"]} for row in loaded.tables["jedi_dataset_contents"]]
    load(database, scenario(replicas=[replica("BETA", 4)], jedi_dataset_contents=contents), replace=True)
    for node in ("bad", "good"):
        execute(
            database,
            "INSERT INTO broker.queue_health (queue, kind, node, state, statistic, ended, failed, tasks, evidence,"
            " times, memory_ended, memory_failed, last_task, run, probes_ended, probes_finished)"
            " VALUES ('BETA', 'production', :node, 'healthy', 0, 1, 0, '{}', '{}', 0, 0, 0, 0, 0, 0, 0)",
            node=node,
        )
    statement = "INSERT INTO broker.failed_inputs VALUES (:task, :dataset, 2, 'ALPHA', 'bad', :at)"
    execute(database, statement, task=TASK, dataset=DATASET, at=at(-60))
    execute(
        database,
        "INSERT INTO doma_panda.config (app, component, key, vo, value, type, descr)"
        " VALUES ('jedi', 'jobbroker', 'LEARNED_RETRY_OTHER_NODE', 'atlas', :value, 'boolean', '-')",
        value=str(key),
    )
    cycle(database)
    execute(database, "DELETE FROM doma_panda.config")
    held_jobs = [tuple(row) for row in rows(database, "SELECT * FROM broker.held_jobs")]
    assert held_jobs == ([(2, "bad", "BETA", at(3540))] if key else [])
