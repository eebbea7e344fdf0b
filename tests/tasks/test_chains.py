"""Task chains: a child waits for its parent, or starts with it, and reads the parent's output."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agents.tasks.input_feeding import feed_tasks
from agents.tasks.input_sources import InputSources
from broker.feeds.model.rucio.questions import Rucio
from broker.lifecycle.statements.task_ends import read_ending, write_ending
from broker.store.connection.database import Database
from broker.tasks.answers.task_submission import task_submission
from broker.tasks.model.refine import Submitter
from broker.tasks.model.values import BadParameter
from tests.tasks.parameters import INPUT, files, parameters

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


def no_rucio() -> Rucio:
    raise AssertionError("Rucio is not asked for what a task of this installation writes")


SOURCES = InputSources(no_rucio)


def submit(database: Database, task_parameters: dict[str, Any]) -> int:
    return task_submission(task_parameters, Submitter(), sources=SOURCES).make(database, NOW).jeditaskid


def child_of(parent: int, **overrides: Any) -> dict[str, Any]:
    input_item = {**INPUT, "dataset": f"mc.{parent}.hits"}
    return parameters(input_item, parentTaskID=parent, nFilesPerJob=1, **overrides)


def value(database: Database, query: str, **values: Any) -> Any:
    with database.begin() as connection:
        return connection.scalar(sa.text(query), values)


def status(database: Database, task: int) -> str:
    return str(value(database, "SELECT status FROM doma_panda.jedi_tasks WHERE jeditaskid = :task", task=task))


def files_of(database: Database, task: int) -> list[str]:
    query = (
        "SELECT lfn FROM doma_panda.jedi_dataset_contents WHERE jeditaskid = :task AND type = 'input' ORDER BY fileid"
    )
    with database.begin() as connection:
        return list(connection.execute(sa.text(query), {"task": task}).scalars())


def finish_files(database: Database, task: int, first: int, stop: int) -> list[str]:
    """Finish some files of a task; each of them yields one output file."""
    names = [f"hits.{task}._{number:06d}.root" for number in range(first, stop)]
    insert = (
        "INSERT INTO doma_panda.jedi_dataset_contents (jeditaskid, datasetid, fileid, lfn, type, status, scope, fsize,"
        " nevents, pandaid) SELECT :task, datasetid, nextval('broker.pseudo_file_seq'), :lfn, 'output', 'finished',"
        " 'mc', 5, 100, :number FROM doma_panda.jedi_datasets WHERE jeditaskid = :task AND type = 'output'"
    )
    count = (
        "UPDATE doma_panda.jedi_datasets SET nfilesused = nfilesused + :n, nfilesfinished = nfilesfinished + :n"
        " WHERE jeditaskid = :task AND masterid IS NULL AND type IN ('input', 'pseudo_input')"
    )
    with database.begin() as connection:
        for number, lfn in enumerate(names, first):
            connection.execute(sa.text(insert), {"task": task, "lfn": lfn, "number": number})
        connection.execute(sa.text(count), {"task": task, "n": stop - first})
    return names


def end_tasks(database: Database) -> None:
    with database.begin() as connection:
        write_ending(connection, database.names, read_ending(connection, database.names, 100), NOW)


def feed(database: Database, minutes: int) -> dict[str, int]:
    with database.begin() as connection:
        return dict(feed_tasks(connection, database.names, SOURCES, NOW + timedelta(minutes=minutes)))


def test_a_chain_of_three_starts_link_by_link(database: Database) -> None:
    first = submit(database, parameters({**INPUT, "files": files(4)}, nFilesPerJob=1))
    second = submit(database, child_of(first))
    third = submit(database, child_of(second))
    assert [status(database, task) for task in (first, second, third)] == ["ready", "registered", "registered"]
    outputs = finish_files(database, first, 1, 5)
    assert feed(database, 1) == {"whole": 0, "grown": 0, "waiting": 2, "broken": 0}, "the parent has not ended"
    end_tasks(database)
    assert status(database, first) == "done"
    assert feed(database, 2)["whole"] == 1
    assert (status(database, second), files_of(database, second)) == ("ready", outputs)
    assert status(database, third) == "registered"
    outputs = finish_files(database, second, 1, 5)
    end_tasks(database)
    assert feed(database, 3)["whole"] == 1
    assert (status(database, third), files_of(database, third)) == ("ready", outputs)
    assert value(database, "SELECT count(*) FROM broker.task_input_feeds") == 0


def test_a_child_may_start_with_its_parent(database: Database) -> None:
    parent = submit(database, parameters({**INPUT, "files": files(4)}, nFilesPerJob=1))
    child = submit(database, child_of(parent, noWaitParent=True))
    assert status(database, child) == "registered", "there is nothing to read yet"
    early = finish_files(database, parent, 1, 3)
    feed(database, 1)
    assert (status(database, child), files_of(database, child)) == ("ready", early)
    finish_files(database, child, 1, 3)
    end_tasks(database)
    assert status(database, child) == "ready", "more input will come"
    late = finish_files(database, parent, 3, 5)
    end_tasks(database)
    feed(database, 2)
    assert files_of(database, child) == early + late
    finish_files(database, child, 3, 5)
    end_tasks(database)
    assert (status(database, parent), status(database, child)) == ("done", "done")


def test_a_child_of_a_failed_parent_is_broken_with_the_reason(database: Database) -> None:
    parent = submit(database, parameters({**INPUT, "files": files(1)}))
    child = submit(database, child_of(parent))
    grandchild = submit(database, child_of(child))
    with database.begin() as connection:
        connection.execute(
            sa.text("UPDATE doma_panda.jedi_tasks SET status = 'failed' WHERE jeditaskid = :task"), {"task": parent}
        )
    assert feed(database, 1)["broken"] == 1 and status(database, child) == "broken"
    reason = value(database, "SELECT errordialog FROM doma_panda.jedi_tasks WHERE jeditaskid = :task", task=child)
    assert reason == f"its parent, task {parent}, ended as failed"
    assert feed(database, 2)["broken"] == 1 and status(database, grandchild) == "broken"


def test_input_of_an_open_dataset_without_parent_waits_until_it_is_closed(database: Database) -> None:
    producer = submit(database, parameters({**INPUT, "files": files(1)}))
    reader_parameters = child_of(producer)
    del reader_parameters["parentTaskID"]
    reader = submit(database, reader_parameters)
    assert status(database, reader) == "registered"
    finish_files(database, producer, 1, 2)
    end_tasks(database)
    feed(database, 1)
    assert status(database, reader) == "ready"


def test_an_unknown_parent_is_refused(database: Database) -> None:
    with pytest.raises(BadParameter, match="parentTaskName is 'nobody': there is no such task"):
        submit(database, parameters({**INPUT, "files": files(1)}, parentTaskName="nobody"))
