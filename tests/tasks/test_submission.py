"""``broker task submit``: the rows of a task, refusals, and atomic submission."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.matching.specs.spec import parse_canonical
from broker.pilots.answers.jobs import given_job
from broker.pilots.statements.activation import ActivationSplit, write_sorted
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.tasks.answers.task_submission import task_submission
from broker.tasks.model.refine import Submitter
from broker.tasks.model.values import BadParameter
from tests.cli.commands import Command, runner
from tests.tasks.parameters import INPUT, LOG, OUTPUT, constant, files, parameters

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
AT = str(int(NOW.timestamp()))
TABLES = ("doma_panda.jedi_tasks", "doma_panda.jedi_datasets", "doma_panda.jedi_dataset_contents")


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", database.url)


def rows(database: Database, query: str, **values: Any) -> list[dict[str, Any]]:
    with database.begin() as connection:
        return [dict(row) for row in connection.execute(sa.text(query), values).mappings()]


def write_task(folder: Path, content: object, name: str = "task.json") -> str:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return str(folder / name)


def generate_jobs(database: Database, task: int) -> list[int]:
    """Create an activated job at Q for each file of the primary input."""
    insert = (
        "INSERT INTO doma_panda.jobsdefined4 (pandaid, jeditaskid, jobstatus, computingsite, jobdefinitionid,"
        " attemptnr) VALUES (:job, :task, 'defined', 'Q', 0, 0)"
    )
    record = (
        "INSERT INTO doma_panda.filestable4 (row_id, pandaid, modificationtime, lfn, type, status, jeditaskid,"
        " datasetid, fileid) VALUES (:row, :job, :now, :lfn, :type, 'ready', :task, :dataset, :file)"
    )
    contents = rows(
        database,
        "SELECT c.*, d.masterid FROM doma_panda.jedi_dataset_contents c JOIN doma_panda.jedi_datasets d"
        " USING (jeditaskid, datasetid)"
        " WHERE jeditaskid = :task AND c.type IN ('input', 'pseudo_input') ORDER BY fileid",
        task=task,
    )
    master = [row for row in contents if row["masterid"] is None]
    secondaries = {
        row["datasetid"]: iter([o for o in contents if o["datasetid"] == row["datasetid"]]) for row in contents
    }
    stamp, number = NOW.replace(tzinfo=None), 0
    jobs = []
    with database.begin() as connection:
        for job, row in enumerate(master, 1):
            connection.execute(sa.text(insert), {"job": job, "task": task})
            inputs = [row, *(next(remaining) for key, remaining in secondaries.items() if key != row["datasetid"])]
            for file in inputs:
                number += 1
                values = {
                    "lfn": file["lfn"],
                    "type": file["type"],
                    "dataset": file["datasetid"],
                    "file": file["fileid"],
                }
                connection.execute(
                    sa.text(record), {**values, "row": 10**9 + number, "job": job, "task": task, "now": stamp}
                )
            jobs.append(job)
        catalogue = TableCatalogue.read(connection, database.names)
        write_sorted(connection, catalogue, ActivationSplit(tuple((job, "Q") for job in jobs), ()), NOW)
    return jobs


def called_with(database: Database, job: int) -> str:
    with database.begin() as connection:
        return given_job(connection, database.names, job).parameters


def test_a_task_with_listed_input_becomes_rows(database: Database, broker: Command, tmp_path: Path) -> None:
    task_parameters = parameters(
        {**INPUT, "files": files(5)}, constant("-n ${MAXEVENTS} -s ${FIRSTEVENT}"), nFilesPerJob=2, maxWalltime=24,
        ramCount=2000, ramUnit="MBPerCore", container_name="docker://img", maxAttempt=4, cliParams="x",
    )  # fmt: skip
    answer = broker("task", "submit", write_task(tmp_path, task_parameters), "--at", AT, "--json").document
    task = answer["jeditaskid"]
    assert answer == {
        "jeditaskid": task,
        "taskname": task_parameters["taskName"],
        "status": "ready",
        "jobs": 3,
        "notes": ["without effect: cliParams (the command line of the client)"],
    }
    assert task >= 10_000_000
    (row,) = rows(database, "SELECT * FROM doma_panda.jedi_tasks")
    expected = {
        "taskname": "sim", "status": "ready", "username": "ada", "vo": "myexp", "splitrule": "NF=2,MW=24",
        "ramcount": 2000, "ramunit": "MBPerCore", "container_name": "docker://img", "nucleus": "NUC",
        "parent_tid": task,
        "transpath": "/cvmfs/run.sh", "corecount": 1, "cpuefficiency": 90, "basewalltime": 600, "taskpriority": 1000,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    input_dataset, output, log = rows(database, "SELECT * FROM doma_panda.jedi_datasets ORDER BY datasetid")
    assert (
        input_dataset["datasetname"],
        input_dataset["nfiles"],
        input_dataset["nevents"],
        input_dataset["state"],
    ) == ("mc:evgen", 5, 500, "closed")
    assert (output["datasetname"], output["streamname"], output["type"]) == (f"mc.{task}.hits", "OUTPUT0", "output")
    assert (log["datasetname"], log["streamname"], log["type"]) == (f"mc.{task}.log", "LOG0", "log")
    contents = rows(database, "SELECT * FROM doma_panda.jedi_dataset_contents ORDER BY fileid")
    assert [content["firstevent"] for content in contents] == [0, 100, 200, 300, 400]
    assert {(content["fsize"], content["maxattempt"], content["status"]) for content in contents} == {
        (10**9, 4, "ready")
    }


def test_each_job_has_its_own_numbers_and_names(database: Database, broker: Command, tmp_path: Path) -> None:
    seeds = {"type": "template", "param_type": "number", "value": "--seed=${RNDMSEED}", "offset": 100}
    numbers = {"type": "template", "param_type": "pseudo_input", "dataset": "seq_number", "value": "--seq=${SEQNUMBER}"}
    placeholders = constant("-f ${SEQNUMBER/M[#*10]} -n ${SN} ${SN:03d} t$JEDITASKID")
    task_parameters = parameters(seeds, numbers, placeholders, nFilesPerJob=1)
    answer = broker("task", "submit", write_task(tmp_path, task_parameters), "--count", "3", "--json").document
    task = answer["jeditaskid"]
    assert answer["jobs"] == 3
    jobs = generate_jobs(database, task)
    assert [called_with(database, job) for job in jobs] == [
        f"--seed={100 + n} --seq={n} -f {n}0 -n {n} {n:03d} t{task} --out=hits.{task}._{n:06d}.root" for n in (1, 2, 3)
    ]
    names = rows(
        database, "SELECT lfn, scope FROM doma_panda.filestable4 WHERE type IN ('output', 'log') ORDER BY row_id"
    )
    assert [row["lfn"] for row in names[:2]] == [f"hits.{task}._000001.root", f"log.{task}.000001.tgz"]
    assert len({row["lfn"] for row in names}) == 6 and {row["scope"] for row in names} == {"mc"}
    assert [row["serialnr"] for row in rows(database, "SELECT serialnr FROM broker.task_outputs")] == [4, 4]


def test_concurrent_identical_submissions_create_one_task(database: Database) -> None:
    submission = task_submission(parameters({**INPUT, "files": files(7)}), Submitter(), request="r1")
    with ThreadPoolExecutor(4) as pool:
        tasks = list(pool.map(lambda _: submission.make(database, NOW).jeditaskid, range(4)))
    assert len(set(tasks)) == 1
    assert len(rows(database, "SELECT FROM doma_panda.jedi_tasks")) == 1


REFUSED = [
    ({"maxWalltime": 86400}, "maxWalltime is 86400", "write hours"),
    ({"nGBPerJob": 0.5}, "nGBPerJob is 0.5", "1 or more"),
    ({"ramCount": 2}, "ramCount is 2", "write MB"),
    ({"nFilesPerJobs": 2}, "nFilesPerJobs is 2", "did you mean nFilesPerJob"),
    ({"mergeOutput": True}, "mergeOutput is True", "parentTaskID"),
    ({"hpoWorkflow": True}, "hpoWorkflow", "submit without it"),
    ({"taskName": ""}, "taskName is ''", "not empty"),
    ({"jobParameters": [INPUT, constant("${INN}")]}, "${INN}", "did you mean IN"),
    ({"jobParameters": [INPUT, constant("${IN[__import__('os')]}")]}, "no slice", "write [0]"),
    ({"jobParameters": [INPUT, constant("${SN/M[__import__('os')]}")]}, "whole numbers", "formula"),
    ({"jobParameters": [{**OUTPUT, "value": "same.root"}]}, "same file", "${SN/P}"),
    ({"jobParameters": [OUTPUT]}, "no input", "--count"),
    ({"parentTaskID": 7}, "parentTaskID is 7", "broker tasks"),
    ({"coreCount": "many"}, "coreCount is 'many'", "from 0 to 1024"),
    ({"log": {**LOG, "colour": "red"}}, "log[0].colour", "leave it out"),
]


@pytest.mark.parametrize(("overrides", "message", "remedy"), REFUSED)
def test_an_invalid_parameter_is_refused_with_its_field_value_and_remedy(
    database: Database, broker: Command, tmp_path: Path, overrides: dict[str, Any], message: str, remedy: str
) -> None:
    task = write_task(tmp_path, parameters({**INPUT, "files": files(2)}, **overrides))
    refused = broker("task", "submit", task)
    assert refused.status == 2
    assert message in refused.err and remedy in refused.err, refused.err
    for table in TABLES:
        assert rows(database, f"SELECT FROM {table}") == []


@pytest.mark.slow
def test_submission_is_all_or_nothing(database: Database, broker: Command, tmp_path: Path) -> None:
    list_file = tmp_path / "list"
    list_file.write_text("\n".join([*(f"f{n}" for n in range(30_000)), "no name"]), encoding="utf-8")
    task = write_task(tmp_path, parameters(INPUT))
    refused = broker("task", "submit", task, "--files", f"mc:evgen={list_file}")
    assert refused.status == 2 and "line 30001" in refused.err
    for table in (*TABLES, "broker.task_templates", "broker.task_outputs"):
        assert rows(database, f"SELECT FROM {table}") == []
    list_file.write_text("\n".join(f"f{n}" for n in range(30_000)), encoding="utf-8")
    answer = broker("task", "submit", task, "--files", f"mc:evgen={list_file}", "--json").document
    assert answer["jobs"] == 150, "200 files at most"
    assert rows(database, "SELECT nfiles FROM doma_panda.jedi_datasets WHERE type = 'input'") == [{"nfiles": 30_000}]


def test_repeated_submission_of_a_request_creates_one_task(database: Database, broker: Command, tmp_path: Path) -> None:
    task = write_task(tmp_path, parameters({**INPUT, "files": files(7)}, nFilesPerJob=2))
    first = broker("task", "submit", task, "--request", "r1", "--json").document
    second = broker("task", "submit", task, "--request", "r1", "--json").document
    assert (second["jeditaskid"], second["jobs"], second["notes"]) == (
        first["jeditaskid"],
        4,
        ["it was submitted before"],
    )
    conflicting = broker("task", "submit", task, "--nucleus", "OTHER", "--request", "r1")
    assert conflicting.status == 3 and f"task {first['jeditaskid']}" in conflicting.err
    assert len(rows(database, "SELECT FROM doma_panda.jedi_tasks")) == 1


def test_node_requirements_of_a_job_are_stored_with_its_task(
    database: Database, broker: Command, tmp_path: Path
) -> None:
    specs = [
        {"site": "LCG.A.org", "wall_time": 3600, "tags": "b & a"},
        {"site": "LCG.B.org", "cpu": {"num_cores": {"min": 8}}, "panda_architecture": "#x86_64&nvidia"},
    ]
    task_parameters = parameters(noInput=True, nFiles=2, matchingSpecs=specs)
    answer = broker("task", "submit", write_task(tmp_path, task_parameters), "--json").document
    (row,) = rows(database, "SELECT sites, specs FROM broker.task_requirements")
    requirements = parse_canonical(row["specs"])
    assert row["sites"] == ["LCG.A.org", "LCG.B.org"] and requirements.vo == "myexp"
    assert {spec.wall_time_s for spec in requirements.specs} == {3600, None} and "a & b" in row["specs"]
    assert answer["notes"][-1] == f"of a node it asks {requirements.spec_id}: {row['specs']}"
    text = "\n".join(
        ("taskName: sim", "transPath: /x", "userName: ada", "noInput: true", "nFiles: 1", "jobParameters: []",
         "matchingSpecs: {wall_time: 60}")
    )  # fmt: skip
    (tmp_path / "task.yaml").write_text(text, encoding="utf-8")
    assert broker("task", "submit", str(tmp_path / "task.yaml"), "--json").document["jobs"] == 1
    assert len(rows(database, "SELECT FROM broker.task_requirements")) == 2


@pytest.mark.parametrize(
    ("specs", "field"),
    [
        ([], "matchingSpecs"),
        ("gpu", "matchingSpecs[0]"),
        ({"wall_time": -1}, "matchingSpecs[0].wall_time"),
        ([{}, {"tags": "a &"}], "matchingSpecs[1].tags"),
        ({"system": {"glibc": 2.30}}, "matchingSpecs[0].system.glibc"),
        ({"colour": 1}, "matchingSpecs[0].colour"),
    ],
)
def test_invalid_specs_are_refused_with_their_field(specs: object, field: str) -> None:
    task_parameters = parameters(noInput=True, nFiles=1, matchingSpecs=specs)
    with pytest.raises(BadParameter) as refused:
        task_submission(task_parameters, Submitter())
    assert field in str(refused.value)
