"""``broker replay``: identical to the byte, or a difference and exit status 1; and every kind of bad data."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from broker.codec.compression import unpack_work
from broker.codec.packed_candidates import pack_named_candidates
from broker.codec.packed_reasons import pack_named
from broker.domain.decisions import Decision
from broker.store.connection.database import Database
from broker.store.decisions.stored_cycles import one_decision
from tests.brokerages.stored_grids import STORED, store_jobs
from tests.cli.commands import Command, runner
from tests.conftest import TestServer

_TABLES = ("decisions", "snapshots", "snapshot_blobs")


@pytest.fixture(scope="module")
def stored_jobs(test_server: TestServer) -> Iterator[Database]:
    """A stored cycle of the production job brokerage, and copies of its rows."""
    with test_server.opened(test_server.create()) as database:
        store_jobs(database)
        with database.begin() as connection:
            for table in _TABLES:
                connection.execute(sa.text(f"CREATE TABLE public.{table} AS TABLE broker.{table}"))
        yield database


@pytest.fixture
def jobs(stored_jobs: Database) -> Iterator[Database]:
    """The stored cycle, restored after each test."""
    yield stored_jobs
    with stored_jobs.begin() as connection:
        for table in _TABLES:
            connection.execute(sa.text(f"TRUNCATE broker.{table}"))
            connection.execute(sa.text(f"INSERT INTO broker.{table} TABLE public.{table}"))


@pytest.fixture
def broker(stored_jobs: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", stored_jobs.url)


def change(database: Database, statement: str) -> None:
    with database.begin() as connection:
        assert connection.execute(sa.text(statement)).rowcount > 0


def ids(database: Database) -> list[int]:
    with database.begin() as connection:
        return list(connection.execute(sa.text("SELECT id FROM broker.decisions ORDER BY id")).scalars())


Damage = Callable[[dict[str, Any]], bytes | None]


def work_of(database: Database, decision: int) -> dict[str, Any]:
    """The stored work of a decision, unpacked."""
    with database.begin() as connection:
        statement = sa.text("SELECT work FROM broker.decisions WHERE id = :id")
        body: dict[str, Any] = json.loads(
            unpack_work(connection.execute(statement, {"id": decision}).scalar_one(), 10**7)
        )
    return body


def packed(body: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(body).encode())


def store_work(database: Database, decision: int, work: bytes | None) -> None:
    with database.begin() as connection:
        statement = sa.text("UPDATE broker.decisions SET work = :work WHERE id = :id")
        connection.execute(statement, {"work": work, "id": decision})


def documents_in(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("brokerage", list(STORED))
def test_every_brokerage_replays_identically(
    database: Database, capsys: pytest.CaptureFixture[str], brokerage: str
) -> None:
    STORED[brokerage](database)
    broker = runner(capsys, "--db", database.url)
    result = broker("replay", "--last", "24h", "--json")
    assert result.status == 0, result.err
    assert [document["decision"] for document in documents_in(result.out)] == ids(database)
    assert all(
        document["identical"] and not document["differences"] and document["fault"] is None
        for document in documents_in(result.out)
    )
    assert broker("replay").status == 0  # 24 hours are the default
    for number in ids(database):
        assert broker("replay", str(number), "--json").document["identical"]


def repack(database: Database, number: int, packing: Callable[[Decision], tuple[str, bytes | None]]) -> None:
    """Change a packed column of a decision."""
    with database.begin() as connection:
        column, data = packing(one_decision(connection, number).record.decision)
        statement = sa.text(f"UPDATE broker.decisions SET {column} = :data WHERE id = :id")
        connection.execute(statement, {"data": data, "id": number})


def _other_weight(decision: Decision) -> tuple[str, bytes | None]:
    first, *others = decision.candidates
    return "candidates", pack_named_candidates([dataclasses.replace(first, weight=1e-9), *others])


def _without_status(decision: Decision) -> tuple[str, bytes | None]:
    rejected = {queue: code for queue, code in decision.rejected.items() if code != "status"}
    return "reasons", pack_named(rejected, decision.funnel)


REPACKED = {"first weight": _other_weight, "without status": _without_status}


@pytest.mark.parametrize(
    ("statement", "field"),
    [
        ("first weight", "candidates.ALPHA_MCORE.weight"),
        ("SET reason = 'other'", "reason"),
        ("without status", "rejected.GAMMA_OFF"),
        ("SET assigned = assigned || '{\"BETA\": 1}'", "assigned.BETA"),
        ("SET pending_until = decided_at", "pending_until"),
        ("SET notes = '[\"source_stale:links\"]'", "notes"),
        ("SET ramcount = 17", "ramcount"),
    ],
)
def test_differences_are_shown(jobs: Database, broker: Command, statement: str, field: str) -> None:
    second = ids(jobs)[1]
    if statement in REPACKED:
        repack(jobs, second, REPACKED[statement])
    else:
        change(jobs, f"UPDATE broker.decisions {statement} WHERE id = {second}")
    result = broker("replay", str(second), "--json")
    assert result.status == 1 and not result.document["identical"]
    assert field in [difference["field"] for difference in result.document["differences"]]
    listing = broker("replay", "--last", "24h")
    assert listing.status == 1 and field in listing.out and "1 different" in listing.err
    assert broker("replay", str(ids(jobs)[0])).status == 0


def test_the_seed_decides_which_queues_get_the_jobs(jobs: Database, broker: Command) -> None:
    first = ids(jobs)[0]
    changed_fields = set()
    for seed in range(4):
        change(jobs, f"UPDATE broker.decisions SET seed = {seed} WHERE id = {first}")
        changed_fields |= {
            difference["field"].split(".")[0]
            for difference in broker("replay", str(first), "--json").document["differences"]
        }
    assert changed_fields == {"assigned"}


def test_placements_of_a_cycle_must_add_up(jobs: Database, broker: Command) -> None:
    first, second, _ = ids(jobs)
    change(jobs, f"DELETE FROM broker.decisions WHERE id = {first}")
    assert broker("replay", str(second)).status == 0  # earlier placements are stored with the decision
    result = broker("replay", "--last", "24h", "--json")
    assert result.status == 1
    by_id = {document["decision"]: document for document in documents_in(result.out)}
    assert all(difference["field"].startswith("placed_before.") for difference in by_id[second]["differences"])
    assert by_id[second]["differences"]


def test_the_parts_of_a_run_with_a_canary_are_replayed_separately(jobs: Database, broker: Command) -> None:
    first = ids(jobs)[0]
    with jobs.begin() as connection:
        columns = "editor, reason, fingerprint, rows, last_good"
        version = f"SELECT -7, {columns} FROM broker.gdpconfig_versions WHERE version = 1"
        connection.execute(sa.text(f"INSERT INTO broker.gdpconfig_versions (version, {columns}) {version}"))
        connection.execute(sa.text(f"UPDATE broker.decisions SET tuning = -7 WHERE id = {first}"))
    result = broker("replay", "--last", "24h")
    assert result.status == 0 and "3 identical" in result.err and "\t-7\t" in result.out


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("DELETE FROM broker.snapshots", "no snapshot"),
        ("DELETE FROM broker.snapshot_blobs WHERE sha256 = ({part})", "part queues of snapshot"),
        ("UPDATE broker.snapshot_blobs SET data = 'xxxx' WHERE sha256 = ({part})", "cannot be unpacked"),
        (
            "UPDATE broker.snapshot_blobs SET data = (SELECT data FROM broker.snapshot_blobs WHERE sha256 <> ({part}) "
            "LIMIT 1) WHERE sha256 = ({part})",
            "is not what its digest promises",
        ),
        ("UPDATE broker.decisions SET snapshot = NULL", "without a snapshot"),
        ("UPDATE broker.decisions SET tuning = 99", "gdpconfig has no version 99"),
    ],
)
def test_lost_or_corrupt_data_are_named(jobs: Database, broker: Command, statement: str, fault: str) -> None:
    change(jobs, statement.format(part="SELECT sources -> 'parts' ->> 'queues' FROM broker.snapshots"))
    result = broker("replay", "--last", "24h", "--json")
    assert result.status == 1 and fault in result.err
    assert all(not document["identical"] and fault in document["fault"] for document in documents_in(result.out))
    single = broker("replay", str(ids(jobs)[0]))
    assert single.status == 1 and fault in single.err


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda body: None, "without its work"),
        (lambda body: b"broken", "cannot be read"),
        (lambda body: packed(body | {"c": {}}), "no column vo"),
        (lambda body: packed(body | {"cut": {}}), "how a stored chunk is cut cannot be read"),
        (lambda body: packed(body | {"placed": {"BETA": "many"}}), "cannot be read"),
    ],
)
def test_lost_work_does_not_affect_other_decisions(jobs: Database, broker: Command, damage: Damage, fault: str) -> None:
    first, second, third = ids(jobs)
    store_work(jobs, first, damage(work_of(jobs, first)))
    result = broker("replay", "--last", "24h", "--json")
    assert result.status == 1 and "2 identical, 0 different, 1 unreadable" in result.err
    by_decision = {document["decision"]: document for document in documents_in(result.out)}
    assert fault in by_decision[first]["fault"] and by_decision[second]["identical"] and by_decision[third]["identical"]


def test_another_engine_version_is_reported_and_todays_rules_decide(jobs: Database, broker: Command) -> None:
    change(jobs, "UPDATE broker.decisions SET engine = '0.0.1'")
    result = broker("replay", "--last", "24h")
    assert result.status == 0 and result.err.count("decided by version 0.0.1; decided again with the rules of") == 1
    change(jobs, "UPDATE broker.decisions SET reason = 'as it was then'")
    result = broker("replay", str(ids(jobs)[0]), "--json")
    assert result.status == 1 and result.document["engine"] == "0.0.1" and "version 0.0.1" in result.err


def test_columns_that_an_older_version_did_not_store_count_as_null(jobs: Database, broker: Command) -> None:
    first = ids(jobs)[0]
    body = work_of(jobs, first)
    del body["c"]["rebrokered_from"], body["c"]["jumbo"], body["i"]["catalogued"]
    store_work(jobs, first, packed(body))
    result = broker("replay", str(first), "--json")
    assert result.status == 1 and "no column" in result.document["fault"]
    change(jobs, "UPDATE broker.decisions SET engine = '0.0.1'")
    result = broker("replay", str(first), "--json")
    assert not result.document["fault"] and "count as NULL: jumbo, rebrokered_from, catalogued" in result.err


def test_jobs_that_were_not_written_are_no_difference(jobs: Database, broker: Command) -> None:
    first = ids(jobs)[0]
    with jobs.begin() as connection:
        assigned = connection.execute(sa.text(f"SELECT assigned FROM broker.decisions WHERE id = {first}")).scalar_one()
    skipped = "SET outcome = 'skipped', reason = 'task_changed', assigned = '{}'"
    change(jobs, f"UPDATE broker.decisions {skipped} WHERE id = {first}")
    assert broker("replay", "--last", "24h").status == 0
    queue, count = max(assigned.items())
    fewer = json.dumps({**assigned, queue: count - 3})
    for lost, status in ((2, 1), (3, 0), (4, 1)):
        partial = f"""SET outcome = 'brokered', reason = '', assigned = '{fewer}', notes = '["files_changed:{lost}"]'"""
        change(jobs, f"UPDATE broker.decisions {partial} WHERE id = {first}")
        assert broker("replay", str(first)).status == status


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("9999",), 4),
        (("x",), 2),
        (("1", "--last", "1h"), 2),
        (("--last", "1y"), 2),
        (("--last", "0h"), 2),
        (("--last", "24h", "--at", "yesterday"), 2),
        (("--last", "1h", "--at", "2020-01-01"), 4),
    ],
)
def test_bad_requests(jobs: Database, broker: Command, arguments: tuple[str, ...], status: int) -> None:
    result = broker("replay", *arguments)
    assert result.status == status and not result.out and result.err
