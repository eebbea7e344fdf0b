"""Pilots name only a PanDA queue: it determines their place and so their SubmitPools."""

from __future__ import annotations

import pytest

from broker.pilots.routes.panda.app import pilot_app
from broker.pilots.statements.job_giving import parameters_of
from broker.pools.statements.pool_registration import TaskRequirements, attach, register
from broker.store.connection.database import Database
from tests.pilots.panda.client import Client
from tests.pilots.panda.pilot_grid import NOW, content, dataset, fill, follow, job, post, queue, record
from tests.pools.pool_grid import emptied, pool_for, publish_places, refresh


@pytest.mark.parametrize(
    ("memory_mb", "queue_name", "gets"),
    [(3000, "QUEUE_B", True), (5000, "QUEUE_B", False), (1000, "QUEUE_A", False), (None, "QUEUE_A", True)],
)
def test_a_queue_at_one_place_presents_its_pools(
    shared_database: Database, memory_mb: int | None, queue_name: str, gets: bool
) -> None:
    fill(shared_database, [], schedconfig_json=[queue(queue_name)])
    publish_places(emptied(shared_database))
    fill(shared_database, [job(5, computingsite=queue_name, vo="lhcb")], schedconfig_json=[queue(queue_name)])
    with shared_database.begin() as connection:
        if memory_mb is not None:
            pool = pool_for(Memory=memory_mb)
            register(connection, pool, NOW)
            attach(connection, 1, pool, TaskRequirements())
        connection.exec_driver_sql("DELETE FROM broker.waiting_jobs; DELETE FROM broker.task_queues")
    refresh(shared_database, 0)
    follow(shared_database)
    # ids of task queues restart in emptied tables: a server with cached ids cannot be used
    client = Client(pilot_app(shared_database))
    assert post(client, "getJob", siteName=queue_name)["StatusCode"] == (0 if gets else 20)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ('{"arguments": "-n 4"}', "-n 4"),
        ('{"arguments": null}', ""),
        ('{"jobParameters": [{"type": "constant", "value": "-a"}, {"value": "${IN}"}, {"value": 1}, 2]}', "-a ${IN}"),
        ('{"jobParameters": {}}', ""),
        ("[]", ""),
        ("{", ""),
        ("[" * 5000, ""),
        (None, ""),
    ],
)
def test_parameters_of_tasks(document: str | None, expected: str) -> None:
    assert parameters_of(document) == expected


def test_each_job_has_its_own_arguments(shared_database: Database, client: Client) -> None:
    fill(
        shared_database,
        [job(5), job(6)],
        jedi_taskparams=[{"jeditaskid": 1, "taskparams": '{"arguments": "of the task"}'}],
        jedi_datasets=[dataset(type="pseudo_input")],
        jedi_dataset_contents=[content(1, 5, type="pseudo_input"), content(2, 6, type="pseudo_input")],
        filestable4=[record(5, 1, type="pseudo_input"), record(6, 2, type="pseudo_input")],
    )
    with shared_database.begin() as connection:
        connection.exec_driver_sql("INSERT INTO broker.file_arguments VALUES (1, 1, 'of its own')")
    arguments = [post(client, "getJob", siteName="Q")["jobPars"] for _ in range(2)]
    assert arguments == ["of its own", "of the task"]
