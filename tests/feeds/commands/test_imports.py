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
    """The documents of a grid as files, closed lists under their names."""
    contents: dict[str, Any] = cric_documents(SIZE, NOW)
    contents |= {"net": network_metrics(SIZE, NOW), "usage": rse_usage(SIZE, NOW), "reports": worker_reports(SIZE)}
    found = {}
    for name, content in contents.items():
        path = tmp_path / f"{'grid_' if name == 'queues' else ''}{name}.json"
        path.write_text(json.dumps(content))
        found[name] = str(path)
    return found


def cric_files(files: dict[str, str]) -> list[str]:
    return [files[name] for name in cric_documents(GridSize(1), NOW)]


def rows(database: Database, query: str) -> list[tuple[Any, ...]]:
    with database.begin() as connection:
        return [tuple(row) for row in connection.execute(sa.text(database.names.sql(query)))]


@pytest.mark.slow
def test_everything_from_files(broker: Command, files: dict[str, str], database: Database) -> None:
    done = broker("import", "cric", *cric_files(files), *AT)
    assert (done.status, "schedconfig_json" in done.out) == (0, True), done.err
    for words in (("rucio", files["usage"]), ("network", files["net"]), ("workers", files["reports"])):
        done = broker("import", *words, *AT)
        assert done.status == 0, done.err
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
    done = broker("import", "example", str(tmp_path / "grid"), "--queues", "6")
    assert (done.status, len(list((tmp_path / "grid").iterdir()))) == (0, 11), done.err
    documents = [str(tmp_path / "grid" / f"{name}.json") for name in cric_documents(GridSize(1), NOW)]
    assert broker("import", "cric", *documents).status == 0
    assert rows(database, "SELECT count(*) FROM {panda}.schedconfig_json") == [(6,)]
    (tmp_path / "file").touch()
    assert broker("import", "example", str(tmp_path / "file")).status == 1


def test_a_dry_run_says_what_would_change(broker: Command, files: dict[str, str], database: Database) -> None:
    done = broker("import", "cric", *cric_files(files), "--dry-run", "--json", *AT)
    told = [json.loads(line) for line in done.out.splitlines()]
    assert done.status == 0 and {one["table"]: one["added"] for one in told if "table" in one}["site"] == 10
    assert rows(database, "SELECT count(*) FROM {panda}.site") == [(0,)]


def test_a_document_that_is_none_is_refused(broker: Command, files: dict[str, str], tmp_path: Path) -> None:
    assert broker("import", "cric", *cric_files(files), *AT).status == 0
    (tmp_path / "queues.json").write_text("<html>Please log in</html>")
    done = broker("import", "cric", str(tmp_path / "queues.json"), *AT)
    assert done.status == 3 and "ALARM" in done.err and "html" in done.err
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
def test_wrong_words(broker: Command, words: tuple[str, ...], status: int) -> None:
    assert broker("import", *words).status == status


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no such file; FILE; correct the path"),
        ("# A page", "it holds no JSON; FILE; give a document of CRIC"),
        ('{"of": "something else"}', "it cannot be told which document of CRIC this is; FILE; write NAME=FILE"),
    ],
)
def test_a_file_that_is_not_there_or_no_json_is_told_so(
    broker: Command, tmp_path: Path, content: str | None, said: str
) -> None:
    file = tmp_path / "grid.txt"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    done = broker("import", "cric", str(file))
    assert done.status == 2 and said.replace("FILE;", f"{file};") in done.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("# A page", "not_json"),
    ],
)
def test_what_a_document_of_rucio_is_cannot_be_told_from_a_file_that_cannot_be_read(
    broker: Command, tmp_path: Path, content: str | None, said: str
) -> None:
    file = tmp_path / "replicas.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    done = broker("import", "rucio", str(file))
    assert done.status == 2 and said in done.err and str(file) in done.err
    assert "space" not in broker("import", "log").out


def test_two_imports_of_the_same_tables_never_run_at_once(
    broker: Command, files: dict[str, str], database: Database
) -> None:
    other = LeaseKeeper(database, "another broker", LeaseTerms())
    assert other.acquire("cric") is not None
    done = broker("import", "cric", *cric_files(files), *AT)
    other.stop()
    assert done.status == 3 and "another broker" in done.err


@pytest.mark.slow
def test_alongside_panda_only_replicas_and_quotas(
    broker: Command, files: dict[str, str], database: Database, tmp_path: Path
) -> None:
    rows(database, "UPDATE {broker}.installation SET mode = 'beside' RETURNING 1")
    for words in (
        ("cric", *cric_files(files)),
        ("rucio", files["usage"]),
        ("network", files["net"]),
        ("workers", files["reports"]),
    ):
        done = broker("import", *words, *AT)
        assert done.status == 3 and "PanDA's own tables" in done.err
    quotas = tmp_path / "quotas.json"
    quotas.write_text(json.dumps({"local": {"alice": [{"rse": "DISK", "bytes": 1, "bytes_limit": 2}]}}))
    replicas = tmp_path / "replicas.json"
    replicas.write_text(json.dumps({"datasets": [{"scope": "s", "name": "n", "metadata": None}]}))
    for path in (quotas, replicas):
        done = broker("import", "rucio", str(path), *AT)
        assert done.status == 0, done.err
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
    done = broker(
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
    assert done.status == 0, done.err
    assert broker("queue", "unset", queue, "maxrss", "--editor", "bob").status == 0
    events = [json.loads(line) for line in broker("queue", "history", queue, "--json").out.splitlines()]
    told = {(one["by"], one["field"], one["before"], one["after"]) for one in events}
    assert ("feed", "status", "online", "offline") in told
    assert ("alice", "status", None, "brokeroff") in told and ("bob", "maxrss", 1000, None) in told
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
def test_pins_that_cannot_be(broker: Command, files: dict[str, str], words: tuple[str, ...], status: int) -> None:
    broker("import", "cric", files["queues"], *AT)
    assert broker("queue", "set", queue_name(1), *words).status == status


def test_pins_of_queues_that_there_are_not(broker: Command) -> None:
    assert broker("queue", "set", "NONE", "status=offline", "--reason", "x", "--until", "8h").status == 4
    done = broker("queue", "unset", "NONE", "status")
    assert done.status == 4 and "there is no queue NONE" in done.err
