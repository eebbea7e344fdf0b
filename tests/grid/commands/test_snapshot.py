"""``broker snapshot`` and ``broker replay --file``: what is kept, files of it, scenarios of it, and what is damaged."""

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
def stored(test_server: TestServer) -> Iterator[Database]:
    """Two cycles, between which only jobs have changed."""
    url = test_server.create()
    with Database(url) as database:
        store_jobs(database)
        with database.begin() as connection:
            connection.execute(sa.text("UPDATE doma_panda.jobsactive4 SET jobstatus = 'holding' WHERE pandaid = 1"))
        assert next_cycle(database)[0].outcome == "done"
        yield database
    test_server.drop(sa.make_url(url).database or "")


@pytest.fixture
def broker(stored: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", stored.url)


def listed(broker: Command) -> list[dict[str, Any]]:
    done = broker("snapshot", "list", "--json")
    assert done.status == 0, done.err
    found = [json.loads(line) for line in done.out.splitlines()]
    return sorted(found, key=lambda one: -int(one["decisions"]))  # both are of the same instant


def test_a_source_that_is_unchanged_costs_nothing(stored: Database, broker: Command) -> None:
    first, second = listed(broker)
    assert first["sources"] == second["sources"] >= 14 and first["decisions"] == 3
    with stored.begin() as connection:
        sizes = dict(connection.execute(sa.text("SELECT sha256, octet_length(data) FROM broker.snapshot_blobs")).all())
    assert len(sizes) == first["sources"] + 1  # of the second snapshot only the jobs are new
    assert first["bytes"] + second["own_bytes"] == sum(sizes.values())
    shown = broker("snapshot", "show", first["id"], "--json").document
    sources = {one["name"]: one for one in shown["sources"]}
    assert {name for name, one in sources.items() if one["snapshots"] == 1} == {"jobs"}
    assert sources["queues"]["state"] == "ok" and sources["queues"]["rows"] > 4 and shown["corrupt"] is None
    assert sum(one["bytes"] for one in sources.values()) == first["bytes"]
    assert all(sizes[one["sha256"]] == one["bytes"] for one in sources.values())


def test_tables_for_people(broker: Command) -> None:
    first, second = listed(broker)
    told = broker("snapshot", "list")
    assert told.status == 0 and first["id"] in told.out and second["id"] in told.out
    newest = broker("snapshot", "show")
    assert (newest.status == 0 and newest.out.startswith(f"Snapshot {first['id']}")) or second["id"] in newest.out
    assert broker("snapshot", "list", "--last", "24h", "--json").out.count("\n") == 2


@pytest.mark.parametrize("name", ["one.json", "one.json.gz"])
def test_a_file_and_back(stored: Database, broker: Command, database: Database, tmp_path: Path, name: str) -> None:
    wanted, file = listed(broker)[0]["id"], tmp_path / name
    told = broker("snapshot", "export", wanted, str(file), "--decisions", "--json").document
    assert (told["id"], told["bytes"]) == (wanted, file.stat().st_size)
    replayed = broker("replay", "--file", str(file), "--json")
    assert replayed.status == 0 and replayed.out.count('"identical": true') == 3
    done = broker("--db", database.url, "snapshot", "import", str(file), "--json")
    assert done.status == 0 and done.document["id"] == wanted and "3 decisions are not stored" in done.err
    shown = [broker("--db", one.url, "snapshot", "show", wanted, "--json").document for one in (stored, database)]
    assert [one["sha256"] for one in shown[0]["sources"]] == [one["sha256"] for one in shown[1]["sources"]]
    assert broker("--db", database.url, "snapshot", "import", str(file)).status == 0  # once more is nothing new
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
    change, told = DAMAGES[damage]
    change(document)
    file.write_text(json.dumps(document))
    for command in (("snapshot", "import", str(file)), ("replay", "--file", str(file))):
        done = broker(*command)
        assert done.status == 3 and told in done.err and not done.out


def test_a_tuning_that_the_file_lacks(broker: Command, tmp_path: Path) -> None:
    file = tmp_path / "one.json.gz"
    broker("snapshot", "export", str(file), "--decisions")
    document = json.loads(gzip.decompress(file.read_bytes()))
    document["tunings"] = []
    file.write_bytes(gzip.compress(json.dumps(document).encode()))
    done = broker("replay", "--file", str(file))
    assert done.status == 1 and "no version 1 of the tuning" in done.err


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
def test_bad_requests(broker: Command, tmp_path: Path, arguments: tuple[str, ...], status: int) -> None:
    done = broker("snapshot", *(word.replace("FILE", str(tmp_path / "x.json")) for word in arguments))
    assert done.status == status and not done.out and done.err


@pytest.mark.parametrize("content", ["{}", "[]", "5", "not JSON", '{"now": "x", "tables": {}}'])
def test_files_that_are_neither(broker: Command, tmp_path: Path, content: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    done = broker("snapshot", "import", str(file))
    assert done.status == 3 and not done.out and str(file) in done.err
    assert broker("replay", "--file", str(file)).status == 3


def test_no_snapshot_at_all(database: Database, broker: Command) -> None:
    done = broker("--db", database.url, "snapshot", "show")
    assert done.status == 4 and "no snapshot is stored" in done.err
    assert broker("--db", database.url, "snapshot", "list", "--json") == type(done)(0, "", "")


def test_a_snapshot_that_is_damaged_is_shown_as_such(database: Database, broker: Command) -> None:
    store_analyses(database)
    part = "SELECT sources -> 'parts' ->> 'links' FROM broker.snapshots"
    with database.begin() as connection:
        connection.execute(sa.text(f"UPDATE broker.snapshot_blobs SET data = 'xxxx' WHERE sha256 = ({part})"))
    for command in (("show",), ("export", "/nowhere/x.json")):
        done = broker("--db", database.url, "snapshot", *command)
        assert done.status == 1 and "source links: the stored source" in done.err


def test_importing_a_snapshot_mends_the_damaged_one(database: Database, broker: Command, tmp_path: Path) -> None:
    store_analyses(database)
    file = tmp_path / "whole.json"
    assert broker("--db", database.url, "snapshot", "export", str(file)).status == 0
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.snapshot_blobs SET data = 'xxxx'"))
    assert broker("--db", database.url, "snapshot", "show").status == 1
    assert broker("--db", database.url, "snapshot", "import", str(file)).status == 0
    assert broker("--db", database.url, "snapshot", "show").status == 0


def test_a_snapshot_of_an_older_version_lacks_columns(database: Database, broker: Command, tmp_path: Path) -> None:
    """A column that a version did not read yet is NULL; of this version the file would be damaged."""
    file = tmp_path / "one.json"
    broker("snapshot", "export", str(file), "--decisions")
    document = json.loads(file.read_text())
    for name, table, column in (("queues", "site", "state"), ("jobs", "job_counts", "prodsourcelabel")):
        rows = document["sources"][name]["content"]["tables"][table]
        at = rows["columns"].index(column)
        rows["columns"].pop(at)
        for row in rows["values"]:
            row.pop(at)
        text = json.dumps(document["sources"][name]["content"], sort_keys=True, separators=(",", ":"))
        document["sources"][name]["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    digests = [(name, one["sha256"]) for name, one in document["sources"].items()]
    document["id"] = snapshot_id(datetime.fromisoformat(document["taken_at"]), digests)
    for engine, status in (("0.0.1", 0), (document["engine"], 3)):
        document["engine"] = engine
        file.write_text(json.dumps(document))
        assert broker("--db", database.url, "snapshot", "import", str(file)).status == status
    document["engine"] = "0.0.1"
    file.write_text(json.dumps(document))
    assert broker("replay", "--file", str(file)).status == 0


@pytest.mark.slow
def test_a_scenario_and_a_snapshot_turn_into_each_other(
    database: Database, make_database: Callable[..., Database], broker: Command, tmp_path: Path
) -> None:
    """The analysis jobs count twice in a snapshot of analysis; all of its sources come out again.

    But for what was learned from how jobs ended, which is no part of a scenario.
    """
    rows = [{**row, "produsername": "ann"} for row in jobs("BETA", 900, running=3, activated=2)]
    assert one_cycle(database, analysis(jobsactive4=rows), agent="analysis_job")[0].outcome == "done"
    file = tmp_path / "grid.scenario.json"
    wanted = broker("--db", database.url, "snapshot", "export", str(file), "--json").document["id"]
    again = broker("--db", database.url, "snapshot", "import", str(file), "--json")
    assert again.status == 0
    sources = []
    for number, name in enumerate((wanted, again.document["id"])):
        exported = tmp_path / f"{number}.json"
        assert broker("--db", database.url, "snapshot", "export", name, str(exported)).status == 0
        sources.append(json.loads(exported.read_text(encoding="utf-8"))["sources"])
    for learned in ("queue_health", "task_failures", "failed_inputs", "queue_capacity"):
        assert sources[0].pop(learned)["content"]["tables"][learned]["values"] == []
    assert sources[0] == sources[1] and len(sources[1]) > 10
    assert load(make_database(), read_scenario(file))["jobsactive4"] == 5
