"""The agents that maintain classes: when they write, and how the brokerage decides by the classes."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from agents.service import registry
from agents.service.base import CycleContext
from agents.service.configuration import ConfigurationError, ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.schema import migrate
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms
from tests.agents.classified_grid import (
    HUGE,
    SAMPLES,
    SHARES,
    at,
    dry_cycle,
    evaluations,
    site,
)
from tests.brokerages.small_grid import FRESH, NOW, TASK, Row, next_cycle
from tests.brokerages.test_analysis_scenarios import SHARE, analysis


def count_rows(database: Database) -> tuple[int, int]:
    """The numbers of all rows of metrics, and of the rows written now."""
    query = sa.text("SELECT count(*), count(*) FILTER (WHERE timestamp = :now) FROM doma_panda.metrics")
    with database.begin() as connection:
        every, fresh = connection.execute(query, {"now": NOW.replace(tzinfo=None)}).one()
    return every, fresh


def test_rows_are_overwritten_not_doubled(database: Database) -> None:
    """Also rows whose unused keys are NULL, and two rows of one key: ours may have them, PanDA's table has none."""
    old = [
        {"metric": "analy_site_eval", "computingsite": "ALPHA_MCORE", "gshare": None},
        {"metric": "analy_site_eval", "computingsite": "ALPHA_MCORE", "gshare": "NULL"},
        {"metric": "analy_user_eval", "computingsite": None, "gshare": None},
        {"metric": "gshare_preference", "computingsite": None, "gshare": SHARE},
        {"metric": "users_jobs_stats", "computingsite": "ALPHA_MCORE", "gshare": SHARE},
    ]
    rows = [row | {"value_json": {"class": 1}, "timestamp": at(30)} for row in old]
    evaluation = {"jeditaskid": TASK, "metric": "analy_task_eval", "value_json": "old", "timestamp": at(30)}
    tables = {"metrics": rows, "task_evaluation": [evaluation], "global_shares": SHARES, "jobsactive4": HUGE}
    load(database, analysis(**SAMPLES, **tables))
    # six rows of two metrics at three queues, one of them twice; one row of users; five rows of shares and an old one
    for name, expected in (("site_class", (10, 7)), ("task_class", (10, 8)), ("share_usage", (14, 13))):
        for _ in range(2):
            assert next_cycle(database, agent=name)[0].outcome == "done"
            assert count_rows(database) == expected
    assert evaluations(database)[TASK]["class"] == -1


def test_nothing_is_written_by_a_dry_run_or_without_the_lease(database: Database) -> None:
    load(database, analysis(**SAMPLES, metrics=[site("ALPHA_MCORE", 1)], global_shares=SHARES, jobsactive4=HUGE))
    for name in ("site_class", "task_class", "share_usage"):
        assert dry_cycle(database, name)[0].outcome == "done"
        with database.begin() as connection:
            lease = leases.acquire(connection, name, "test", LeaseTerms()).lease
            assert lease is not None
        run_id = open_run(database, name, lease)
        with database.begin() as connection:
            connection.execute(sa.text("UPDATE broker.leases SET expires_at = clock_timestamp()"))
        agent = registry.make(name, {}, ProcessSettings())
        context = CycleContext(database, NOW, 1, 60.0, lease=lease, run_id=run_id)
        assert run_cycle(agent, context).outcome == "lost_lease"
        assert count_rows(database) == (1, 0)
    assert evaluations(database) == {}


def test_beside_panda_its_daemons_keep_the_rows(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    load(database, analysis(global_shares=SHARES))
    with database.begin() as connection:
        lease = leases.acquire(connection, "share_usage", "test", LeaseTerms()).lease
    assert lease is not None
    monkeypatch.setattr(migrate, "check", lambda database: "alongside PanDA")
    for written_by, rows in (("auto", 0), ("panda", 0), ("broker", 5)):
        agent = registry.make("share_usage", {"written_by": written_by}, ProcessSettings())
        record = run_cycle(agent, CycleContext(database, NOW, 1, 60.0, lease=lease))
        assert record.outcome == "done"
        assert count_rows(database) == (rows, rows)
        assert any("PanDA's daemons" in note for note in record.notes) is (rows == 0)


def test_options_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="written_by"):
        registry.make("site_class", {"written_by": "nobody"}, ProcessSettings())


def test_the_brokerage_decides_by_the_classes_that_the_agents_wrote(database: Database) -> None:
    """8000 slots at a queue of class hi make class C; the share is over its target: the task is throttled.

    With the share at its target, the new weight sends a task of class C to the queue of class lo.
    """
    switch = {"app": "jedi", "component": "anal_jobbroker", "key": "NEW_BASIC_WEIGHT", "value": "true"}
    switch |= {"type": "boolean", "vo": "atlas"}
    loaded = analysis(**SAMPLES, jobsactive4=HUGE, global_shares=SHARES, config=[switch])
    load(database, loaded)
    for name in ("share_usage", "site_class", "task_class"):
        assert next_cycle(database, agent=name)[0].outcome == "done"
    _, (decision,) = next_cycle(database, agent="analysis_job", dry_run=True)
    assert (decision["outcome"], decision["reason"]) == ("throttled", "throttled_share_usage")
    idle = [row | {"pandaid": 5000 + number, "gshare": "Production"} for number, row in enumerate(HUGE * 3)]
    load(database, analysis(**SAMPLES, jobsactive4=[*HUGE, *idle], global_shares=SHARES, config=[switch]), replace=True)
    for name in ("share_usage", "site_class", "task_class"):
        assert next_cycle(database, agent=name)[0].outcome == "done"
    _, (decision,) = next_cycle(database, agent="analysis_job", dry_run=True)
    assert decision["outcome"] == "brokered"
    weights = {candidate["name"]: candidate["weight"] for candidate in decision["candidates"]}
    assert max(weights, key=lambda name: weights[name]) == "GAMMA_MCORE"
    assert weights["ALPHA_MCORE"] < weights["BETA/SCORE"] < weights["GAMMA_MCORE"]


def test_a_document_of_many_users_is_read(database: Database) -> None:
    """The document has 4000 users and more than a million characters. 150 % is above the limit of a user without
    slots, but below the limit of an unknown user.
    """
    nothing = dict.fromkeys(("nQueue", "nRunning", "slotsQueue", "slotsRunning"), 0)
    site_counts = dict.fromkeys(("A_sites", "B_sites", "C_sites"), nothing)
    users = {
        f"user {number:05d}": {"user": f"user {number:05d}", **site_counts, "rem_slots_A": 9} for number in range(4000)
    }
    users["alice"] = {"rem_slots_A": 0}
    assert len(json.dumps(users)) > 1_000_000
    rows: list[Row] = [
        {"metric": "analy_user_eval", "value_json": users, "computingsite": "NULL", "gshare": "NULL"},
        {"metric": "gshare_preference", "gshare": SHARE, "computingsite": "NULL", "value_json": {"usage_perc": 1.5}},
    ]
    evaluation = {"jeditaskid": TASK, "metric": "analy_task_eval", "value_json": '{"class": 1}', "timestamp": FRESH}
    load(database, analysis(metrics=[row | {"timestamp": FRESH} for row in rows], task_evaluation=[evaluation]))
    _, (decision,) = next_cycle(database, agent="analysis_job", dry_run=True)
    assert decision["reason"] == "throttled_share_usage"
