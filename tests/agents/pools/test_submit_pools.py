"""The agents that keep SubmitPools, and the brokerage of a task with requirements."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agents.pools.submit_pool_refresh import SubmitPoolRefreshOptions
from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ConfigurationError, ProcessSettings
from agents.service.cycle import run_cycle
from broker.pools.statements.pool_cleanup import remove_unused
from broker.pools.statements.pool_registration import TaskRequirements, attach, register
from broker.pools.statements.resource_versions import ResourceText, publish
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms
from tests.brokerages import small_grid
from tests.pools.pool_grid import (
    PLACES,
    add_task,
    at,
    emptied,
    execute,
    mapping_of,
    pool_for,
    publish_places,
    rows,
)


@pytest.fixture
def database(shared_database: Database) -> Database:
    return emptied(shared_database)


def run(
    database: Database, name: str, seconds: float, options: dict[str, Any] | None = None, **request: Any
) -> tuple[RunRecord, list[dict[str, Any]]]:
    """One cycle of an agent: its record and the objects that it emitted."""
    agent, objects = registry.make(name, options or {}, ProcessSettings()), list[dict[str, Any]]()
    cycle_request = CycleRequest(emit=objects.append, **request)
    with database.begin() as connection:
        lease = (
            leases.acquire(connection, name, "test", LeaseTerms(length_s=60.0)).lease if cycle_request.writes else None
        )
    record = run_cycle(agent, CycleContext(database, at(seconds), 1, 60.0, cycle_request, lease=lease))
    if lease is not None:
        with database.begin() as connection:
            leases.release(connection, lease)
    return record, objects


def refresh(database: Database, seconds: float, **values: Any) -> RunRecord:
    return run(database, "submit_pool_refresh", seconds, **values)[0]


def clean_up(database: Database, seconds: float) -> int:
    return run(database, "submit_pool_cleanup", seconds)[0].counts["removed"]


def register_pool(database: Database, seconds: float = 0, **requirements: Any) -> str:
    with database.begin() as connection:
        return register(connection, pool_for(**requirements), at(seconds)).pool_id


def test_without_resources_and_pools_there_is_nothing_to_do(database: Database) -> None:
    assert refresh(database, 0).outcome == "done"
    assert clean_up(database, 9999) == 0


def test_the_mapping_is_refreshed_every_period_and_at_once_when_resources_change(database: Database) -> None:
    publish_places(database)
    register_pool(database, Memory=1)
    assert [refresh(database, second).counts["refreshed"] for second in (1, 30, 900, 901, 902)] == [1, 0, 0, 1, 0]
    publish_places(database, {"SITE_A": PLACES["SITE_A"]}, 905)
    record, objects = run(database, "submit_pool_refresh", 930)
    assert (record.counts["refreshed"], record.counts["removed"], objects[0]["queues"]) == (1, 1, 2)
    assert refresh(database, 931).counts["refreshed"] == 0
    assert refresh(database, 932, by_hand=True).counts["refreshed"] == 1


def test_a_dry_run_writes_nothing(database: Database) -> None:
    publish_places(database)
    pool = register_pool(database, Memory=1)
    before = mapping_of(database)
    publish_places(database, {"SITE_A": PLACES["SITE_A"]}, 5)
    record, objects = run(database, "submit_pool_refresh", 10, dry_run=True)
    assert (record.outcome, objects) == ("done", [{"pool": pool, "queues": 2, "queues_before": 3}])
    assert mapping_of(database) == before


def test_a_source_that_fails_changes_nothing_and_raises_the_alarm_in_time(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "sites.json"
    options = {"resources": "file", "file": str(file)}
    file.write_text(json.dumps({"resources": PLACES}), encoding="utf-8")
    register_pool(database, Memory=1)
    assert refresh(database, 0, options=options).counts["added"] == 3
    before = rows(database, "SELECT * FROM broker.submit_pools"), mapping_of(database)
    for second, content in ((900, "{"), (2699.9, '{"SITE_A": 3}'), (2700, "[]")):
        file.write_text(content, encoding="utf-8")
        record = refresh(database, second, options=options)
        assert record.outcome == "refused"
        assert ("ALARM" in str(record.error)) is (second >= 2700)
        assert (rows(database, "SELECT * FROM broker.submit_pools"), mapping_of(database)) == before
    file.unlink()
    assert "No such file" in str(refresh(database, 3000, options=options).error)
    assert mapping_of(database) == before[1]


def test_pools_without_any_resources_refuse_the_refresh(database: Database) -> None:
    register_pool(database, Memory=1)
    assert refresh(database, 10).outcome == "refused"


def test_resources_from_the_queues_of_panda(database: Database) -> None:
    load(database, small_grid.scenario(), replace=True)
    pool = register_pool(database, Memory=16000)
    assert refresh(database, 10, options={"resources": "panda"}).outcome == "done"
    queues = rows(database, "SELECT site, ce, queue FROM broker.submit_pool_queues WHERE pool_id = :p", p=pool)
    assert ("BETA", "BETA", "BETA") in queues and len(queues) == len(small_grid.QUEUES)
    execute(database, "TRUNCATE doma_panda.schedconfig_json")
    assert refresh(database, 20, options={"resources": "panda"}).outcome == "refused"


def test_options_are_checked() -> None:
    with pytest.raises(ValidationError):
        SubmitPoolRefreshOptions(resources="file")
    with pytest.raises(ConfigurationError):
        registry.make("submit_pool_cleanup", {"grace_s": 600}, ProcessSettings())


def test_a_pool_is_removed_when_it_was_unused_for_the_grace_period(database: Database) -> None:
    register_pool(database, 100, Memory=1)
    assert [clean_up(database, second) for second in (3600, 3699, 3700, 3701)] == [0, 0, 1, 0]


def test_a_refresh_does_not_count_as_use(database: Database) -> None:
    publish_places(database)
    register_pool(database, 100, Memory=1)
    for second in (900, 1800, 2700, 3600):
        refresh(database, second)
    assert clean_up(database, 3700) == 1
    assert mapping_of(database) == []


def test_a_pool_is_kept_for_a_task_that_goes_on(database: Database) -> None:
    register_pool(database, Memory=1)
    with database.begin() as connection:
        attach(connection, 1, pool_for(Memory=1), TaskRequirements())
    for status, removed in (("running", 0), ("pending", 0), ("done", 1)):
        add_task(database, 1, status)
        assert clean_up(database, 9000) == removed
    # the task runs again: its pool is restored with the same identifier and its queues
    publish_places(database)
    add_task(database, 1, "running")
    assert refresh(database, 9100).counts["restored"] == 1
    assert rows(database, "SELECT pool_id, queue_count FROM broker.submit_pools") == [(pool_for(Memory=1).pool_id, 3)]


def test_requirements_are_forgotten_with_their_tasks(database: Database) -> None:
    register_pool(database, Memory=1)
    add_task(database, 1)
    with database.begin() as connection:
        for task in (1, 2):
            attach(connection, task, pool_for(Memory=1), TaskRequirements())
    assert run(database, "submit_pool_cleanup", 9000)[0].counts == {"removed": 0, "forgotten": 1}
    assert rows(database, "SELECT jeditaskid FROM broker.task_requirements") == [(1,)]


def waits_for_a_lock(database: Database) -> bool:
    with database.read_snapshot() as connection:
        return bool(connection.exec_driver_sql("SELECT count(*) FROM pg_locks WHERE NOT granted").scalar())


def start(work: Callable[[], Any], database: Database) -> Future[Any]:
    """Start ``work`` in a thread and return once it waits for a lock."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    pacer = threading.Event()
    while not (future.done() or waits_for_a_lock(database)):
        pacer.wait(0.01)
    assert not future.done()
    return future


