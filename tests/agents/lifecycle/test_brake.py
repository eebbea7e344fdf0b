"""The brake: how much one cycle of an agent ends, takes back or removes when little or very much is due."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import ValidationError

from agents.lifecycle.timeouts import TimeoutsAgent
from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.brake import Brake, BrakedOptions
from agents.service.configuration import ConfigurationError, ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.store.connection.database import Database
from broker.store.service import agent_pauses, leases
from broker.store.service.agent_pauses import AgentPaused
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms
from tests.agents.lifecycle.test_analysis_rebrokerage import user_job
from tests.agents.lifecycle.test_fast_rebrokerage import KEY
from tests.agents.moving_jobs import closed_jobs, fill, job
from tests.lifecycle.lifecycle_grid import HOUR, NOW, store
from tests.pools.pool_grid import emptied, execute

ALARM = "brake: more is due than one cycle may do"
BRAKED = ("timeouts", "fast_rebrokerage", "analysis_rebrokerage", "cleanup", "submit_pool_cleanup")
_JOBS = """
    INSERT INTO doma_panda.jobsactive4 (pandaid, jobstatus, computingsite, modificationtime, lockedby)
    SELECT number, :status, 'ON', :at, 'jedi' FROM generate_series(CAST(:first AS int), CAST(:last AS int)) AS number"""


@pytest.fixture(autouse=True)
def no_cycles_yet(request: pytest.FixtureRequest) -> None:
    """Remove the cycles and pauses that other tests left."""
    if "shared_database" in request.fixturenames:
        execute(request.getfixturevalue("shared_database"), "TRUNCATE broker.agent_runs, broker.agent_pauses")


@pytest.mark.parametrize(
    ("share", "total", "allowed"),
    [
        (0.05, 0, 100), (0.05, 1999, 100), (0.05, 2019, 100), (0.05, 2020, 101), (0.05, 10_000, 500),
        (0.5, 1000, 500), (0.999, 1000, 999), (1.0, 1000, None),
    ],
)  # fmt: skip
def test_the_brake_allows_a_share_but_always_a_hundred(share: float, total: int, allowed: int | None) -> None:
    assert Brake("a", share, forced=False).allows(total) == allowed
    assert Brake("a", share, forced=True).allows(total) is None


def test_the_shipped_share_is_five_percent_and_checked() -> None:
    assert BrakedOptions().brake_share == 0.05
    assert BrakedOptions().brake_pauses_after == 3
    for wrong in (0.0, -0.1, 1.01, float("nan"), "much"):
        with pytest.raises(ValidationError):
            BrakedOptions(brake_share=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        BrakedOptions(brake_pauses_after=-1)


@pytest.mark.parametrize("name", registry.NAMES)
def test_only_agents_that_remove_have_a_brake(name: str) -> None:
    if name in BRAKED:
        agent = registry.make(name, {"brake_share": 1}, ProcessSettings())
        assert isinstance(agent.options, BrakedOptions)
        assert agent.removes
        return
    with pytest.raises(ConfigurationError, match="brake_share"):
        registry.make(name, {"brake_share": 1}, ProcessSettings())


def cycle(database: Database, name: str, force: bool = False, dry: bool = False, **options: Any) -> RunRecord:
    agent = registry.make(name, options, ProcessSettings())
    request = CycleRequest(dry_run=dry, force=force)
    if dry:
        return run_cycle(agent, CycleContext(database, NOW, 1, 300.0, request))
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases WHERE name = :name"), {"name": name})
        lease = leases.acquire(connection, name, "test", LeaseTerms(60.0, longest_s=90.0)).lease
    assert lease is not None
    run_id = open_run(database, name, lease)
    return run_cycle(agent, CycleContext(database, NOW, 1, 300.0, request, lease=lease, run_id=run_id))


def add_jobs(database: Database, first: int, last: int, *, due: bool) -> None:
    at = NOW.replace(tzinfo=None) - timedelta(seconds=HOUR if due else 1)
    values = {"status": "sent", "at": at, "first": first, "last": last}
    with database.begin() as connection:
        connection.execute(sa.text(_JOBS), values)


def alarms(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    fields = [record.__dict__["fields"] for record in caplog.records if ALARM in record.getMessage()]
    assert all(record.levelno == logging.ERROR for record in caplog.records if ALARM in record.getMessage())
    caplog.clear()
    return fields


@pytest.mark.parametrize(
    ("due", "not_due", "ended"),
    [(0, 50, 0), (100, 0, 100), (101, 0, 100), (101, 2000, 101), (10_000, 0, 500), (10_000, 2000, 600)],
)
def test_timeouts(
    shared_database: Database, caplog: pytest.LogCaptureFixture, due: int, not_due: int, ended: int
) -> None:
    store(shared_database, [])
    add_jobs(shared_database, 1, due, due=True)
    add_jobs(shared_database, 100_001, 100_000 + not_due, due=False)
    dry = cycle(shared_database, "timeouts", dry=True)
    assert (dry.counts["due"], alarms(caplog)) == (due, [])
    record = cycle(shared_database, "timeouts")
    assert (record.outcome, record.error) == ("done", None)
    assert (record.counts["due"], record.counts["failed"]) == (due, ended)
    assert record.counts.get("held_back", 0) == due - ended
    brake_notes = [note for note in record.notes if note.startswith("brake: ")]
    if due == ended:
        assert (brake_notes, alarms(caplog)) == ([], [])
        assert [note for note in dry.notes if note.startswith("brake: ")] == []
        return
    fields = {"agent": "timeouts", "kind": "jobs", "due": due, "allowed": ended, "there_are": due + not_due}
    assert alarms(caplog) == [fields | {"brake_share": 0.05}]
    (note,) = brake_notes
    assert f"{due} jobs are due, {ended} of {due + not_due}" in note
    assert "broker run timeouts --force --yes" in note
    assert list(dry.notes)[:1] == brake_notes


def test_held_back_jobs_go_in_the_next_cycles_or_at_once_when_forced(
    shared_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    store(shared_database, [])
    add_jobs(shared_database, 1, 1000, due=True)
    assert [cycle(shared_database, "timeouts").counts["failed"] for _ in range(2)] == [100, 100]
    assert len(alarms(caplog)) == 2
    assert cycle(shared_database, "timeouts", force=True).counts["failed"] == 800
    add_jobs(shared_database, 2001, 3000, due=True)
    assert cycle(shared_database, "timeouts", brake_share=1).counts["failed"] == 1000
    assert alarms(caplog) == []


def pauses_of(database: Database, name: str) -> list[tuple[str, str]]:
    with database.begin() as connection:
        return [(pause.editor, pause.reason) for pause in agent_pauses.held_pauses(connection, name)]


def resume(database: Database, name: str) -> bool:
    with database.begin() as connection:
        return agent_pauses.resume(connection, name, editor="ann")


@pytest.mark.parametrize("after", [1, 3])
def test_after_some_braked_cycles_in_a_row_the_agent_pauses_until_it_is_resumed(
    database: Database, caplog: pytest.LogCaptureFixture, after: int
) -> None:
    store(database, [])
    add_jobs(database, 1, 1000, due=True)
    for number in range(after):
        assert pauses_of(database, "timeouts") == []
        record = cycle(database, "timeouts", brake_pauses_after=after)
        assert (record.outcome, record.counts["braked"], record.counts["failed"]) == ("done", 1, 100), number
    ((editor, reason),) = pauses_of(database, "timeouts")
    assert editor == "brake" and f"{1100 - 100 * after} of {1100 - 100 * after} jobs" in reason
    assert "agent paused by its brake" in caplog.text
    with pytest.raises(AgentPaused, match="paused until it is resumed by brake") as error:
        cycle(database, "timeouts", brake_pauses_after=after)
    assert "broker resume timeouts" in str(error.value)
    # the cycles before the pause no longer count
    assert resume(database, "timeouts")
    for _ in range(after):
        assert pauses_of(database, "timeouts") == []
        cycle(database, "timeouts", brake_pauses_after=after)
    assert len(pauses_of(database, "timeouts")) == 1


def test_a_cycle_that_is_not_held_back_resets_the_count(database: Database) -> None:
    store(database, [])
    for _ in range(2):
        add_jobs(database, 1, 250, due=True)
        assert [cycle(database, "timeouts").counts.get("braked", 0) for _ in range(3)] == [1, 1, 0]
        execute(database, "DELETE FROM doma_panda.jobsarchived4")
    assert pauses_of(database, "timeouts") == []


def test_neither_dry_runs_nor_forced_cycles_nor_failed_ones_count(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(database, [])
    add_jobs(database, 1, 1000, due=True)
    cycle(database, "timeouts")
    cycle(database, "timeouts")
    assert "braked" not in cycle(database, "timeouts", dry=True).counts and pauses_of(database, "timeouts") == []
    with monkeypatch.context() as patched:
        patched.setattr(TimeoutsAgent, "cycle", lambda *_: 1 / 0)
        assert cycle(database, "timeouts").outcome == "failed"
    cycle(database, "timeouts")
    assert len(pauses_of(database, "timeouts")) == 1 and resume(database, "timeouts")
    cycle(database, "timeouts")
    assert cycle(database, "timeouts", force=True).counts["failed"] == 600
    add_jobs(database, 2001, 3000, due=True)
    cycle(database, "timeouts")
    cycle(database, "timeouts")
    assert pauses_of(database, "timeouts") == []


def test_a_brake_that_never_pauses(database: Database) -> None:
    store(database, [])
    add_jobs(database, 1, 1000, due=True)
    assert [cycle(database, "timeouts", brake_pauses_after=0).counts["failed"] for _ in range(5)] == [100] * 5
    assert pauses_of(database, "timeouts") == []


@pytest.mark.parametrize(("name", "braked"), [("cleanup", "decisions"), ("submit_pool_cleanup", "pools")])
def test_agents_that_remove_rows_pause_as_well(database: Database, name: str, braked: str) -> None:
    old = NOW - timedelta(days=400)
    if name == "cleanup":
        values = {"old": old, "due": 1000}
        with database.begin() as connection:
            connection.execute(
                sa.text(_INSERTS["decisions"] + " FROM generate_series(1, CAST(:due AS int)) AS n"), values
            )
    else:
        execute(
            database,
            "INSERT INTO broker.submit_pools (pool_id, vo, canonical, created_at, last_used_at) "
            "SELECT 'p' || n, 'vo', '{}', :at, :at FROM generate_series(1, 1000) AS n",
            at=old,
        )
    for _ in range(3):
        assert pauses_of(database, name) == []
        cycle(database, name)
    ((_, reason),) = pauses_of(database, name)
    assert braked in reason


def test_fast_rebrokerage(shared_database: Database, caplog: pytest.LogCaptureFixture) -> None:
    fill(shared_database, [*(job(n) for n in range(1, 301)), job(400, "running")], config=[KEY])
    record = cycle(shared_database, "fast_rebrokerage")
    assert (record.counts["moved"], record.counts["held_back"]) == (100, record.counts["picked"] - 100)
    assert record.counts["picked"] > 200
    assert len(closed_jobs(shared_database)) == 100
    (alarm,) = alarms(caplog)
    assert (alarm["agent"], alarm["allowed"], alarm["there_are"]) == ("fast_rebrokerage", 100, 301)


def test_analysis_rebrokerage(shared_database: Database, caplog: pytest.LogCaptureFixture) -> None:
    fill(shared_database, [user_job(n) for n in range(1, 151)])
    record = cycle(shared_database, "analysis_rebrokerage")
    assert (record.counts["picked"], record.counts["moved"], record.counts["held_back"]) == (150, 100, 50)
    assert len(alarms(caplog)) == 1
    assert cycle(shared_database, "analysis_rebrokerage", force=True).counts["moved"] == 50
    assert len(closed_jobs(shared_database)) == 150


_INSERTS = {
    "decisions": "INSERT INTO broker.decisions (jeditaskid, brokerage, outcome, decided_at) SELECT n, 'b', 'o', :old",
    "job_actions": "INSERT INTO broker.job_actions (pandaid, agent, rule, action, code, acted_at)"
    " SELECT n, 'a', 'r', 'failed', 1, :old",
    "snapshots": "INSERT INTO broker.snapshots (id, taken_at, sources) SELECT 's' || n, :old, '{}'",
    "snapshot_blobs": "INSERT INTO broker.snapshot_blobs (sha256, data) SELECT 'h' || n, 'x'",
    "finished_jobs": "INSERT INTO doma_panda.jobsarchived4 (pandaid, jobstatus, modificationtime)"
    " SELECT n, 'failed', CAST(:old AS timestamptz) AT TIME ZONE 'UTC'",
}


@pytest.mark.parametrize("kind", _INSERTS)
@pytest.mark.parametrize(("due", "removed"), [(0, 0), (100, 100), (102, 100), (3_000, 150)])
def test_cleanup(database: Database, caplog: pytest.LogCaptureFixture, kind: str, due: int, removed: int) -> None:
    values = {"old": NOW - timedelta(days=400), "due": due}
    with database.begin() as connection:
        connection.execute(sa.text(_INSERTS[kind] + " FROM generate_series(1, CAST(:due AS int)) AS n"), values)
        if kind == "snapshots" and due:
            connection.execute(sa.text("INSERT INTO broker.snapshots (id, taken_at) VALUES ('newest', now())"))
    record = cycle(database, "cleanup")
    assert (record.outcome, record.error, record.counts[kind]) == ("done", None, removed)
    if due == removed:
        assert alarms(caplog) == []
        return
    (alarm,) = alarms(caplog)
    assert (alarm["kind"], alarm["due"], alarm["allowed"]) == (kind, due, removed)
    assert any(note.startswith(f"brake: {due} {kind} are due") for note in record.notes)
    assert cycle(database, "cleanup", force=True).counts[kind] == due - removed
    assert alarms(caplog) == []


def test_cleanup_of_snapshots_over_their_budget(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    with database.begin() as connection:
        for number in range(130):
            values = {"id": f"s{number}", "at": NOW - timedelta(seconds=number), "hash": f"h{number}"}
            large = "decode(repeat('00', 20000), 'hex')"
            connection.execute(
                sa.text(f"INSERT INTO broker.snapshot_blobs (sha256, data) VALUES (:hash, {large})"), values
            )
            sources = "jsonb_build_object('parts', jsonb_build_object('queues', CAST(:hash AS text)))"
            connection.execute(
                sa.text(f"INSERT INTO broker.snapshots (id, taken_at, sources) VALUES (:id, :at, {sources})"), values
            )
    record = cycle(database, "cleanup", snapshots_budget_mib=0.1)
    assert record.counts["snapshots_over_budget"] == 100
    (alarm,) = alarms(caplog)
    assert (alarm["kind"], alarm["due"]) == ("snapshots_over_budget", 129)


def test_pools(shared_database: Database, caplog: pytest.LogCaptureFixture) -> None:
    emptied(shared_database)
    execute(
        shared_database,
        "INSERT INTO broker.submit_pools (pool_id, vo, canonical, created_at, last_used_at) "
        "SELECT 'p' || n, 'vo', '{}', :at, :at FROM generate_series(1, 130) AS n",
        at=NOW - timedelta(days=1),
    )
    record = cycle(shared_database, "submit_pool_cleanup")
    assert record.counts["removed"] == 100
    (alarm,) = alarms(caplog)
    assert (alarm["kind"], alarm["due"], alarm["there_are"]) == ("pools", 130, 130)
    assert cycle(shared_database, "submit_pool_cleanup", force=True).counts["removed"] == 30
