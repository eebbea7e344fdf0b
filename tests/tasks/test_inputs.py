"""Which part of an input a task takes (secondaries, events, names, offsets), and how many jobs result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.tasks.answers.task_submission import task_submission
from broker.tasks.model.catalogue import HONOURED, REFUSED, WITHOUT_EFFECT
from broker.tasks.model.refine import Submitter, refine
from broker.tasks.model.values import BadParameter
from tests.tasks.parameters import INPUT, constant, files, parameters
from tests.tasks.test_submission import called_with, generate_jobs

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
PILEUP = {"type": "template", "param_type": "input", "dataset": "mc:pileup", "value": "--pile=${IN2}"}


def submit(database: Database, task_parameters: dict[str, Any]) -> tuple[int, int]:
    submitted = task_submission(task_parameters, Submitter()).make(database, NOW)
    return submitted.jeditaskid, submitted.jobs


def rows(database: Database, query: str, **values: Any) -> list[tuple[Any, ...]]:
    with database.begin() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query), values)]


def test_a_secondary_goes_with_the_primary_input(database: Database) -> None:
    pileup_files = [{"lfn": f"pile.{number}.root"} for number in range(3)]
    task_parameters = parameters(
        {**INPUT, "files": files(2)}, {**PILEUP, "files": pileup_files, "nFilesPerJob": 1}, nFilesPerJob=1
    )
    task, jobs = submit(database, task_parameters)
    assert jobs == 2, "the primary input says how many"
    query = (
        "SELECT datasetname, streamname, masterid IS NULL, attributes, nfiles FROM doma_panda.jedi_datasets"
        " WHERE type = 'input' ORDER BY datasetid"
    )
    assert rows(database, query) == [("mc:evgen", "IN", True, None, 2), ("mc:pileup", "IN2", False, "np=1", 3)]
    attempts = "SELECT DISTINCT maxattempt FROM doma_panda.jedi_dataset_contents WHERE lfn LIKE 'pile%'"
    assert rows(database, attempts) == [(None,)], "no counter knows the files of a secondary"
    first, second = (called_with(database, job) for job in generate_jobs(database, task))
    assert first.startswith("--in=evgen._00000.root --pile=pile.0.root")
    assert second.startswith("--in=evgen._00001.root --pile=pile.1.root")


def test_a_slice_beyond_the_files_of_a_job_stays_unexpanded(database: Database) -> None:
    task, _ = submit(database, parameters({**INPUT, "files": files(1)}, constant("${IN[1]} ${SN/M[1//(#-1)]}")))
    (job,) = generate_jobs(database, task)
    assert called_with(database, job).startswith("--in=evgen._00000.root ${IN[1]} ${SN/M[1//(#-1)]} --out=")


def test_events_without_input_are_split_among_jobs(database: Database) -> None:
    events = constant("-f ${FIRSTEVENT} -m ${MAXEVENTS} -s ${SKIPEVENTS}")
    first = {"type": "template", "param_type": "number", "value": "${FIRSTEVENT}", "offset": 1000, "hidden": True}
    task, jobs = submit(database, parameters(events, first, noInput=True, nEvents=250, nEventsPerJob=100))
    assert jobs == 3
    calls = [called_with(database, job).split(" --out")[0] for job in generate_jobs(database, task)]
    assert calls == ["-f 1000 -m 100 -s 0", "-f 1100 -m 100 -s 0", "-f 1200 -m 50 -s 0"]


@pytest.mark.parametrize(
    ("item", "overrides", "numbers"),
    [
        ({}, {}, [0, 1, 2, 3, 4, 5]),
        ({"offset": 2}, {}, [2, 3, 4, 5]),
        ({"include": "_0000[0-3]", "exclude": "_00002,_00009"}, {}, [0, 1, 3]),
        ({"offset": 1}, {"nFiles": 2}, [1, 2]),
        ({}, {"nEvents": 250}, [0, 1, 2]),
        ({}, {"nEvents": 300}, [0, 1, 2]),
    ],
)
def test_a_task_may_take_only_some_files_of_a_dataset(
    database: Database, item: dict[str, Any], overrides: dict[str, Any], numbers: list[int]
) -> None:
    submit(database, parameters({**INPUT, "files": files(6), **item}, **overrides))
    names = rows(database, "SELECT lfn FROM doma_panda.jedi_dataset_contents ORDER BY fileid")
    assert names == [(f"evgen._{number:05d}.root",) for number in numbers]


@pytest.mark.parametrize(
    ("overrides", "rule", "jobs"),
    [
        ({"nFilesPerJob": 2}, "NF=2", 3),
        ({"nEventsPerJob": 300}, "NE=300", 2),
        ({"nGBPerJob": 3}, "NG=3", 2),
        ({"nMaxFilesPerJob": 4}, "MF=4,NG=20", 2),
        ({}, "NG=20", 1),
        ({"nFilesPerJob": 0, "nGBPerJob": 2}, "NG=2", 3),
    ],
)
def test_the_split_rule_determines_the_number_of_jobs(
    database: Database, overrides: dict[str, Any], rule: str, jobs: int
) -> None:
    _, job_count = submit(database, parameters({**INPUT, "files": files(6)}, **overrides))
    assert rows(database, "SELECT splitrule FROM doma_panda.jedi_tasks") == [(rule,)]
    assert job_count == jobs


def test_a_selection_without_files_is_refused(database: Database) -> None:
    with pytest.raises(BadParameter, match=r"mc:evgen.*no file of it is left"):
        submit(database, parameters({**INPUT, "files": files(6), "include": "nothing"}))
    assert rows(database, "SELECT FROM doma_panda.jedi_tasks") == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_parameter_is_named_and_ignored_when_off(name: str) -> None:
    task_parameters = parameters({**INPUT, "files": files(1)})
    with pytest.raises(BadParameter) as refused:
        refine({**task_parameters, name: 3}, Submitter())
    assert refused.value.what.startswith(f"{name} is 3: ") and refused.value.remedy
    refine({**task_parameters, name: None}, Submitter())
    refine({**task_parameters, name: False}, Submitter())


def test_parameters_without_effect_are_noted_once_and_every_parameter_has_one_kind() -> None:
    task_parameters = parameters({**INPUT, "files": files(1)}, **dict.fromkeys(WITHOUT_EFFECT, "x"))
    (note,) = refine(task_parameters, Submitter()).notes
    assert all(note.count(f"{name} (") == 1 for name in WITHOUT_EFFECT)
    assert len({*HONOURED, *WITHOUT_EFFECT, *REFUSED}) == len(HONOURED) + len(WITHOUT_EFFECT) + len(REFUSED)
