"""Decisions over STOMP: each at least once under one number, in order, since the channel began; gaps are reported."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agents.notifications.publishing import OF_A_BATCH
from broker.api.plain import plain
from broker.codec.compression import pack_work
from broker.decisions.answers.decision import task_decision
from broker.domain.decisions import DecisionRecord, Origin
from broker.notifications.answers.findings import notification_findings
from broker.notifications.answers.messages import channel_states, fails
from broker.notifications.answers.streams import stream_list
from broker.notifications.statements.stream_rows import StreamLine
from broker.service.statements.metric_health import read_health
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing
from broker.store.query_context import QueryContext
from tests.agents.notifications.telling import NOW, cycle, rows
from tests.notifications.stomp_server import StompServer, stomp_server
from tests.store.decisions.packed_records import brokered, waiting

Run = Callable[..., Any]


@pytest.fixture
def server() -> Iterator[StompServer]:
    with stomp_server() as stomp:
        yield stomp


@pytest.fixture
def run(database: Database, server: StompServer) -> Run:
    """Runs a cycle of a process that has just been started."""

    def run(minutes: float = 0, dry: bool = False, most: int = 5000, **filters: Any) -> Any:
        mq = {"kind": "stomp", "host": "127.0.0.1", "port": server.port, "security": "none", "time_limit_s": 20,
              "destination": "/topic/decisions", "decisions": filters}  # fmt: skip
        settings = {"channels": {"mq": mq}, "first_pause_s": 60, "longest_pause_s": 60}
        options = {"decisions_of_a_cycle": most}
        record = cycle(database, None, minutes=minutes, settings=settings, options=options, dry=dry)
        assert record.outcome == "done", record
        return record

    return run


def store(database: Database, *records: DecisionRecord, minutes: float = 0) -> None:
    origin = Origin(1, NOW + timedelta(minutes=minutes), "snapshot", 3, 9, "1")
    with database.begin() as connection:
        decision_writing.save(Database.raw(connection), origin, records)


def decision_in_share(task: int, share: str, vo: str = "atlas", brokerage: str = "production_job") -> DecisionRecord:
    work = pack_work(json.dumps({"c": {"vo": [vo], "gshare": [share]}}).encode())
    record = brokered(task, work)
    return dataclasses.replace(record, decision=dataclasses.replace(record.decision, brokerage=brokerage))


def tasks(server: StompServer) -> list[int]:
    return [json.loads(body)["jeditaskid"] for _, body in server.sent]


def stream_of(database: Database) -> StreamLine:
    with database.read_snapshot() as connection:
        (stream,) = stream_list(QueryContext(connection, database.names, NOW)).streams
    return stream


def test_decisions_from_now_on_go_out_once_and_in_order(database: Database, server: StompServer, run: Run) -> None:
    store(database, brokered(1))
    assert any("from now on" in note for note in run().notes)
    store(database, brokered(2), waiting(3), minutes=1)
    assert run(2).counts["decisions_sent"] == 2
    store(database, brokered(4), minutes=3)
    assert stream_of(database).state == "behind" and stream_of(database).backlog == 1
    for minutes in (4, 5):
        run(minutes)
    assert tasks(server) == [2, 3, 4]
    numbers = [headers["X-Gridbroker-Delivery"] for headers, _ in server.sent]
    assert numbers == [headers["receipt"] for headers, _ in server.sent] and len(set(numbers)) == 3
    stream = stream_of(database)
    assert (stream.state, stream.sent, stream.backlog, stream.tries, stream.lost) == ("sent", 3, 0, 0, 0)


def test_a_body_is_the_decision_as_the_api_answers_it_and_never_changes(
    database: Database, server: StompServer, run: Run
) -> None:
    run()
    store(database, waiting(1), minutes=1)
    with database.read_snapshot() as connection:
        (decision,) = task_decision(QueryContext(connection, database.names, NOW), 1, evaluate=False).decisions
    store(database, waiting(1), minutes=2)  # seen again: no new row
    store(database, brokered(1), minutes=3)  # the earlier row now says how often it was seen
    run(4)
    (headers, body), _ = server.sent
    expected = plain(decision) | {"position": None, "missing": []}
    assert json.loads(body) == expected and expected["times_seen"] == 1
    assert headers["X-Gridbroker-Decision"] == str(expected["id"])
    assert (headers["content-type"], headers["destination"]) == ("application/json", "/topic/decisions")


def test_only_messages_without_a_receipt_are_sent_again_under_the_same_number(
    database: Database, server: StompServer, run: Run
) -> None:
    run()
    store(database, brokered(1), brokered(2), brokered(3), minutes=1)
    server.faults += ["", "cut"]
    failed = run(2)
    assert any("cut before the receipt" in note for note in failed.notes)
    stream = stream_of(database)
    assert (stream.state, stream.sent, stream.tries, stream.backlog) == ("failing", 1, 1, 2)
    assert "cut before the receipt" in str(stream.detail) and stream.failing_since == NOW + timedelta(minutes=2)
    assert run(2.5).counts["held_back"] == 1
    run(4)
    assert tasks(server) == [1, 2, 2, 3]
    assert server.sent[1] == server.sent[2]
    assert (stream_of(database).state, stream_of(database).sent) == ("sent", 3)


def test_a_channel_that_fails_is_an_alarm_a_metric_and_a_finding(
    database: Database, server: StompServer, run: Run
) -> None:
    run()
    store(database, brokered(1), minutes=1)
    server.faults += ["error"] * 3
    for minutes in (2, 4, 6):
        run(minutes)
    with database.read_snapshot() as connection:
        (state,) = channel_states(QueryContext(connection, database.names, NOW))
        assert read_health(connection).streams == [("mq", 0, 0, 1, 1)]
    assert fails(state) and "no such destination" in str(state.detail)


def test_a_filter_names_brokerages_shares_and_vos(database: Database, server: StompServer, run: Run) -> None:
    filters = {"brokerages": ["production_*"], "shares": ["User*"], "vos": ["atlas"]}
    run(**filters)
    store(
        database, decision_in_share(1, "User Analysis"), decision_in_share(2, "Express"),
        decision_in_share(3, "User", vo="cms"), brokered(4), decision_in_share(5, "User", brokerage="analysis_job"),
        decision_in_share(6, "User"), minutes=1,
    )  # fmt: skip
    run(2, **filters)
    assert sorted(tasks(server)) == [1, 6]
    assert stream_of(database).unknown == 1 and stream_of(database).backlog == 0


def test_batches_are_bounded_and_the_next_cycle_goes_on(database: Database, server: StompServer, run: Run) -> None:
    run()
    store(database, *(brokered(number) for number in range(OF_A_BATCH + 5)), minutes=1)
    assert run(2, most=OF_A_BATCH + 2).counts["decisions_sent"] == OF_A_BATCH + 2
    assert len(server.connected) == 2
    assert run(3, most=OF_A_BATCH + 2).counts["decisions_sent"] == 3
    assert tasks(server) == list(range(OF_A_BATCH + 5))


def test_decisions_that_are_removed_before_they_are_sent_are_reported(
    database: Database, server: StompServer, run: Run
) -> None:
    run()
    store(database, brokered(1), brokered(2), minutes=1)
    store(database, brokered(3), minutes=2)
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.decisions WHERE jeditaskid < 3"))
    record = run(3)
    assert any("at most 2 decisions were cleared away" in note for note in record.notes)
    assert tasks(server) == [3] and server.sent[0][0]["X-Gridbroker-Lost"] == "2"
    store(database, brokered(4), minutes=4)
    run(5)
    assert "X-Gridbroker-Lost" not in server.sent[1][0]
    assert (stream_of(database).lost, stream_of(database).lost_at) == (2, NOW + timedelta(minutes=3))


def test_decisions_of_a_transaction_that_commits_later_are_not_left_out(
    database: Database, server: StompServer, run: Run
) -> None:
    run()
    with database.begin() as late:
        late.execute(
            sa.text(
                "INSERT INTO broker.decisions (jeditaskid, brokerage, outcome, decided_at) "
                "VALUES (1, 'production_job', 'brokered', :now)"
            ),
            {"now": NOW},
        )
        store(database, brokered(2), minutes=1)
        run(2)
        assert tasks(server) == []
    run(3)
    assert tasks(server) == [1, 2]


def test_a_dry_run_sends_nothing_and_a_channel_that_stops_begins_anew(
    database: Database, server: StompServer, run: Run
) -> None:
    run()
    store(database, brokered(1), minutes=1)
    run(2, dry=True)
    assert server.sent == [] and stream_of(database).backlog == 1
    assert cycle(database, None, minutes=3).outcome == "done"
    assert rows(database, "SELECT channel FROM broker.decision_streams") == []
    run(4)
    store(database, brokered(2), minutes=5)
    run(6)
    assert tasks(server) == [2]


def test_the_doctor_reports_failing_channels_and_lost_decisions(
    database: Database, server: StompServer, run: Run, tmp_path: Any
) -> None:
    run()
    with database.begin() as connection:
        connection.execute(
            sa.text("UPDATE broker.decision_streams SET tries = 3, detail = 'refused', lost = 7, lost_at = :now"),
            {"now": NOW},
        )
    (tmp_path / "notifications.yaml").write_text(
        "channels: {mq: {kind: stomp, host: localhost, security: none, destination: /queue/q, decisions: {}}}"
    )
    problems = [
        finding.what for finding in notification_findings(database, tmp_path, NOW) if finding.level == "problem"
    ]
    assert len(problems) == 2 and "refused" in problems[0] and "at most 7 decisions" in problems[1]
