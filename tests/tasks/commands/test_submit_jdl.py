"""``broker submit`` of job descriptions: the task, its pool, refusals, and notes to the submitter."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.pilots.statements.activation import sort_jobs, write_sorted
from broker.pools.statements import resource_versions
from broker.pools.statements.resource_versions import ResourceText
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.task_reads import TaskSelection, read_assigning
from tests.cli.commands import Command, runner

pytestmark = pytest.mark.slow

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
AT = str(int(NOW.timestamp()))
DATA = json.loads((Path(__file__).parents[2] / "contract" / "submit_pool.json").read_text(encoding="utf-8"))
JOB = """[
 JobName = "fit"; Executable = "/opt/bin/fit"; Arguments = "-n 4"; StdOutput = "out";
 Owner = "ada"; OwnerGroup = "lhcb_user"; CPUTime = 86400; Priority = 3; NumberOfProcessors = 2; JobType = "User";
 %s
 Requirements = [ Memory = 4000; SoftwareTag = "AppVersion1"; CPUModel = "Intel Xeon"; ]
]"""


@pytest.fixture(scope="module")
def grid() -> ResourceText:
    document = {"declared_types": DATA["declared"], "resources": DATA["resources"]}
    return ResourceText("the cases", "json", json.dumps(document))


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", database.url)


def publish(database: Database, grid: ResourceText) -> None:
    with database.begin() as connection:
        resource_versions.publish(connection, grid, NOW)


def rows(database: Database, query: str) -> list[dict[str, Any]]:
    with database.begin() as connection:
        return [dict(row) for row in connection.execute(sa.text(query)).mappings()]


def write_job(folder: Path, text: str, name: str = "job.jdl") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_a_job_becomes_a_task_with_its_pool(
    database: Database, broker: Command, grid: ResourceText, tmp_path: Path
) -> None:
    publish(database, grid)
    places = 'Site = {"LCG.Alpha.org", "LCG.Beta.org"}; BannedSite = "LCG.Gamma.org"; Platform = "x86_64-el9";'
    job = write_job(tmp_path, JOB % places)
    answer = broker("submit", job, "--vo", "lhcb", "--label", "user", "--at", AT, "--json").document
    pool = broker("pool", "hash", job, "--vo", "lhcb").out.strip()
    assert answer == {
        "jeditaskid": answer["jeditaskid"], "taskname": "fit", "status": "ready", "jobs": ["fit"], "job_count": 1,
        "alternatives": 0,
        "notes": ["StdOutput is kept and decides nothing"], "pool": pool,
    }  # fmt: skip
    (task,) = rows(database, "SELECT * FROM doma_panda.jedi_tasks")
    expected = {
        "prodsourcelabel": "user", "tasktype": "anal", "vo": "lhcb", "username": "ada", "workinggroup": "lhcb_user",
        "processingtype": "User", "transpath": "/opt/bin/fit", "corecount": 2, "cputime": 86400,
        "cputimeunit": "HS06sPerEvent", "cpuefficiency": 100, "currentpriority": 700, "nucleus": None,
    }  # fmt: skip
    assert {name: task[name] for name in expected} == expected
    (requirements,) = rows(database, "SELECT * FROM broker.task_requirements")
    expected = {
        "jeditaskid": answer["jeditaskid"], "pool_id": pool, "sites": ["LCG.Alpha.org", "LCG.Beta.org"],
        "banned_sites": ["LCG.Gamma.org"], "platforms": ["x86_64-el9"], "cputime_s": 86400,
        "requirements": {"Memory": "4000", "SoftwareTag": "AppVersion1", "CPUModel": "Intel Xeon"},
    }  # fmt: skip
    assert {name: requirements[name] for name in expected} == expected
    (stored,) = rows(database, "SELECT pool_id, canonical, queue_count FROM broker.submit_pools")
    assert (stored["pool_id"], stored["canonical"], stored["queue_count"]) == (pool, requirements["canonical"], 2)
    (files,) = rows(database, "SELECT count(*) AS n FROM doma_panda.jedi_dataset_contents WHERE type = 'pseudo_input'")
    assert files["n"] == 1


def test_node_requirements_of_a_job_are_stored_and_noted(database: Database, broker: Command, tmp_path: Path) -> None:
    text = '[ Executable = "x"; MatchingSpec = [ wall_time = 3600; site = "S.One"; tags = a & ~b; ]; ]'
    job = write_job(tmp_path, text)
    spec = '{"cores":{"least":1,"most":1},"sites":["S.One"],"tags":"a & ~b","wall_time_s":3600}'
    canonical = f'["matchspec/1","lhcb",[{spec}]]'
    answer = broker("submit", job, "--vo", "LHCb", "--at", AT, "--json").document
    assert canonical in answer["notes"][0]
    (requirements,) = rows(database, "SELECT specs, sites FROM broker.task_requirements")
    assert requirements == {"specs": canonical, "sites": ["S.One"]}
    checked = broker("pool", "check", job, "--vo", "lhcb", "--json").document
    assert checked["node"]["canonical"] == canonical and checked["node"]["specs"].startswith("ms1-")


def test_equal_requirements_share_a_pool_and_a_job_without_any_has_none(
    database: Database, broker: Command, grid: ResourceText, tmp_path: Path
) -> None:
    publish(database, grid)
    same_as_config = (
        "Executable = x\nRequirements\n{\n Memory = 4e3\n SoftwareTag = AppVersion1\n CPUModel = Intel Xeon\n}\n"
    )
    first = broker("submit", write_job(tmp_path, JOB % ""), "--vo", "lhcb", "--json").document
    second = broker("submit", write_job(tmp_path, same_as_config, "job.cfg"), "--vo", "LHCb", "--json").document
    third = broker("submit", write_job(tmp_path, '[ Executable = "x"; ]'), "--at", AT, "--json").document
    assert (first["status"], second["taskname"], second["pool"], third["pool"]) == (
        "assigning",
        "x",
        first["pool"],
        None,
    )
    due = TaskSelection("atlas", NOW)
    with database.begin() as connection:
        assigning = read_assigning(connection, TableCatalogue.read(connection, database.names), due)
    assert assigning.tasks.jeditaskid.tolist() == [third["jeditaskid"]]
    assert len(rows(database, "SELECT FROM broker.submit_pools")) == 1
    assert len(rows(database, "SELECT FROM broker.task_requirements WHERE pool_id IS NULL")) == 1


def test_output_files_of_a_job_are_recorded_at_activation(database: Database, broker: Command, tmp_path: Path) -> None:
    text = '[ Executable = "x"; Arguments = "-o ${OUTPUT0}"; OutputData = {"a", "b"}; OutputSandbox = {"o"}; ]'
    job = write_job(tmp_path, text)
    task = broker("submit", job, "--label", "user", "--user", "ada", "--json").document["jeditaskid"]
    datasets = "SELECT datasetid, datasetname, type, state, nfiles FROM doma_panda.jedi_datasets ORDER BY datasetid"
    (_, output, log) = rows(database, datasets)
    assert (output["type"], output["datasetname"], log["type"]) == ("output", f"user.ada.{task}.output", "log")
    (arguments,) = rows(database, "SELECT * FROM broker.file_arguments")
    assert (arguments["jeditaskid"], arguments["arguments"]) == (task, "-o ${OUTPUT0}")
    with database.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO doma_panda.jobsdefined4 (pandaid, jeditaskid, jobstatus, computingsite, jobdefinitionid)"
                " VALUES (7, :task, 'defined', 'Q', 0)"
            ),
            {"task": task},
        )
        catalogue = TableCatalogue.read(connection, database.names)
        stamp = NOW.replace(tzinfo=None)
        counts = write_sorted(connection, catalogue, sort_jobs(connection, catalogue, 10, 1), NOW)
    assert counts == {"activated": 1, "assigned": 0}
    files = "SELECT pandaid, lfn, type, status, scope, modificationtime FROM doma_panda.filestable4 ORDER BY row_id"
    common = {"pandaid": 7, "status": "defined", "scope": "user.ada", "modificationtime": stamp}
    assert rows(database, files) == [
        common | {"lfn": "a", "type": "output"},
        common | {"lfn": "b", "type": "output"},
        common | {"lfn": "job.7.log.tgz", "type": "log"},
    ]
    contents = (
        "SELECT lfn FROM doma_panda.jedi_dataset_contents WHERE pandaid = 7 AND status = 'defined' ORDER BY fileid"
    )
    assert [row["lfn"] for row in rows(database, contents)] == ["a", "b", "job.7.log.tgz"]
    assert [row["nfiles"] for row in rows(database, datasets)] == [1, 2, 1]


REFUSED = [
    ('[ Executable = "x"; Requirements = [ Site = "A"; ] ]', (), 2, "standard-keyword: write Site outside"),
    ('[ Executable = "x"; Requirements = [ Memory = "4 GB"; ] ]', (), 2, "line 1, column 38"),
    ("[ Requirements = [ ] ]", (), 2, "no-executable"),
    ('[ Executable = "x"; RequiredTag = "GPU"; ]', (), 2, "not-honoured"),
    ('[ Executable = "x"; Site = "A"; BannedSite = "A"; ]', (), 2, "impossible-site"),
    ('[ Executable = "x"; Owner = "ada"; ]', ("--user", "eve"), 3, "wrong-user"),
    ('[ Executable = "x"; VO = "lhcb"; ]', (), 3, "wrong-vo"),
    ('[ Executable = "x"; ]', ("--vo", "no vo"), 2, "vo-invalid"),
    ('[ Executable = "x"; ]', ("--ignore-nodes",), 3, "are for .xml files"),
]


def test_a_refused_job_leaves_no_rows(database: Database, broker: Command, tmp_path: Path) -> None:
    for text, options, status, message in REFUSED:
        outcome = broker("submit", write_job(tmp_path, text), *options)
        assert (outcome.status, outcome.out, message in outcome.err) == (status, "", True), outcome.err
    assert rows(database, "SELECT FROM doma_panda.jedi_tasks") == []


def test_check_without_a_file_uses_the_published_resources(
    database: Database, broker: Command, grid: ResourceText, tmp_path: Path
) -> None:
    job = write_job(tmp_path, JOB % "")
    before = broker("pool", "check", job, "--vo", "lhcb", "--json")
    assert (before.document["eligible"], before.document["rejected"]) == (None, {})
    assert "no resources are published" in before.err
    publish(database, grid)
    after = broker("pool", "check", job, "--vo", "lhcb", "--json").document
    assert after["pool"] == before.document["pool"]
    assert after["eligible"] == ["LCG.Alpha.org/ce1/long", "LCG.Alpha.org/ce1/short"]
    assert after["rejected"]["LCG.Beta.org/ce1/gpu"] == "vo"


def test_what_the_submitter_is_told_about_places(
    database: Database, broker: Command, grid: ResourceText, tmp_path: Path
) -> None:
    def notes(sites: str, requirement: str) -> str:
        text = f'[ Executable = "x"; {sites} Requirements = [ {requirement} ] ]'
        return "; ".join(broker("submit", write_job(tmp_path, text), "--vo", "lhcb", "--json").document["notes"])

    assert notes("", "Memory = 1;") == "no resources are published: the job waits until some are"
    publish(database, grid)
    assert notes("", "Memory = 4000;") == ""
    no_queue = notes("", "Memory = 16001;")
    assert no_queue.startswith(
        "no queue meets the requirements now, and the job waits: LCG.Alpha.org/ce1/long below:Memory"
    )
    elsewhere = "no queue that meets the requirements is at a site that is asked for, and the job waits"
    assert notes('Site = "LCG.Gamma.org";', "Memory = 16000;") == elsewhere
    assert notes('BannedSite = "LCG.Beta.org";', "Memory = 16000;") == elsewhere
    assert notes('Site = "LCG.Beta.org";', "Memory = 16000;") == ""
    assert "no resource is at a site LCG.Omega.org" in notes('Site = "LCG.Omega.org";', "Memory = 16000;")
    assert "no resource defines InfiniBand" in notes("", 'InfiniBand = "yes";')
