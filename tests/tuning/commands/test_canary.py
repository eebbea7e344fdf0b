"""``broker config canary``: chosen tasks are brokered with the tried values, and all is told by decisions."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.brokerages.registry import brokerage as brokerage_of, decode_batches, replay_decisions
from broker.store.connection.database import Database
from broker.store.decisions.stored_cycles import stored_cycles
from broker.store.scenarios.load_dump import load
from broker.store.snapshots.stored_snapshots import stored_snapshot
from broker.tuning.statements import canaries
from broker.tuning.statements.gdpconfig_rows import TuningStore
from tests.brokerages.small_grid import TASK
from tests.brokerages.task_grid import cycle_at
from tests.brokerages.test_replay import rules_of
from tests.cli.commands import Command, runner
from tests.whatif.stored import JOBS, SEED, TASKS, assigning_scenario, job_scenario

pytestmark = pytest.mark.slow

NO_QUEUE = "MIN_WEIGHT_managed=1000000"


def share_that_chooses(wanted: int, *tasks: int) -> str:
    """A share by which the first canary chooses one of the tasks and not the others."""
    place = {task: int.from_bytes(hashlib.sha256(f"1:{task}".encode()).digest()[:8], "big") / 2**64 for task in tasks}
    others = [at for task, at in place.items() if task != wanted and at > place[wanted]]
    assert len(others) == len(tasks) - 1, f"no share does; the places are {place}"
    return str((place[wanted] + min(others)) / 2)


def first_chosen(*tasks: int) -> int:
    return min(tasks, key=lambda task: hashlib.sha256(f"1:{task}".encode()).digest()[:8])


@pytest.fixture
def config(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", database.url, "config", "canary", "--at", "scenario")


@pytest.fixture
def loaded(database: Database) -> Database:
    load(database, job_scenario())
    return database


def cycle(
    database: Database, later: timedelta = timedelta(), agent: str = JOBS, **more: Any
) -> dict[int, dict[str, Any]]:
    record, decided = cycle_at(database, later, SEED, agent, **more)
    assert record.outcome == "done", record.error
    return {one["jeditaskid"]: one for one in decided}


def test_chosen_tasks_are_brokered_with_the_values_and_the_rest_as_before(loaded: Database, config: Command) -> None:
    chosen = first_chosen(TASK, TASK + 1)
    (rest,) = {TASK, TASK + 1} - {chosen}
    share = share_that_chooses(chosen, TASK, TASK + 1)
    started = config(NO_QUEUE, "--share", share, "--for", "6h", "--reason", "to see", "--json")
    assert (started.status, "clock: 2026-08-01 12:00:00 UTC" in started.err) == (0, True)
    assert started.document["running"] and started.document["set"] == {"MIN_WEIGHT_managed": 1000000}
    decided = cycle(loaded)
    assert decided[chosen]["outcome"] == "pending" and decided[rest]["outcome"] == "brokered"
    assert decided[chosen]["tuning"] == -1 and decided[rest]["tuning"] == 1
    outcomes = {one["group"]: one for one in config("--json").document["outcomes"]}
    assert outcomes["canary"]["pending"] >= 1 and outcomes["canary"]["brokered"] == 0
    assert outcomes["rest"]["brokered"] == 1 and outcomes["rest"]["jobs"] > 0
    table = config()
    assert "(runs)" in table.out and "canary" in table.out and "to see" in table.out


def test_decisions_of_both_groups_can_be_decided_again(loaded: Database, config: Command) -> None:
    share = share_that_chooses(first_chosen(TASK, TASK + 1), TASK, TASK + 1)
    assert config("NQUEUELIMITSITE_MC Simulation=300", "--share", share, "--for", "6h").status == 0
    cycle(loaded)
    with loaded.begin() as connection:
        found = list(stored_cycles(connection))
        assert sorted({one.origin.tuning for one in found}) == [-1, 1]
        for one in found:
            published = TuningStore(loaded.names).version(connection, one.origin.tuning)
            asked = brokerage_of(JOBS)
            works = decode_batches(asked, [decision.record.work or b"" for decision in one.decisions])
            snapshot = stored_snapshot(connection, one.origin.snapshot or "")
            again = replay_decisions(
                brokerage_of(JOBS), snapshot, published.tuning, works, SEED, rules_of(JOBS), as_stored=True
            )
            assert [two.decision for two in again] == [decision.record.decision for decision in one.decisions]
            assert [two.assigned for two in again] == [decision.record.assigned for decision in one.decisions]
    # what the first task placed was there for the second, whichever group it is of
    placed = [two.before for one in found for two in again if two.before]
    assert placed


def test_what_if_takes_each_group_with_its_own_values(
    loaded: Database, config: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    share = share_that_chooses(first_chosen(TASK, TASK + 1), TASK, TASK + 1)
    assert config("NQUEUELIMITSITE_MC Simulation=300", "--share", share, "--for", "6h").status == 0
    decided = cycle(loaded)
    shown = runner(capsys, "--db", loaded.url)("what-if", "--processes", "1", "--rule", "status=off", "--json")
    total = json.loads(shown.out.splitlines()[-1])
    assert (total["cycles"], total["decisions"]) == (2, 3)
    assert total["jobs"]["before"] == sum(sum(one["assigned"].values()) for one in decided.values())


def test_the_story_of_a_task_says_that_values_were_tried_on_it(
    loaded: Database, config: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config(NO_QUEUE, "--share", "0.999999", "--for", "1h").status == 0
    cycle(loaded)
    cycle(loaded, timedelta(hours=2))
    told = runner(capsys, "--db", loaded.url)("story", str(TASK), "--json")
    versions = [one for one in map(json.loads, told.out.splitlines()) if one["event"] == "tuning"]
    assert [one["about"]["version"] for one in versions] == [-1, 1]
    assert [one["about"]["changes"] for one in versions] == [[], []]
    assert "a canary tries values on the task" in runner(capsys, "--db", loaded.url)("story", str(TASK)).out


def test_it_ends_by_itself_and_can_be_stopped(loaded: Database, config: Command) -> None:
    assert config(NO_QUEUE, "--share", "0.999999", "--for", "6h").status == 0
    assert {one["tuning"] for one in cycle(loaded, dry_run=True).values()} == {0}  # a dry run makes no version
    assert {one["tuning"] for one in cycle(loaded, timedelta(hours=6), dry_run=True).values()} == {1}
    second = config(NO_QUEUE, "--share", "0.5", "--for", "1h")
    assert second.status == 3 and "canary 1 runs until 2026-08-01T18:00:00" in second.err
    assert config("--stop", "--json").document["running"] is False
    assert config("--stop").status == 3
    assert {one["tuning"] for one in cycle(loaded, dry_run=True).values()} == {1}
    assert config(NO_QUEUE, "--share", "0.5", "--for", "1h", "--json").document["canary"] == 2


def test_no_two_overlap_whenever_they_begin(
    loaded: Database, config: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    def canary(*words: str) -> tuple[int, str]:
        done = runner(capsys, "--db", loaded.url)("config", "canary", *words)
        return done.status, done.err

    def start(hour: int, hours: int) -> tuple[int, str]:
        return canary(NO_QUEUE, "--share", "0.5", "--for", f"{hours}h", "--at", f"2026-08-01T{hour}:00:00+00:00")

    assert start(16, 2)[0] == 0
    refused = start(14, 3)
    assert refused[0] == 3 and "canary 1 runs from 2026-08-01T16:00:00+00:00 until 2026-08-01T18:00:00" in refused[1]
    assert "--stop --at 2026-08-01T16:00:00+00:00" in refused[1]
    assert start(14, 6)[0] == start(17, 2)[0] == 3
    assert start(14, 2)[0] == 0 and start(18, 1)[0] == 0  # each ends as the next begins
    planned = config("--stop")
    assert planned.status == 3 and "canary 2 begins at 2026-08-01T14:00:00+00:00" in planned.err
    assert canary("--stop", "--at", "2026-08-01T15:00:00+00:00")[0] == 0
    assert start(15, 1)[0] == 0  # the one before ends an hour earlier now
    assert canary("--stop", "--at", "2026-08-01T16:00:00+00:00")[0] == 0
    assert start(16, 2)[0] == 0  # the one that never began is in nobody's way
    with loaded.begin() as connection:
        before = canaries.running(connection, datetime(2026, 8, 1, 15, 30, tzinfo=UTC))
        assert before is not None and before.id == 4


def test_stopped_at_the_instant_of_a_cycle(loaded: Database, config: Command) -> None:
    assert config(NO_QUEUE, "--share", "0.999999", "--for", "6h").status == 0
    assert {one["tuning"] for one in cycle(loaded).values()} == {-1}
    told = config("--stop", "--json").document["outcomes"]
    assert [one["group"] for one in told] == ["canary"] and told[0]["pending"] == told[0]["decisions"] > 0
    columns = "jeditaskid, brokerage, decided_at, candidates, assigned"
    with loaded.begin() as connection:  # what was decided at the same instant after that is no part of it
        connection.execute(
            sa.text(f"""INSERT INTO broker.decisions ({columns}, outcome, tuning)
            SELECT {columns}, 'brokered', 1 FROM broker.decisions""")
        )
    assert config("--json").document["outcomes"] == told


def test_values_set_meanwhile_hold_for_both_groups(
    loaded: Database, config: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config(NO_QUEUE, "--share", "0.999999", "--for", "6h").status == 0
    changed = ("config", "set", "NQUEUED_SAT_CAP", "9", "--reason", "x", "--editor", "me")
    assert runner(capsys, "--db", loaded.url)(*changed).status == 0
    assert {one["tuning"] for one in cycle(loaded).values()} == {-1}
    with loaded.begin() as connection:
        keys = {row.key for row in TuningStore(loaded.names).version(connection, -1).rows}
        assert keys == {"MIN_WEIGHT_managed", "NQUEUED_SAT_CAP"}
        assert TuningStore(loaded.names).read_current(connection).version == 2
        assert {item.version for item in TuningStore(loaded.names).history(connection)} == {1, 2}


def test_values_that_became_impossible_are_left_out_with_a_remark(
    loaded: Database, config: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config("NQUEUED_SAT_CAP=400", "--share", "0.5", "--for", "6h").status == 0
    changed = ("config", "set", "NQUEUED_NUC_CAP_FOR_JOBS", "300", "--reason", "x", "--editor", "me")
    assert runner(capsys, "--db", loaded.url)(*changed).status == 0
    record, decided = cycle_at(loaded, seed=SEED, agent=JOBS)
    assert record.outcome == "done" and {one["tuning"] for one in decided} == {2}
    assert any("canary 1 left out" in note for note in record.notes)


def test_tasks_that_want_a_nucleus(database: Database, config: Command) -> None:
    load(database, assigning_scenario())
    chosen = first_chosen(TASK, TASK + 1)
    share = share_that_chooses(chosen, TASK, TASK + 1)
    assert config("DISK_THRESHOLD=100000000", "--share", share, "--for", "6h").status == 0
    decided = cycle(database, agent=TASKS)
    (rest,) = {TASK, TASK + 1} - {chosen}
    assert decided[chosen]["outcome"] == "pending" and decided[chosen]["tuning"] == -1
    assert decided[rest]["outcome"] == "brokered" and decided[rest]["tuning"] == 1


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ((NO_QUEUE,), 2, "do not go together"),
        ((NO_QUEUE, "--share", "0.5"), 2, "do not go together"),
        (("--share", "0.5", "--for", "6h"), 2, "do not go together"),
        ((NO_QUEUE, "--share", "0.5", "--for", "6h", "--stop"), 2, "do not go together"),
        ((NO_QUEUE, "--share", "1", "--for", "6h"), 3, "nothing to compare"),
        ((NO_QUEUE, "--share", "0.5", "--for", "6"), 2, "write it as 24h"),
        (("MIN_WEIGHT=3", "--share", "0.5", "--for", "6h"), 4, "did you mean MIN_WEIGHT"),
        (("NQUEUED_SAT_CAP=1000000", "--share", "0.5", "--for", "6h"), 3, "is larger than"),
    ],
)
def test_bad_canaries(loaded: Database, config: Command, arguments: tuple[str, ...], status: int, told: str) -> None:
    shown = config(*arguments)
    assert (shown.status, shown.out) == (status, "") and told in shown.err
    with loaded.begin() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM broker.canaries")).scalar_one() == 0
    assert config().out == "no values have been tried\n"
