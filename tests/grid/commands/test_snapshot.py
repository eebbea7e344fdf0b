"""``broker snapshot`` and ``broker replay --file``: stored snapshots, their files and scenarios, and damaged ones."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.snapshot.snapshot import snapshot_id
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import read_scenario
from tests.brokerages.small_grid import jobs, next_cycle, one_cycle
from tests.brokerages.stored_grids import store_analyses, store_jobs
from tests.brokerages.test_analysis_scenarios import analysis
from tests.cli.commands import Command, runner
from tests.conftest import TestServer


@pytest.fixture(scope="module")
def cycles_database(test_server: TestServer) -> Iterator[Database]:
    """A database with two cycles between which only jobs have changed."""
    with test_server.opened(test_server.create()) as database:
        store_jobs(database)
        with database.begin() as connection:
            connection.execute(sa.text("UPDATE doma_panda.jobsactive4 SET jobstatus = 'holding' WHERE pandaid = 1"))
        assert next_cycle(database)[0].outcome == "done"
        yield database


@pytest.fixture
def broker(cycles_database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", cycles_database.url)


def listed_snapshots(broker: Command) -> list[dict[str, Any]]:
    result = broker("snapshot", "list", "--json")
    assert result.status == 0, result.err
    snapshots = [json.loads(line) for line in result.out.splitlines()]
    return sorted(snapshots, key=lambda snapshot: -int(snapshot["decisions"]))  # both have the same time stamp


def test_an_unchanged_source_is_stored_once(cycles_database: Database, broker: Command) -> None:
    first, second = listed_snapshots(broker)
    assert first["sources"] == second["sources"] >= 14 and first["decisions"] == 3
    with cycles_database.begin() as connection:
        sizes = dict(connection.execute(sa.text("SELECT sha256, octet_length(data) FROM broker.snapshot_blobs")).all())
    assert len(sizes) == first["sources"] + 1  # only the jobs of the second snapshot are new
    assert first["bytes"] + second["own_bytes"] == sum(sizes.values())
    document = broker("snapshot", "show", first["id"], "--json").document
    sources = {source["name"]: source for source in document["sources"]}
    assert {name for name, source in sources.items() if source["snapshots"] == 1} == {"jobs"}
    assert sources["queues"]["state"] == "ok" and sources["queues"]["rows"] > 4 and document["corrupt"] is None
    assert sum(source["bytes"] for source in sources.values()) == first["bytes"]
    assert all(sizes[source["sha256"]] == source["bytes"] for source in sources.values())


def test_tables_for_people(broker: Command) -> None:
    first, second = listed_snapshots(broker)
    table = broker("snapshot", "list")
    assert table.status == 0 and first["id"] in table.out and second["id"] in table.out
    newest = broker("snapshot", "show")
    lower_id = min(first["id"], second["id"])  # it is shown, since both have the same time stamp
    assert newest.status == 0 and newest.out.startswith(f"Snapshot {lower_id}")
    assert broker("snapshot", "list", "--last", "24h", "--json").out.count("\n") == 2


@pytest.mark.parametrize("name", ["one.json", "one.json.gz"])
def test_export_and_import(
    cycles_database: Database, broker: Command, database: Database, tmp_path: Path, name: str
) -> None:
    snapshot, file = listed_snapshots(broker)[0]["id"], tmp_path / name
    export = broker("snapshot", "export", snapshot, str(file), "--decisions", "--json").document
    assert (export["id"], export["bytes"]) == (snapshot, file.stat().st_size)
    replayed = broker("replay", "--file", str(file), "--json")
    assert replayed.status == 0 and replayed.out.count('"identical": true') == 3
    imported = broker("--db", database.url, "snapshot", "import", str(file), "--json")
    assert imported.status == 0 and imported.document["id"] == snapshot and "3 decisions are not stored" in imported.err
    documents = [
        broker("--db", target.url, "snapshot", "show", snapshot, "--json").document
        for target in (cycles_database, database)
    ]
    assert [part["sha256"] for part in documents[0]["sources"]] == [part["sha256"] for part in documents[1]["sources"]]
    assert broker("--db", database.url, "snapshot", "import", str(file)).status == 0  # a second import adds nothing
    assert len(broker("--db", database.url, "snapshot", "list", "--json").out.splitlines()) == 1


Damage = Callable[[dict[str, Any]], None]
DAMAGES: dict[str, tuple[Damage, str]] = {
    "a value": (lambda d: d["sources"]["queues"]["content"]["tables"]["site"]["values"][0].reverse(), "source queues"),
    "a digest": (lambda d: d["sources"]["jobs"].update(sha256="0" * 64), "source jobs"),
    "a source less": (lambda d: d["sources"].pop("links"), "its sources are those of"),
    "another name": (lambda d: d.update(id="20260801T120000-0000000000000000"), "its sources are those of"),
    "no instant": (lambda d: d.update(taken_at="noon"), "cannot be read"),
    "another format": (lambda d: d.update(gridbroker_snapshot=2), "gridbroker_snapshot is 2"),
    "no sources": (lambda d: d.pop("sources"), "cannot be read"),
    "a list for sources": (lambda d: d.update(sources=[1]), "cannot be read"),
    "states": (lambda d: d["about"].update(states=[3]), "states of its sources"),
    "work": (lambda d: d["decisions"][0].update(work="%%"), "cannot be read"),
    "a column less": (lambda d: d["decisions"][0].pop("seed"), "cannot be read"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(broker: Command, tmp_path: Path, damage: str) -> None:
    file = tmp_path / "one.json"
    broker("snapshot", "export", str(file), "--decisions")
    document = json.loads(file.read_text())
    change, message = DAMAGES[damage]
    change(document)
    file.write_text(json.dumps(document))
    for command in (("snapshot", "import", str(file)), ("replay", "--file", str(file))):
        result = broker(*command)
        assert result.status == 3 and message in result.err and not result.out


def test_replay_needs_the_tuning_in_the_file(broker: Command, tmp_path: Path) -> None:
    file = tmp_path / "one.json.gz"
    broker("snapshot", "export", str(file), "--decisions")
    document = json.loads(gzip.decompress(file.read_bytes()))
    document["tunings"] = []
    file.write_bytes(gzip.compress(json.dumps(document).encode()))
    result = broker("replay", "--file", str(file))
    assert result.status == 1 and "no version 1 of the tuning" in result.err


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("show", "nowhere"), 4),
        (("export", "nowhere", "FILE"), 4),
        (("export", "a", "b", "FILE"), 2),
        (("export", "FILE", "--scenario", "--decisions"), 2),
        (("export", "FILE/below"), 1),
        (("import", "FILE"), 1),
        (("list", "--last", "x"), 2),
    ],
)
def test_invalid_arguments(broker: Command, tmp_path: Path, arguments: tuple[str, ...], status: int) -> None:
    result = broker("snapshot", *(word.replace("FILE", str(tmp_path / "x.json")) for word in arguments))
    assert result.status == status and not result.out and result.err


@pytest.mark.parametrize("content", ["{}", "[]", "5", "not JSON", '{"now": "x", "tables": {}}'])
def test_files_that_are_neither_snapshot_nor_scenario(broker: Command, tmp_path: Path, content: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    result = broker("snapshot", "import", str(file))
    assert result.status == 3 and not result.out and str(file) in result.err
    assert broker("replay", "--file", str(file)).status == 3


def test_without_any_snapshot(database: Database, broker: Command) -> None:
    result = broker("--db", database.url, "snapshot", "show")
    assert result.status == 4 and "no snapshot is stored" in result.err
    assert broker("--db", database.url, "snapshot", "list", "--json") == type(result)(0, "", "")


def test_a_damaged_snapshot_is_reported(database: Database, broker: Command) -> None:
    store_analyses(database)
    part = "SELECT sources -> 'parts' ->> 'links' FROM broker.snapshots"
    with database.begin() as connection:
        connection.execute(sa.text(f"UPDATE broker.snapshot_blobs SET data = 'xxxx' WHERE sha256 = ({part})"))
    for command in (("show",), ("export", "/nowhere/x.json")):
        result = broker("--db", database.url, "snapshot", *command)
        assert result.status == 1 and "source links: the stored source" in result.err


def test_an_import_repairs_a_damaged_snapshot(database: Database, broker: Command, tmp_path: Path) -> None:
    store_analyses(database)
    file = tmp_path / "whole.json"
    assert broker("--db", database.url, "snapshot", "export", str(file)).status == 0
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.snapshot_blobs SET data = 'xxxx'"))
    assert broker("--db", database.url, "snapshot", "show").status == 1
    assert broker("--db", database.url, "snapshot", "import", str(file)).status == 0
    assert broker("--db", database.url, "snapshot", "show").status == 0


def test_a_snapshot_of_an_older_version_may_lack_columns(database: Database, broker: Command, tmp_path: Path) -> None:
    """A column that an older version did not read is NULL; in a file of this version it is an error."""
    file = tmp_path / "one.json"
    broker("snapshot", "export", str(file), "--decisions")
    document = json.loads(file.read_text())
    for name, table, column in (("queues", "site", "state"), ("jobs", "job_counts", "prodsourcelabel")):
        rows = document["sources"][name]["content"]["tables"][table]
        index = rows["columns"].index(column)
        rows["columns"].pop(index)
        for row in rows["values"]:
            row.pop(index)
        text = json.dumps(document["sources"][name]["content"], sort_keys=True, separators=(",", ":"))
        document["sources"][name]["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    digests = [(name, part["sha256"]) for name, part in document["sources"].items()]
    document["id"] = snapshot_id(datetime.fromisoformat(document["taken_at"]), digests)
    for engine, status in (("0.0.1", 0), (document["engine"], 3)):
        document["engine"] = engine
        file.write_text(json.dumps(document))
        assert broker("--db", database.url, "snapshot", "import", str(file)).status == status
    document["engine"] = "0.0.1"
    file.write_text(json.dumps(document))
    assert broker("replay", "--file", str(file)).status == 0


@pytest.mark.slow
def test_a_scenario_and_a_snapshot_convert_into_each_other(
    database: Database, make_database: Callable[..., Database], broker: Command, tmp_path: Path
) -> None:
    """All sources survive the conversion, though an analysis snapshot counts analysis jobs twice.

    The exception is what was learned from ended jobs, which a scenario does not contain.
    """
    rows = [{**row, "produsername": "ann"} for row in jobs("BETA", 900, running=3, activated=2)]
    assert one_cycle(database, analysis(jobsactive4=rows), agent="analysis_job")[0].outcome == "done"
    file = tmp_path / "grid.scenario.json"
    exported_id = broker("--db", database.url, "snapshot", "export", str(file), "--json").document["id"]
    imported = broker("--db", database.url, "snapshot", "import", str(file), "--json")
    assert imported.status == 0
    sources = []
    for number, name in enumerate((exported_id, imported.document["id"])):
        exported = tmp_path / f"{number}.json"
        assert broker("--db", database.url, "snapshot", "export", name, str(exported)).status == 0
        sources.append(json.loads(exported.read_text(encoding="utf-8"))["sources"])
    for learned_source in ("queue_health", "task_failures", "failed_inputs", "queue_capacity"):
        assert sources[0].pop(learned_source)["content"]["tables"][learned_source]["values"] == []
    assert sources[0] == sources[1] and len(sources[1]) > 10
    assert load(make_database(), read_scenario(file))["jobsactive4"] == 5
