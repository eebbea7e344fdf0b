"""``broker pool list|show|queues|resources`` and ``broker match-job``: their output and their refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.pools.statements.pool_registration import TaskRequirements, attach, register
from broker.store.connection.database import Database
from tests.cli.commands import Command, runner
from tests.pilots.statements.test_job_match import add_jobs, follow
from tests.pools.pool_grid import PLACES, at, emptied, execute, pool_for, publish_places, refresh

PLACE = ("--site", "SITE_A", "--ce", "ce1", "--queue")
ELSEWHERE = ("--site", "SITE_B", "--ce", "ce1", "--queue", "QUEUE_B")
POOL = pool_for(Memory=5000).pool_id


@pytest.fixture
def database(shared_database: Database) -> Database:
    return emptied(shared_database)


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", database.url)


@pytest.fixture
def grid(database: Database) -> Database:
    """A pool of task 1 with two jobs, and a job without a pool."""
    publish_places(database)
    refresh(database, 0)
    with database.begin() as connection:
        register(connection, pool_for(Memory=5000), at(0))
        register(connection, pool_for("atlas", Memory=1), at(0))
        attach(connection, 1, pool_for(Memory=5000), TaskRequirements())
    add_jobs(database, 1, 2)
    add_jobs(database, 9, jeditaskid=2)
    follow(database)
    return database


def lines(broker: Command, *arguments: str) -> list[dict[str, Any]]:
    outcome = broker(*arguments, "--json")
    assert outcome.status == 0, outcome.err
    return [json.loads(line) for line in outcome.out.splitlines()]


def test_the_list_of_pools(grid: Database, broker: Command) -> None:
    by_id = {row["pool_id"]: row for row in lines(broker, "pool", "list")}
    assert list(by_id) == sorted(by_id) and len(by_id) == 2
    assert by_id[POOL] == {
        "pool_id": POOL, "vo": "lhcb", "canonical": pool_for(Memory=5000).canonical,
        "created_at": "2026-08-01T00:00:00Z", "last_used_at": "2026-08-01T00:00:00Z",
        "refreshed_at": "2026-08-01T00:00:00Z", "queue_count": 1, "waiting_jobs": 2, "tasks": 1,
    }  # fmt: skip
    assert [row["pool_id"] for row in lines(broker, "pool", "list", "--vo", "LHCb")] == [POOL]
    assert {row["vo"] for row in lines(broker, "pool", "list", *PLACE, "short")} == {"atlas"}
    assert len(lines(broker, "pool", "list", *PLACE, "long")) == 2
    assert lines(broker, "pool", "list", *PLACE, "nowhere") == []
    assert broker("pool", "list", "--site", "SITE_A").status == 2
    assert POOL in broker("pool", "list").out


def test_show_one_pool(grid: Database, broker: Command) -> None:
    [pool] = lines(broker, "pool", "show", POOL)
    assert [(queue["site"], queue["ce"], queue["queue"]) for queue in pool["queues"]] == [("SITE_A", "ce1", "long")]
    assert pool["rejected"] == {"SITE_A/ce1/short": "below:Memory", "SITE_B/ce1/QUEUE_B": "below:Memory"}
    assert "below:Memory" in broker("pool", "show", POOL).out
    execute(grid, "UPDATE broker.submit_pools SET canonical = '[]' WHERE pool_id = :id", id=POOL)
    assert "cannot be read" in broker("pool", "show", POOL, "--json").err
    outcome = broker("pool", "show", "sp1-none")
    assert (outcome.status, "no pool sp1-none" in outcome.err) == (4, True)


def test_the_queues_of_a_pool(grid: Database, broker: Command) -> None:
    instant = "2026-08-01T00:00:00Z"
    assert lines(broker, "pool", "queues", POOL) == [
        {
            "site": "SITE_A",
            "ce": "ce1",
            "queue": "long",
            "panda_queue": "QUEUE_A",
            "first_seen_at": instant,
            "confirmed_at": instant,
        }
    ]
    assert "QUEUE_A" in broker("pool", "queues", POOL).out
    assert broker("pool", "queues", "sp1-none").status == 4


def test_resources_are_published_and_shown(database: Database, broker: Command, tmp_path: Path) -> None:
    assert broker("pool", "resources").status == 4
    file = tmp_path / "grid.json"
    file.write_text(json.dumps(PLACES), encoding="utf-8")
    [first] = lines(broker, "pool", "resources", str(file))
    assert (first["version"], first["queues"], first["changed"]) == (1, 3, True)
    assert [row["changed"] for row in lines(broker, "pool", "resources", str(file))] == [False]
    assert lines(broker, "pool", "resources")[0]["origin"] == str(file)
    file.write_text(json.dumps(PLACES), encoding="utf-8-sig")
    assert lines(broker, "pool", "resources", str(file))[0]["queues"] == 3
    file.write_text("{", encoding="utf-8")
    assert broker("pool", "resources", str(file)).status == 3
    assert broker("pool", "resources", str(tmp_path / "grid.txt")).status == 3


def test_a_pilot_gets_a_job_or_the_reason_for_none(grid: Database, broker: Command) -> None:
    [short] = lines(broker, "match-job", *PLACE, "short", "--vo", "lhcb")
    assert (short["pandaid"], short["pool"], short["pools"], short["reason"]) == (9, None, [], None)
    [no_match] = lines(broker, "match-job", *PLACE, "short", "--vo", "lhcb")
    assert no_match == {
        "pandaid": None, "jeditaskid": None, "task_queue": None, "panda_queue": "QUEUE_A", "pool": None,
        "reason": "submit_pool", "rejected": {"submit_pool": 1}, "repeated": False, "spec": None, "allotted": None,
        "pools": [], "node": None, "held_until": None,
    }  # fmt: skip
    [long] = lines(broker, "match-job", *PLACE, "long", "--vo", "lhcb", "--seed", "3")
    assert (long["pandaid"], long["jeditaskid"], long["pool"], long["pools"]) == (1, 1, POOL, [POOL])
    outcome = broker("match-job", *PLACE, "short")
    assert (outcome.status, "submit_pool" in outcome.err) == (0, True)
    assert broker("match-job", *PLACE, "long").out
    [elsewhere] = lines(broker, "match-job", *ELSEWHERE)
    assert (elsewhere["reason"], elsewhere["rejected"]) == ("nothing_waits", {})
    execute(grid, "UPDATE doma_panda.jobsactive4 SET jobstatus = 'activated' WHERE pandaid = 9")
    follow(grid)
    [elsewhere] = lines(broker, "match-job", *ELSEWHERE)
    assert (elsewhere["reason"], elsewhere["rejected"]) == ("nothing_waits", {"queue": 1})
    assert broker("match-job", "--site", "X").status == 2


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (("SITE_C", "ce1", "short"), "there is no site SITE_C; --site; did you mean SITE_B or SITE_A?"),
        (("SITE_A", "ce2", "short"), "there is no ce ce2; --ce; did you mean ce1?"),
        (("SITE_A", "ce1", "shor"), "there is no queue shor; --queue; did you mean short?"),
    ],
)
def test_an_unknown_place_is_refused(
    grid: Database, broker: Command, place: tuple[str, str, str], message: str
) -> None:
    site, ce, queue = place
    outcome = broker("match-job", "--site", site, "--ce", ce, "--queue", queue)
    assert (outcome.status, outcome.out) == (2, "") and message in outcome.err