def test_a_registration_that_comes_first_wins_over_the_clean_up(database: Database) -> None:
    pool = register_pool(database, 100, Memory=1)
    with database.begin() as connection:
        register(connection, pool_for(Memory=1), at(3700))
        cleaning = start(lambda: clean_up(database, 3700), database)
    assert cleaning.result(10) == 0
    assert rows(database, "SELECT pool_id FROM broker.submit_pools") == [(pool,)]


def test_a_clean_up_that_comes_first_is_followed_by_a_registration_that_makes_the_pool_again(
    database: Database,
) -> None:
    publish_places(database)
    pool = register_pool(database, 100, Memory=1)
    with database.begin() as connection:
        assert remove_unused(connection, database.names, at(3700), timedelta(hours=1)) == [pool]
        registering = start(lambda: register_pool(database, 3700, Memory=1), database)
    assert registering.result(10) == pool
    assert rows(database, "SELECT created_at, queue_count FROM broker.submit_pools") == [(at(3700), 3)]


def decision_of(database: Database, **request: Any) -> dict[str, Any]:
    """The decision of the production brokerage about the only task."""
    record, objects = small_grid.next_cycle(database, independent=True, **request)
    assert record.outcome == "done", record.error
    return objects[0]


def test_work_with_requirements_goes_only_to_queues_of_its_pool(database: Database) -> None:
    places = {
        "BETA": {"ces": {"ce": {"queues": {"BETA": {"params": {"Disk": "x"}}}}}},
        "GAMMA": {"ces": {"ce": {"queues": {"q": {"params": {"Disk": "x", "PandaQueue": "GAMMA_MCORE"}}}}}},
    }
    work: dict[str, Any] = {
        "jedi_tasks": [small_grid.task()],
        "jedi_datasets": [small_grid.dataset(2)],
        "jedi_dataset_contents": small_grid.input_files(2, small_grid.GB),
        "dataset_replicas": [small_grid.replica(site, 2, 2) for site in ("ALPHA", "BETA", "GAMMA")],
    }
    load(database, small_grid.scenario(**work), replace=True)
    text = ResourceText("test", "json", json.dumps(places))
    with database.begin() as connection:
        publish(connection, text, small_grid.NOW)
        register(connection, pool_for("atlas", Disk="x"), small_grid.NOW)
        attach(connection, small_grid.TASK, pool_for("atlas", Disk="x"), TaskRequirements())
    free = decision_of(database)
    assert {candidate["name"].split("/")[0] for candidate in free["candidates"]} == {"BETA", "GAMMA_MCORE"}
    assert free["rejected"]["ALPHA_MCORE"] == "submit_pool"
    with database.begin() as connection:
        attach(connection, small_grid.TASK, pool_for("atlas", Disk="x"), TaskRequirements(banned_sites=["GAMMA"]))
    assert decision_of(database)["rejected"]["GAMMA_MCORE"] == "asked_site"
    # the mapping is too old: the eligible queues are unknown
    execute(database, "UPDATE broker.submit_pools SET refreshed_at = refreshed_at - interval '2701 s'")
    unknown = decision_of(database)
    assert (unknown["outcome"], unknown["rejected"]["ALPHA_MCORE"]) == ("pending", "unknown_asked_site")
    with database.begin() as connection:
        attach(connection, small_grid.TASK, None, TaskRequirements())
    assert decision_of(database)["outcome"] == "brokered"
