"""What the agent sends: about which incidents, when, how often, and under which delivery number."""

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
from broker.store.query_context import QueryContext
from tests.agents.notifications.telling import FAILING, NOW, PLAIN, Told, cycle, rows
from tests.notifications.web_server import receiver

STATES = "SELECT event, channel, state, tries FROM broker.notifications ORDER BY id"


def settings_of(*rules: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**PLAIN, "rules": list(rules), **changes}


def test_an_incident_is_sent_once_and_so_is_its_end(database: Database) -> None:
    outbox = Told()
    for minutes in (0, 1, 2):
        assert cycle(database, outbox, FAILING, minutes=minutes).outcome == "done"
    assert outbox.events == [("ops", "opened", "BNL")]
    cycle(database, outbox, minutes=4)  # the incident may come back
    cycle(database, outbox, FAILING, minutes=5)
    cycle(database, outbox, minutes=9)
    assert len(outbox.messages) == 1
    cycle(database, outbox, minutes=11)
    assert outbox.events == [("ops", "opened", "BNL"), ("ops", "resolved", "BNL")]
    first, last = (message for _, _, message in outbox.messages)
    assert first.incident == last.incident
    assert (first.delivery, last.delivery) == (f"{first.incident}.opened", f"{first.incident}.resolved")
    cycle(database, outbox, FAILING, minutes=12)
    assert len({message.incident for _, _, message in outbox.messages}) == 2


def test_two_rules_send_once_to_a_channel_and_a_higher_severity_reaches_more_channels(database: Database) -> None:
    outbox = Told()
    settings = settings_of(
        {"name": "a", "to": ["ops"], "alarms": ["*"]},
        {"name": "b", "to": ["ops"], "alarms": ["queue_*"]},
        {"name": "c", "to": ["room"], "alarms": ["*"], "severity": "critical"},
    )
    cycle(database, outbox, FAILING, settings=settings)
    cycle(database, outbox, replace(FAILING, severity="critical"), minutes=1, settings=settings)
    assert outbox.events == [("ops", "opened", "BNL"), ("room", "opened", "BNL")]
    assert len({message.incident for _, _, message in outbox.messages}) == 1


def test_an_incident_that_ends_within_the_quiet_hours_is_not_sent(database: Database) -> None:
    outbox = Told()
    quiet = {"from": "11:00", "to": "13:00"}
    settings = settings_of({"name": "a", "to": ["ops"], "alarms": ["*"], "quiet": quiet})
    lasting = replace(FAILING, about="CERN")
    cycle(database, outbox, FAILING, lasting, settings=settings)
    cycle(database, outbox, lasting, minutes=30, settings=settings)
    cycle(database, outbox, lasting, minutes=59, settings=settings)
    assert outbox.events == []
    cycle(database, outbox, lasting, minutes=60, settings=settings)
    assert outbox.events == [("ops", "opened", "CERN")]
    assert rows(database, STATES)[0] == ("opened", "ops", "dropped", 0)


def test_short_incidents_and_reasons_of_few_tasks_are_not_sent(database: Database) -> None:
    outbox = Told()
    settings = settings_of(
        {"name": "slow", "to": ["ops"], "alarms": ["*"], "lasts_min": 10},
        {"name": "memory", "to": ["room"], "reasons": ["lowmemory"], "tasks": 5, "resolved": False},
    )
    few = Incident("reason", "lowmemory", "", "warning", "4 tasks wait", tasks=4)
    many = replace(few, tasks=5)
    cycle(database, outbox, FAILING, few, minutes=9, settings=settings)
    assert outbox.events == []
    cycle(database, outbox, FAILING, many, minutes=10, settings=settings)
    assert outbox.events == [("ops", "opened", "BNL"), ("room", "opened", "memory")]
    cycle(database, outbox, FAILING, few, minutes=30, settings=settings)
    assert len(outbox.messages) == 2


def test_a_failing_channel_is_tried_once_a_cycle_with_longer_and_longer_pauses(database: Database) -> None:
    outbox = Told(ill={"ops"})
    incidents = [replace(FAILING, about=f"Q{number}") for number in range(3)]
    settings = settings_of({"name": "a", "to": ["ops", "room"], "alarms": ["*"]})
    record = cycle(database, outbox, *incidents, settings=settings)
    assert (record.counts["failed"], record.counts["held_back"], record.counts["delivered"]) == (1, 2, 3)
    assert any("it is ill" in note for note in record.notes)
    failures = [
        cycle(database, outbox, FAILING, minutes=number / 2, settings=settings_of()).counts["failed"]
        for number in range(1, 40)
    ]
    assert 0 < sum(failures) < 39
    assert max(row[3] for row in rows(database, STATES)) > 2
    outbox.ill.clear()
    cycle(database, outbox, minutes=60, settings=settings_of())
    ops = [message.delivery for name, _, message in outbox.messages if name == "ops"]
    assert len(ops) == len(set(ops)) == 3


