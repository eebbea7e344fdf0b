"""``broker import`` and ``broker queue`` as operators use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agents.service.leadership import LeaseKeeper
from broker.simulation.model.demo.grid_documents import (
    GridSize,
    cric_documents,
    network_metrics,
    queue_name,
    rse_usage,
    worker_reports,
)
from broker.store.connection.database import Database
from broker.store.service.leases import LeaseTerms
from tests.cli.commands import Command, runner
from tests.feeds.documents import NOW

AT = ("--at", "2026-08-01T12:00:00")
SIZE = GridSize(20)


@pytest.fixture
def broker(capsys: pytest.CaptureFixture[str], database: Database) -> Command:
    return runner(capsys, "--db", database.url)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The paths of a grid's documents, by name."""
    contents: dict[str, Any] = cric_documents(SIZE, NOW)
    contents |= {"net": network_metrics(SIZE, NOW), "usage": rse_usage(SIZE, NOW), "reports": worker_reports(SIZE)}
    paths = {}
    for name, content in contents.items():
        path = tmp_path / f"{'grid_' if name == 'queues' else ''}{name}.json"
        path.write_text(json.dumps(content))
        paths[name] = str(path)
    return paths


def cric_files(files: dict[str, str]) -> list[str]:
    return [files[name] for name in cric_documents(GridSize(1), NOW)]


def rows(database: Database, query: str) -> list[tuple[Any, ...]]:
    with database.begin() as connection:
        return [tuple(row) for row in connection.execute(sa.text(database.names.sql(query)))]


@pytest.mark.slow
def test_all_feeds_import_from_files(broker: Command, files: dict[str, str], database: Database) -> None:
    result = broker("import", "cric", *cric_files(files), *AT)
    assert (result.status, "schedconfig_json" in result.out) == (0, True), result.err
    for words in (("rucio", files["usage"]), ("network", files["net"]), ("workers", files["reports"])):
        result = broker("import", *words, *AT)
        assert result.status == 0, result.err
    counts = (
        "SELECT (SELECT count(*) FROM {panda}.schedconfig_json), (SELECT count(*) FROM {panda}.harvester_worker_stats)"
    )
    assert rows(database, counts) == [(20, 80)]
    assert rows(database, "SELECT count(*) FROM {panda}.ddm_endpoint WHERE space_free > 0") == [(30,)]
    log = broker("import", "log")
    assert log.status == 0 and all(name in log.out for name in ("cric by hand", "rucio_space", "network", "workers"))
    lines = [json.loads(line) for line in broker("import", "log", "--feed", "cric", "--json").out.splitlines()]
    assert [line["outcome"] for line in lines] == ["done"]


def test_an_example_can_be_imported(broker: Command, database: Database, tmp_path: Path) -> None:
    result = broker("import", "example", str(tmp_path / "grid"), "--queues", "6")
    assert (result.status, len(list((tmp_path / "grid").iterdir()))) == (0, 11), result.err
    documents = [str(tmp_path / "grid" / f"{name}.json") for name in cric_documents(GridSize(1), NOW)]
    assert broker("import", "cric", *documents).status == 0
    assert rows(database, "SELECT count(*) FROM {panda}.schedconfig_json") == [(6,)]
    (tmp_path / "file").touch()
    assert broker("import", "example", str(tmp_path / "file")).status == 1


def test_a_dry_run_reports_the_changes(broker: Command, files: dict[str, str], database: Database) -> None:
    result = broker("import", "cric", *cric_files(files), "--dry-run", "--json", *AT)
    entries = [json.loads(line) for line in result.out.splitlines()]
    assert (
        result.status == 0 and {entry["table"]: entry["added"] for entry in entries if "table" in entry}["site"] == 10
    )
    assert rows(database, "SELECT count(*) FROM {panda}.site") == [(0,)]


def test_an_invalid_document_is_refused(broker: Command, files: dict[str, str], tmp_path: Path) -> None:
    assert broker("import", "cric", *cric_files(files), *AT).status == 0
    (tmp_path / "queues.json").write_text("<html>Please log in</html>")
    result = broker("import", "cric", str(tmp_path / "queues.json"), *AT)
    assert result.status == 3 and "ALARM" in result.err and "html" in result.err
    log = broker("import", "log")
    assert "queues was refused: html" in log.err


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("cric", "what.json"), 2),
        (("cric", "queues=a.json", "queues=b.json"), 2),
        (("cric", "https://cric.example.org/elsewhere"), 2),
        (("cric", "queues=missing.json"), 3),
        (("cric",), 2),
        (("network", "missing.json"), 3),
        (("workers", "missing.json"), 3),
        (("rucio", "missing.json"), 2),
        (("rucio", "space=missing.json"), 3),
        (("cric", "queues=x.json", "--at", "soon"), 2),
    ],
)
def test_exit_status_of_invalid_arguments(broker: Command, words: tuple[str, ...], status: int) -> None:
    assert broker("import", *words).status == status


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file; FILE; correct the path"),
        ("# A page", "it holds no JSON; FILE; give a document of CRIC"),
        ('{"of": "something else"}', "it cannot be told which document of CRIC this is; FILE; write NAME=FILE"),
    ],
)
def test_a_missing_or_invalid_file_is_named(broker: Command, tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "grid.txt"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    result = broker("import", "cric", str(file))
    assert result.status == 2 and message.replace("FILE;", f"{file};") in result.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        ("# A page", "not_json"),
    ],
)
def test_an_unreadable_document_of_rucio_is_refused(
    broker: Command, tmp_path: Path, content: str | None, message: str
) -> None:
    file = tmp_path / "replicas.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    result = broker("import", "rucio", str(file))
    assert result.status == 2 and message in result.err and str(file) in result.err
    assert "space" not in broker("import", "log").out


