"""``broker timeouts`` and ``broker why-timeout`` on a loaded grid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.cli.commands import Command, runner
from tests.conftest import TestServer
from tests.lifecycle.lifecycle_grid import DAY, HOUR, ago, store
from tests.store.small_work import all_rows

ACTIVE = [
    {"pandaid": 31, "jobstatus": "sent", "computingsite": "ON", "modificationtime": ago(1801)},
    {"pandaid": 11, "jobstatus": "running", "computingsite": "PUSH", "modificationtime": ago(10 * HOUR + 0.5)},
    {"pandaid": 12, "jobstatus": "running", "computingsite": "PAUSED", "modificationtime": ago(9 * DAY)},
    {"pandaid": 13, "jobstatus": "merging", "computingsite": "ON", "modificationtime": ago(9 * DAY)},
]
DEFINED = [{"pandaid": 21, "jobstatus": "pending", "creationtime": ago(2 * HOUR)}]
EXPECTED = [
    {"pandaid": 11, "queue": "PUSH", "status": "running", "rule": "heartbeat", "value_s": 36000.5, "limit_s": 36000.0,
     "action": "failed", "code": 100},
    {"pandaid": 21, "queue": None, "status": "pending", "rule": "pending", "value_s": 7200.0, "limit_s": 3600.0,
     "action": "killed", "code": 4},
    {"pandaid": 31, "queue": "ON", "status": "sent", "rule": "sent", "value_s": 1801.0, "limit_s": 1800.0,
     "action": "failed", "code": 102},
]  # fmt: skip


@pytest.fixture(scope="module")
def grid(test_server: TestServer) -> Iterator[Database]:
    with test_server.opened(test_server.create()) as database:
        store(database, ACTIVE, DEFINED)
        yield database


SCENARIO = ("--at", "scenario")


@pytest.fixture
def command(grid: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", grid.url)


def objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_one_object_per_job_by_pandaid(command: Command, grid: Database) -> None:
    for options in (SCENARIO, (*SCENARIO, "--dry-run"), ("--at", "2026-08-01T12:00:00")):
        result = command("timeouts", *options, "--json")
        assert result.status == 0
        assert ("clock: 2026-08-01 12:00:00 UTC" in result.err) == ("scenario" in options)
        assert objects(result.out) == EXPECTED
        assert [list(entry) for entry in objects(result.out)] == [list(entry) for entry in EXPECTED]
    assert len(all_rows(grid, "SELECT 1 FROM doma_panda.jobsactive4")) == len(ACTIVE)


def test_at_another_time(command: Command) -> None:
    assert objects(command("timeouts", "--at", "2026-08-01T11:59:58+00:00", "--json").out) == [
        {**EXPECTED[1], "value_s": 7198.0}
    ]
    for invalid in ("tomorrow", "0001-01-01T00:00:00+05:00"):
        assert command("timeouts", "--at", invalid).status == 2


def test_a_table_in_the_order_of_the_rules(command: Command) -> None:
    result = command("timeouts", *SCENARIO)
    assert result.status == 0
    assert [line.split()[:2] for line in result.out.splitlines() if line.strip()[-1:].isdigit()] == [
        ["sent", "31"], ["heartbeat", "11"], ["pending", "21"]
    ]  # fmt: skip
    assert "3 jobs, sent 1, heartbeat 1, pending 1" in result.err


def test_why_says_when_each_rule_fires(command: Command) -> None:
    rules = {entry["rule"]: entry for entry in objects(command("why-timeout", "11", *SCENARIO, "--json").out)}
    assert rules["heartbeat"] == {
        **EXPECTED[0], "fires_at": "2026-08-01T11:59:59.500000Z", "fired": True, "acts": True, "excused": []
    }  # fmt: skip
    assert rules["running"]["excused"] == ["time_unknown"]
    assert rules["sent"]["excused"] == ["status"]
    table = command("why-timeout", "11", *SCENARIO)
    assert "Job 11: running at PUSH" in table.out and "acts" in table.out and "sent" not in table.out


def test_why_names_the_exceptions(command: Command) -> None:
    rules = {entry["rule"]: entry for entry in objects(command("why-timeout", "12", *SCENARIO, "--json").out)}
    assert (rules["heartbeat"]["excused"], rules["heartbeat"]["fires_at"]) == (["paused"], None)
    assert "paused" in command("why-timeout", "12", *SCENARIO).out
    assert "no rule looks at jobs that are merging" in command("why-timeout", "13", *SCENARIO).err


def test_why_shows_earlier_actions(command: Command, grid: Database) -> None:
    statement = """
        INSERT INTO broker.job_actions (agent, pandaid, rule, action, code, value_s, limit_s, acted_at)
        VALUES ('timeouts', 77, 'sent', 'failed', 102, 1900, 1800, '2026-08-01 10:00+00')"""
    with grid.begin() as connection:
        connection.execute(sa.text(statement))
    (action,) = objects(command("why-timeout", "77", *SCENARIO, "--json").out)
    assert (action["pandaid"], action["rule"], action["acted_at"]) == (77, "sent", "2026-08-01T10:00:00Z")
    assert "What was done" in command("why-timeout", "77", *SCENARIO).out
    assert command("why-timeout", "77", "--at", "2026-08-01T09:00:00").status == 4
    unknown = command("why-timeout", "78", *SCENARIO)
    assert unknown.status == 4 and "no job 78" in unknown.err


def test_without_queues_the_list_is_shown_with_a_note(command: Command, grid: Database) -> None:
    store(grid, ACTIVE[:1], schedconfig_json=[])
    result = command("timeouts", *SCENARIO, "--json")
    assert (result.status, len(objects(result.out))) == (0, 1)
    assert "source queues is missing" in result.err
    store(grid, ACTIVE, DEFINED)


def ages(out: str) -> list[float]:
    return [entry["value_s"] for entry in objects(out)]


CLOCK_OF_THE_SCENARIO = "clock: 2026-08-01 12:00:00 UTC"


@pytest.mark.parametrize(
    ("words", "without_is_scenario"),
    [
        (("timeouts",), False),
        (("why-timeout", "11"), False),
        (("run", "timeouts", "--dry-run"), True),
        (("replay", "--last", "24h"), True),
        (("classes",), False),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_every_command_interprets_at_now_and_at_scenario_alike(
    command: Command, words: tuple[str, ...], without_is_scenario: bool
) -> None:
    for at_option, is_scenario in ((("--at", "now"), False), (SCENARIO, True), ((), without_is_scenario)):
        messages = command(*words, *at_option, "--json").err
        assert (CLOCK_OF_THE_SCENARIO in messages) is is_scenario, at_option
        assert messages.count("clock:") == is_scenario


def test_run_timeouts_and_timeouts_use_the_same_clock(command: Command) -> None:
    run_words = ("run", "timeouts", "--dry-run", "--force", "--json")
    for at in (("--at", "now"), SCENARIO):
        listing, run = command("timeouts", *at, "--json"), command(*run_words, *at)
        assert len(ages(listing.out)) >= len(EXPECTED), listing.err
        assert [entry["pandaid"] for entry in objects(listing.out)] == [
            entry["pandaid"] for entry in objects(run.out)
        ], run.err
    scenario, now = (max(ages(command("timeouts", "--at", at, "--json").out)) for at in ("scenario", "now"))
    assert now > scenario + DAY
