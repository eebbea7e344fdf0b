"""Tasks with input in Rucio: datasets, containers, files added later, and an unavailable server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agents.feeds.rucio_client import RucioClient
from agents.tasks.input_feeding import feed_tasks
from agents.tasks.input_sources import CatalogueUnavailable, InputSources
from broker.store.connection.database import Database
from broker.tasks.answers.task_submission import task_submission
from broker.tasks.model.refine import Submitter
from broker.tasks.model.values import BadParameter
from tests.rucio.conftest import RucioServer
from tests.tasks.parameters import INPUT, parameters

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


@pytest.fixture
def sources(rucio: RucioServer) -> InputSources:
    rucio.client()  # sets RUCIO_CONFIG
    return InputSources(lambda: RucioClient(30.0))


def parameters_reading(dataset: str, **overrides: Any) -> dict[str, Any]:
    input_options = {key: overrides.pop(key) for key in ("expand", "include") if key in overrides}
    return parameters({**INPUT, "dataset": f"mc23:{dataset}", **input_options}, nFilesPerJob=2, **overrides)


def submit(database: Database, sources: InputSources, task_parameters: dict[str, Any]) -> tuple[int, int]:
    submitted = task_submission(task_parameters, Submitter(), sources=sources).make(database, NOW)
    return submitted.jeditaskid, submitted.jobs


def inputs(database: Database, task: int) -> list[tuple[Any, ...]]:
    query = (
        "SELECT datasetname, containername, nfiles, state FROM doma_panda.jedi_datasets"
        " WHERE jeditaskid = :task AND type = 'input' ORDER BY datasetid"
    )
    with database.begin() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query), {"task": task})]


def status(database: Database, task: int) -> Any:
    query = sa.text("SELECT status FROM doma_panda.jedi_tasks WHERE jeditaskid = :task")
    with database.begin() as connection:
        return connection.scalar(query, {"task": task})


def test_a_task_gets_the_files_that_rucio_lists(rucio: RucioServer, sources: InputSources, database: Database) -> None:
    rucio.add_endpoint("TASKS1")
    rucio.add_dataset("mc23.tasks.one", 5, {"TASKS1": 5})
    task, jobs = submit(database, sources, parameters_reading("mc23.tasks.one"))
    assert (jobs, inputs(database, task)) == (3, [("mc23:mc23.tasks.one", None, 5, "closed")])
    query = "SELECT scope, fsize, checksum FROM doma_panda.jedi_dataset_contents WHERE jeditaskid = :task"
    with database.begin() as connection:
        files = {tuple(row) for row in connection.execute(sa.text(query), {"task": task})}
    assert files == {("mc23", 100, "ad:0cc737eb")}


def test_a_container_is_expanded_to_its_datasets(rucio: RucioServer, sources: InputSources, database: Database) -> None:
    rucio.add_endpoint("TASKS2")
    rucio.add_dataset("mc23.tasks.left", 3, {"TASKS2": 3})
    rucio.add_dataset("mc23.tasks.right", 2, {"TASKS2": 2})
    client = rucio.client()
    client.add_container("mc23", "mc23.tasks.box")
    parts = [{"scope": "mc23", "name": f"mc23.tasks.{name}"} for name in ("left", "right")]
    client.attach_dids("mc23", "mc23.tasks.box", parts)
    task, jobs = submit(database, sources, parameters_reading("mc23.tasks.box/", expand=True))
    assert jobs == 3, "two of the left, one of the right"
    box = "mc23:mc23.tasks.box/"
    assert inputs(database, task) == [
        ("mc23:mc23.tasks.left", box, 3, "closed"),
        ("mc23:mc23.tasks.right", box, 2, "closed"),
    ]


def test_added_files_are_taken_until_the_dataset_is_closed(
    rucio: RucioServer, sources: InputSources, database: Database
) -> None:
    rucio.add_endpoint("TASKS3")
    task_parameters = parameters_reading("mc23.tasks.later", waitInput=True, runUntilClosed=True)
    task, _ = submit(database, sources, task_parameters)
    assert status(database, task) == "registered"
    rucio.add_dataset("mc23.tasks.later", 2, {"TASKS3": 2}, closed=False)
    feed(database, sources, 5)
    assert (status(database, task), inputs(database, task)[0][2:]) == ("ready", (2, "mutable"))
    added_files = [{"scope": "mc23", "name": "mc23.tasks.later.new", "bytes": 100, "adler32": "0cc737eb"}]
    client = rucio.client()
    client.add_replicas("TASKS3", added_files)
    client.attach_dids("mc23", "mc23.tasks.later", [{"scope": "mc23", "name": "mc23.tasks.later.new"}])
    client.close("mc23", "mc23.tasks.later")
    feed(database, sources, 10)
    assert inputs(database, task)[0][2:] == (3, "closed")


def feed(database: Database, sources: InputSources, minutes: int) -> None:
    with database.begin() as connection:
        feed_tasks(connection, database.names, sources, NOW + timedelta(minutes=minutes))


def test_nothing_is_submitted_for_an_unknown_dataset_or_without_the_server(
    rucio: RucioServer, sources: InputSources, database: Database
) -> None:
    with pytest.raises(BadParameter, match=r"tasks\.nowhere.*there is no such dataset"):
        submit(database, sources, parameters_reading("mc23.tasks.nowhere"))
    rucio.kill()
    try:
        with pytest.raises(CatalogueUnavailable, match="nothing was submitted"):
            submit(database, sources, parameters_reading("mc23.tasks.one"))
    finally:
        rucio.start()
    with database.begin() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM doma_panda.jedi_tasks")) == 0