def test_two_imports_of_the_same_tables_never_run_concurrently(
    broker: Command, files: dict[str, str], database: Database
) -> None:
    lease_keeper = LeaseKeeper(database, "another broker", LeaseTerms())
    assert lease_keeper.acquire("cric") is not None
    result = broker("import", "cric", *cric_files(files), *AT)
    lease_keeper.stop()
    assert result.status == 3 and "another broker" in result.err


@pytest.mark.slow
def test_only_replicas_and_quotas_are_imported_alongside_panda(
    broker: Command, files: dict[str, str], database: Database, tmp_path: Path
) -> None:
    rows(database, "UPDATE {broker}.installation SET mode = 'beside' RETURNING 1")
    for words in (
        ("cric", *cric_files(files)),
        ("rucio", files["usage"]),
        ("network", files["net"]),
        ("workers", files["reports"]),
    ):
        result = broker("import", *words, *AT)
        assert result.status == 3 and "PanDA's own tables" in result.err
    quotas = tmp_path / "quotas.json"
    quotas.write_text(json.dumps({"local": {"alice": [{"rse": "DISK", "bytes": 1, "bytes_limit": 2}]}}))
    replicas = tmp_path / "replicas.json"
    replicas.write_text(json.dumps({"datasets": [{"scope": "s", "name": "n", "metadata": None}]}))
    for path in (quotas, replicas):
        result = broker("import", "rucio", str(path), *AT)
        assert result.status == 0, result.err
    assert rows(database, "SELECT account FROM {broker}.rucio_local_usage") == [("alice",)]
    assert rows(database, "SELECT name, outcome FROM {broker}.replica_requests") == [("n", "not_found")]


@pytest.mark.slow
def test_the_history_of_a_queue(broker: Command, files: dict[str, str]) -> None:
    queue = queue_name(0)
    broker("import", "cric", *cric_files(files), *AT)
    documents = json.loads(Path(files["queues"]).read_text())
    documents[queue]["status"] = "offline"
    Path(files["queues"]).write_text(json.dumps(documents))
    assert broker("import", "cric", files["queues"], "--at", "2026-08-01T13:00:00").status == 0
    result = broker(
        "queue",
        "set",
        queue,
        "status=brokeroff",
        "maxrss=1000",
        "--reason",
        "disk exchange",
        "--until",
        "8h",
        "--editor",
        "alice",
    )
    assert result.status == 0, result.err
    assert broker("queue", "unset", queue, "maxrss", "--editor", "bob").status == 0
    events = [json.loads(line) for line in broker("queue", "history", queue, "--json").out.splitlines()]
    changes = {(event["by"], event["field"], event["before"], event["after"]) for event in events}
    assert ("feed", "status", "online", "offline") in changes
    assert ("alice", "status", None, "brokeroff") in changes and ("bob", "maxrss", 1000, None) in changes
    table = broker("queue", "history", queue)
    assert table.status == 0 and "disk exchange" in table.out


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("status=closed", "--reason", "x", "--until", "8h"), 2),
        (("status", "--reason", "x", "--until", "8h"), 2),
        (("color=red", "--reason", "x", "--until", "8h"), 2),
        (("status=offline", "--reason", " ", "--until", "8h"), 2),
        (("status=offline", "--reason", "x" * 501, "--until", "8h"), 2),
        (("status=offline", "--reason", "x"), 2),
        (("status=offline", "--until", "8h"), 2),
        (("status=offline", "--reason", "x", "--until", "later"), 2),
        (("status=offline", "--reason", "x", "--until", "now"), 2),
        (("status=offline", "--reason", "x", "--until", "2020-01-01"), 3),
        (("status=offline", "--reason", "x", "--until", "8h"), 0),
    ],
)
def test_exit_status_of_pins(broker: Command, files: dict[str, str], words: tuple[str, ...], status: int) -> None:
    broker("import", "cric", files["queues"], *AT)
    assert broker("queue", "set", queue_name(1), *words).status == status


def test_pins_of_unknown_queues_are_refused(broker: Command) -> None:
    assert broker("queue", "set", "NONE", "status=offline", "--reason", "x", "--until", "8h").status == 4
    result = broker("queue", "unset", "NONE", "status")
    assert result.status == 4 and "there is no queue NONE" in result.err