def test_a_message_is_given_up_after_its_time_and_its_channel_raises_an_alarm(database: Database) -> None:
    outbox = Told(ill={"ops"})
    settings = settings_of({"name": "a", "to": ["ops"], "alarms": ["*"]}, give_up_h=1, longest_pause_s=60)
    for minutes in range(0, 64, 2):
        cycle(database, outbox, FAILING, minutes=minutes, settings=settings)
    ((_, _, state, tries),) = rows(database, STATES)
    assert state == "given_up" and tries > 10
    with database.read_snapshot() as connection:
        query = QueryContext(connection, database.names, NOW, None)
        alarms = [
            incident for read in readers() for incident in read(query) if incident.code == "notifications_failing"
        ]
    assert [incident.about for incident in alarms] == ["ops"]
    assert "it is ill" in alarms[0].sentence
    other_outbox = Told()
    cycle(database, other_outbox, alarms[0], minutes=65, settings=PLAIN)
    assert other_outbox.events == []


def test_messages_beyond_the_hourly_limit_of_a_channel_wait(database: Database) -> None:
    outbox = Told()
    ops = {**PLAIN["channels"]["ops"], "most_per_hour": 2}
    settings = {**PLAIN, "channels": {"ops": ops, "room": ops}}
    incidents = [replace(FAILING, about=f"Q{number}", severity="info") for number in range(2)]
    incidents += [replace(FAILING, about=f"G{number}", severity="critical") for number in range(2)]
    settings["rules"] = [{"name": "all", "to": ["ops"], "alarms": ["*"], "severity": "info"}]
    assert cycle(database, outbox, *incidents, settings=settings).counts["held_back"] == 2
    assert [about for _, _, about in outbox.events] == ["G0", "G1"]
    cycle(database, outbox, *incidents, minutes=59, settings=settings)
    assert len(outbox.messages) == 2
    cycle(database, outbox, *incidents, minutes=61, settings=settings)
    assert [about for _, _, about in outbox.events] == ["G0", "G1", "Q0", "Q1"]


def test_the_end_is_never_sent_before_the_beginning(database: Database) -> None:
    outbox = Told(ill={"ops"})
    cycle(database, outbox, FAILING)
    outbox.ill.clear()
    with database.begin() as connection:  # the first message is due again only much later
        connection.execute(
            sa.text("UPDATE broker.notifications SET not_before = :late"), {"late": NOW + timedelta(hours=1)}
        )
    cycle(database, outbox, minutes=10)
    assert rows(database, "SELECT event, state FROM broker.notifications ORDER BY id") == [
        ("opened", "waiting"),
        ("resolved", "waiting"),
    ]
    assert outbox.events == []
    for minutes in (61, 62):
        cycle(database, outbox, minutes=minutes)
    assert outbox.events == [("ops", "opened", "BNL"), ("ops", "resolved", "BNL")]


def test_a_message_for_a_removed_channel_is_dropped(database: Database) -> None:
    outbox = Told(ill={"ops"})
    cycle(database, outbox, FAILING)
    gone = {"channels": {}, "rules": []}
    cycle(database, outbox, minutes=1, settings=gone)
    assert rows(database, STATES) == [("opened", "ops", "dropped", 1)]


def test_a_process_that_dies_after_the_delivery_sends_again_under_the_same_number(database: Database) -> None:
    outbox = Told()
    fault_points.arm({"BROKER_FAULT": "after_delivery:raise"})
    assert cycle(database, outbox, FAILING).outcome == "failed"
    fault_points.disarm()
    assert rows(database, STATES) == [("opened", "ops", "waiting", 1)]
    cycle(database, outbox, FAILING, minutes=1)
    deliveries = [message.delivery for _, _, message in outbox.messages]
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
        record = cycle(database, None, FAILING, minutes=1, settings=settings, deliver=deliver)
        assert record.counts["delivered"] == 1, record
    assert [document["about"] for document in web.documents] == ["BNL"]


def test_a_dry_run_sends_nothing(database: Database) -> None:
    outbox = Told()
    assert cycle(database, outbox, FAILING, dry=True).counts["incidents"] == 1
    assert (outbox.messages, rows(database, "SELECT 1 FROM broker.incidents")) == ([], [])


def test_beyond_the_limit_the_least_severe_incidents_are_left_out(database: Database) -> None:
    outbox = Told()
    incidents = [FAILING, replace(FAILING, about="GRAVE", severity="critical")]
    cycle(database, outbox, *incidents, options={"incidents_of_a_cycle": 1})
    assert outbox.events == [("ops", "opened", "GRAVE")]


def test_current_incidents_are_read_from_alarms_and_reasons(database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO broker.agent_pauses (agent, reason, editor, set_at, until) "
            "VALUES ('timeouts', 'because', 'ann', clock_timestamp(), clock_timestamp() + interval '1 day')"
        )
    with database.read_snapshot() as connection:
        query = QueryContext(connection, database.names, NOW, None)
        incidents = [incident for read in readers() for incident in read(query)]
    (paused,) = [incident for incident in incidents if incident.code == "agent_paused"]
    assert (paused.kind, paused.about, paused.severity) == ("alarm", "timeouts", "info")
    assert "because" in paused.sentence
