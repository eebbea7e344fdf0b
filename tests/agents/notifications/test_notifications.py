"""What the agent tells, of what, when, how often, and under which number."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from agents.notifications.delivering import deliver
from agents.notifications.notifications import readers
from agents.service import fault_points
from broker.domain.incident import Incident
from broker.store.connection.database import Database
from broker.store.query_context import Asking
from tests.agents.notifications.telling import FAILING, NOW, PLAIN, Told, cycle, rows
from tests.notifications.web_server import receiver

STATES = "SELECT event, channel, state, tries FROM broker.notifications ORDER BY id"


def ruled(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**PLAIN, "rules": list(rules), **more}


def test_an_incident_is_told_once_and_so_is_its_end(database: Database) -> None:
    told = Told()
    for minutes in (0, 1, 2):
        assert cycle(database, told, FAILING, minutes=minutes).outcome == "done"
    assert told.events == [("ops", "opened", "BNL")]
    cycle(database, told, minutes=4)  # it may come back
    cycle(database, told, FAILING, minutes=5)
    cycle(database, told, minutes=9)
    assert len(told.messages) == 1
    cycle(database, told, minutes=11)
    assert told.events == [("ops", "opened", "BNL"), ("ops", "resolved", "BNL")]
    first, last = (message for _, _, message in told.messages)
    assert first.incident == last.incident
    assert (first.delivery, last.delivery) == (f"{first.incident}.opened", f"{first.incident}.resolved")
    cycle(database, told, FAILING, minutes=12)
    assert len({message.incident for _, _, message in told.messages}) == 2


def test_two_rules_tell_a_channel_once_and_graver_tells_more_channels(database: Database) -> None:
    told = Told()
    settings = ruled(
        {"name": "a", "to": ["ops"], "alarms": ["*"]},
        {"name": "b", "to": ["ops"], "alarms": ["queue_*"]},
        {"name": "c", "to": ["room"], "alarms": ["*"], "severity": "critical"},
    )
    cycle(database, told, FAILING, settings=settings)
    cycle(database, told, replace(FAILING, severity="critical"), minutes=1, settings=settings)
    assert told.events == [("ops", "opened", "BNL"), ("room", "opened", "BNL")]
    assert len({message.incident for _, _, message in told.messages}) == 1


def test_what_is_over_before_it_may_be_told_is_not_told(database: Database) -> None:
    told = Told()
    quiet = {"from": "11:00", "to": "13:00"}
    settings = ruled({"name": "a", "to": ["ops"], "alarms": ["*"], "quiet": quiet})
    other = replace(FAILING, about="CERN")
    cycle(database, told, FAILING, other, settings=settings)
    cycle(database, told, other, minutes=30, settings=settings)
    cycle(database, told, other, minutes=59, settings=settings)
    assert told.events == []
    cycle(database, told, other, minutes=60, settings=settings)
    assert told.events == [("ops", "opened", "CERN")]
    assert rows(database, STATES)[0] == ("opened", "ops", "dropped", 0)


def test_what_lasts_too_short_and_too_few_tasks_are_not_told(database: Database) -> None:
    told = Told()
    settings = ruled(
        {"name": "slow", "to": ["ops"], "alarms": ["*"], "lasts_min": 10},
        {"name": "memory", "to": ["room"], "reasons": ["lowmemory"], "tasks": 5, "resolved": False},
    )
    few = Incident("reason", "lowmemory", "", "warning", "4 tasks wait", tasks=4)
    many = replace(few, tasks=5)
    cycle(database, told, FAILING, few, minutes=9, settings=settings)
    assert told.events == []
    cycle(database, told, FAILING, many, minutes=10, settings=settings)
    assert told.events == [("ops", "opened", "BNL"), ("room", "opened", "memory")]
    cycle(database, told, FAILING, few, minutes=30, settings=settings)
    assert len(told.messages) == 2


def test_a_channel_that_is_ill_is_asked_once_a_cycle_with_longer_and_longer_pauses(database: Database) -> None:
    told = Told(ill={"ops"})
    others = [replace(FAILING, about=f"Q{number}") for number in range(3)]
    settings = ruled({"name": "a", "to": ["ops", "room"], "alarms": ["*"]})
    found = cycle(database, told, *others, settings=settings)
    assert (found.counts["failed"], found.counts["held_back"], found.counts["delivered"]) == (1, 2, 3)
    assert any("it is ill" in note for note in found.notes)
    tried = [
        cycle(database, told, FAILING, minutes=number / 2, settings=ruled()).counts["failed"] for number in range(1, 40)
    ]
    assert 0 < sum(tried) < 39
    assert max(row[3] for row in rows(database, STATES)) > 2
    told.ill.clear()
    cycle(database, told, minutes=60, settings=ruled())
    ops = [message.delivery for name, _, message in told.messages if name == "ops"]
    assert len(ops) == len(set(ops)) == 3


def test_a_message_is_given_up_after_its_time_and_the_channel_is_an_alarm(database: Database) -> None:
    told = Told(ill={"ops"})
    settings = ruled({"name": "a", "to": ["ops"], "alarms": ["*"]}, give_up_h=1, longest_pause_s=60)
    for minutes in range(0, 64, 2):
        cycle(database, told, FAILING, minutes=minutes, settings=settings)
    ((_, _, state, tries),) = rows(database, STATES)
    assert state == "given_up" and tries > 10
    with database.read_snapshot() as connection:
        asking = Asking(connection, database.names, NOW, None)
        found = [one for read in readers() for one in read(asking) if one.code == "notifications_failing"]
    assert [one.about for one in found] == ["ops"]
    assert "it is ill" in found[0].sentence
    alone = Told()
    cycle(database, alone, found[0], minutes=65, settings=PLAIN)
    assert alone.events == []


def test_more_than_the_channel_takes_in_an_hour_waits(database: Database) -> None:
    told = Told()
    ops = {**PLAIN["channels"]["ops"], "most_per_hour": 2}
    settings = {**PLAIN, "channels": {"ops": ops, "room": ops}}
    found = [replace(FAILING, about=f"Q{number}", severity="info") for number in range(2)]
    found += [replace(FAILING, about=f"G{number}", severity="critical") for number in range(2)]
    settings["rules"] = [{"name": "all", "to": ["ops"], "alarms": ["*"], "severity": "info"}]
    assert cycle(database, told, *found, settings=settings).counts["held_back"] == 2
    assert [about for _, _, about in told.events] == ["G0", "G1"]
    cycle(database, told, *found, minutes=59, settings=settings)
    assert len(told.messages) == 2
    cycle(database, told, *found, minutes=61, settings=settings)
    assert [about for _, _, about in told.events] == ["G0", "G1", "Q0", "Q1"]


def test_the_end_is_never_told_before_the_beginning(database: Database) -> None:
    told = Told(ill={"ops"})
    cycle(database, told, FAILING)
    told.ill.clear()
    with database.begin() as connection:  # the beginning is to be tried again much later
        connection.execute(
            sa.text("UPDATE broker.notifications SET not_before = :late"), {"late": NOW + timedelta(hours=1)}
        )
    cycle(database, told, minutes=10)
    assert rows(database, "SELECT event, state FROM broker.notifications ORDER BY id") == [
        ("opened", "waiting"),
        ("resolved", "waiting"),
    ]
    assert told.events == []
    for minutes in (61, 62):
        cycle(database, told, minutes=minutes)
    assert told.events == [("ops", "opened", "BNL"), ("ops", "resolved", "BNL")]


def test_a_message_by_a_channel_that_is_gone_is_dropped(database: Database) -> None:
    told = Told(ill={"ops"})
    cycle(database, told, FAILING)
    gone = {"channels": {}, "rules": []}
    cycle(database, told, minutes=1, settings=gone)
    assert rows(database, STATES) == [("opened", "ops", "dropped", 1)]


def test_a_process_that_dies_after_the_delivery_tells_again_under_the_same_number(database: Database) -> None:
    told = Told()
    fault_points.arm({"BROKER_FAULT": "after_delivery:raise"})
    assert cycle(database, told, FAILING).outcome == "failed"
    fault_points.disarm()
    assert rows(database, STATES) == [("opened", "ops", "waiting", 1)]
    cycle(database, told, FAILING, minutes=1)
    deliveries = [message.delivery for _, _, message in told.messages]
    assert len(deliveries) == 2 and len(set(deliveries)) == 1
    assert rows(database, STATES) == [("opened", "ops", "delivered", 2)]


def test_a_server_that_is_down_gets_the_message_when_it_is_back(database: Database, tmp_path: Any) -> None:
    (tmp_path / "secret").write_text("s")
    with receiver() as web:
        port = web.port
    hook = {"kind": "webhook", "address": f"http://127.0.0.1:{port}/h", "secret_file": str(tmp_path / "secret")}
    settings = {"channels": {"hook": hook}, "rules": [{"name": "all", "to": ["hook"], "alarms": ["*"]}]}
    assert cycle(database, None, FAILING, settings=settings, deliver=deliver).counts["failed"] == 1
    with receiver(port=port) as web:
        found = cycle(database, None, FAILING, minutes=1, settings=settings, deliver=deliver)
        assert found.counts["delivered"] == 1, found
    assert [one["about"] for one in web.documents] == ["BNL"]


def test_a_dry_run_tells_nobody(database: Database) -> None:
    told = Told()
    assert cycle(database, told, FAILING, dry=True).counts["incidents"] == 1
    assert (told.messages, rows(database, "SELECT 1 FROM broker.incidents")) == ([], [])


def test_more_incidents_than_are_kept_leave_the_lightest_out(database: Database) -> None:
    told = Told()
    found = [FAILING, replace(FAILING, about="GRAVE", severity="critical")]
    cycle(database, told, *found, options={"incidents_of_a_cycle": 1})
    assert told.events == [("ops", "opened", "GRAVE")]


def test_what_is_so_now_is_read_from_alarms_and_reasons(database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO broker.agent_pauses (agent, reason, editor, set_at, until) "
            "VALUES ('timeouts', 'because', 'ann', clock_timestamp(), clock_timestamp() + interval '1 day')"
        )
    with database.read_snapshot() as connection:
        asking = Asking(connection, database.names, NOW, None)
        found = [one for read in readers() for one in read(asking)]
    (paused,) = [one for one in found if one.code == "agent_paused"]
    assert (paused.kind, paused.about, paused.severity) == ("alarm", "timeouts", "info")
    assert "because" in paused.sentence
