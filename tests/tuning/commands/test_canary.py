"""``broker config canary`` brokers chosen tasks with the tried values; decisions record which values were used."""

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
from broker.store.gdpconfig_rows import TuningStore
from broker.store.scenarios.load_dump import load
from broker.store.snapshots.stored_snapshots import stored_snapshot
from broker.tuning.statements import canaries
from tests.brokerages.small_grid import TASK
from tests.brokerages.task_grid import cycle_at
from tests.brokerages.test_replay import rules_of
from tests.cli.commands import Command, runner
from tests.whatif.stored import JOBS, SEED, TASKS, assigning_scenario, job_scenario

pytestmark = pytest.mark.slow

NO_QUEUE = "MIN_WEIGHT_managed=1000000"


def share_choosing_only(chosen: int, *tasks: int) -> str:
    """Return a share at which canary 1 chooses the wanted task and none of the others."""
    positions = {
        task: int.from_bytes(hashlib.sha256(f"1:{task}".encode()).digest()[:8], "big") / 2**64 for task in tasks
    }
    later = [position for task, position in positions.items() if task != chosen and position > positions[chosen]]
    assert len(later) == len(tasks) - 1, f"no share does; the places are {positions}"
    return str((positions[chosen] + min(later)) / 2)


def first_task_chosen(*tasks: int) -> int:
    return min(tasks, key=lambda task: hashlib.sha256(f"1:{task}".encode()).digest()[:8])


@pytest.fixture
def config(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", database.url, "config", "canary", "--at", "scenario")


@pytest.fixture
def grid_database(database: Database) -> Database:
    load(database, job_scenario())
    return database


def cycle(
    database: Database, later: timedelta = timedelta(), agent: str = JOBS, **more: Any
) -> dict[int, dict[str, Any]]:
    record, decisions = cycle_at(database, later, SEED, agent, **more)
    assert record.outcome == "done", record.error
    return {decision["jeditaskid"]: decision for decision in decisions}


def test_chosen_tasks_use_the_tried_values_and_the_rest_the_old_ones(grid_database: Database, config: Command) -> None:
    chosen = first_task_chosen(TASK, TASK + 1)
    (rest,) = {TASK, TASK + 1} - {chosen}
    share = share_choosing_only(chosen, TASK, TASK + 1)
    start = config(NO_QUEUE, "--share", share, "--for", "6h", "--reason", "to see", "--json")
    assert (start.status, "clock: 2026-08-01 12:00:00 UTC" in start.err) == (0, True)
    assert start.document["running"] and start.document["set"] == {"MIN_WEIGHT_managed": 1000000}
    decisions = cycle(grid_database)
    assert decisions[chosen]["outcome"] == "pending" and decisions[rest]["outcome"] == "brokered"
    assert decisions[chosen]["tuning"] == -1 and decisions[rest]["tuning"] == 1
    outcomes = {outcome["group"]: outcome for outcome in config("--json").document["outcomes"]}
    assert outcomes["canary"]["pending"] >= 1 and outcomes["canary"]["brokered"] == 0
    assert outcomes["rest"]["brokered"] == 1 and outcomes["rest"]["jobs"] > 0
    table = config()
    assert "(runs)" in table.out and "canary" in table.out and "to see" in table.out


def test_decisions_of_both_groups_can_be_replayed(grid_database: Database, config: Command) -> None:
    share = share_choosing_only(first_task_chosen(TASK, TASK + 1), TASK, TASK + 1)
    assert config("NQUEUELIMITSITE_MC Simulation=300", "--share", share, "--for", "6h").status == 0
    cycle(grid_database)
    replays = []
    with grid_database.begin() as connection:
        cycles = list(stored_cycles(connection))
        assert sorted({stored.origin.tuning for stored in cycles}) == [-1, 1]
        for stored in cycles:
            published = TuningStore(grid_database.names).version(connection, stored.origin.tuning)
            job_brokerage = brokerage_of(JOBS)
            works = decode_batches(job_brokerage, [decision.record.work or b"" for decision in stored.decisions])
            snapshot = stored_snapshot(connection, stored.origin.snapshot or "")
            replayed = replay_decisions(
                brokerage_of(JOBS), snapshot, published.tuning, works, SEED, rules_of(JOBS), as_stored=True
            )
            assert [again.decision for again in replayed] == [decision.record.decision for decision in stored.decisions]
            assert [again.assigned for again in replayed] == [decision.record.assigned for decision in stored.decisions]
            replays.append(replayed)
    # the second task sees what the first one placed, although it is in the other group
    (first,), (second, _) = replays
    assert first.assigned and not first.before
    assert sum(second.before["of_share"].values()) == sum(first.assigned.values())


def test_what_if_uses_the_values_of_each_group(
    grid_database: Database, config: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    share = share_choosing_only(first_task_chosen(TASK, TASK + 1), TASK, TASK + 1)
    assert config("NQUEUELIMITSITE_MC Simulation=300", "--share", share, "--for", "6h").status == 0
    decisions = cycle(grid_database)
    result = runner(capsys, "--db", grid_database.url)("what-if", "--processes", "1", "--rule", "status=off", "--json")
    total = json.loads(result.out.splitlines()[-1])
    assert (total["cycles"], total["decisions"]) == (2, 3)
    assert total["jobs"]["before"] == sum(sum(decision["assigned"].values()) for decision in decisions.values())


def test_the_story_of_a_task_mentions_the_canary(
    grid_database: Database, config: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config(NO_QUEUE, "--share", "0.999999", "--for", "1h").status == 0
    cycle(grid_database)
    cycle(grid_database, timedelta(hours=2))
    story = runner(capsys, "--db", grid_database.url)("story", str(TASK), "--json")
    versions = [event for event in map(json.loads, story.out.splitlines()) if event["event"] == "tuning"]
    assert [event["about"]["version"] for event in versions] == [-1, 1]
    assert [event["about"]["changes"] for event in versions] == [[], []]
    assert "a canary tries values on the task" in runner(capsys, "--db", grid_database.url)("story", str(TASK)).out


def test_a_canary_ends_by_itself_and_can_be_stopped(grid_database: Database, config: Command) -> None:
    assert config(NO_QUEUE, "--share", "0.999999", "--for", "6h").status == 0
    # a dry run publishes no version
    assert {decision["tuning"] for decision in cycle(grid_database, dry_run=True).values()} == {0}
    assert {decision["tuning"] for decision in cycle(grid_database, timedelta(hours=6), dry_run=True).values()} == {1}
    second = config(NO_QUEUE, "--share", "0.5", "--for", "1h")
    assert second.status == 3 and "canary 1 runs until 2026-08-01T18:00:00" in second.err
    assert config("--stop", "--json").document["running"] is False
    assert config("--stop").status == 3
    assert {decision["tuning"] for decision in cycle(grid_database, dry_run=True).values()} == {1}
    assert config(NO_QUEUE, "--share", "0.5", "--for", "1h", "--json").document["canary"] == 2


def test_canaries_never_overlap(grid_database: Database, config: Command, capsys: pytest.CaptureFixture[str]) -> None:
    def canary(*words: str) -> tuple[int, str]:
        result = runner(capsys, "--db", grid_database.url)("config", "canary", *words)
        return result.status, result.err

    def start(hour: int, hours: int) -> tuple[int, str]:
        return canary(NO_QUEUE, "--share", "0.5", "--for", f"{hours}h", "--at", f"2026-08-01T{hour}:00:00+00:00")

    assert start(16, 2)[0] == 0
    refusal = start(14, 3)
    assert refusal[0] == 3 and "canary 1 runs from 2026-08-01T16:00:00+00:00 until 2026-08-01T18:00:00" in refusal[1]
    assert "--stop --at 2026-08-01T16:00:00+00:00" in refusal[1]
    assert start(14, 6)[0] == start(17, 2)[0] == 3
    assert start(14, 2)[0] == 0 and start(18, 1)[0] == 0  # each canary ends when the next begins
    refused_stop = config("--stop")
    assert refused_stop.status == 3 and "canary 2 begins at 2026-08-01T14:00:00+00:00" in refused_stop.err
    assert canary("--stop", "--at", "2026-08-01T15:00:00+00:00")[0] == 0
    assert start(15, 1)[0] == 0  # the previous canary now ends an hour earlier
    assert canary("--stop", "--at", "2026-08-01T16:00:00+00:00")[0] == 0
    assert start(16, 2)[0] == 0  # a canary stopped before its start blocks no other
    with grid_database.begin() as connection:
        running = canaries.running(connection, datetime(2026, 8, 1, 15, 30, tzinfo=UTC))
        assert running is not None and running.id == 4


def test_a_canary_stopped_at_the_instant_of_a_cycle(grid_database: Database, config: Command) -> None:
    assert config(NO_QUEUE, "--share", "0.999999", "--for", "6h").status == 0
    assert {decision["tuning"] for decision in cycle(grid_database).values()} == {-1}
    outcomes = config("--stop", "--json").document["outcomes"]
    assert [row["group"] for row in outcomes] == ["canary"] and outcomes[0]["pending"] == outcomes[0]["decisions"] > 0
    columns = "jeditaskid, brokerage, decided_at, candidates, assigned"
    with (
        grid_database.begin() as connection
    ):  # decisions made at that instant after the stop do not belong to the canary
        connection.execute(
            sa.text(f"""INSERT INTO broker.decisions ({columns}, outcome, tuning)
            SELECT {columns}, 'brokered', 1 FROM broker.decisions""")
        )
    assert config("--json").document["outcomes"] == outcomes


def test_values_set_during_a_canary_hold_for_both_groups(
    grid_database: Database, config: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config(NO_QUEUE, "--share", "0.999999", "--for", "6h").status == 0
    command = ("config", "set", "NQUEUED_SAT_CAP", "9", "--reason", "x", "--editor", "me")
    assert runner(capsys, "--db", grid_database.url)(*command).status == 0
    assert {decision["tuning"] for decision in cycle(grid_database).values()} == {-1}
    with grid_database.begin() as connection:
        keys = {row.key for row in TuningStore(grid_database.names).version(connection, -1).rows}
        assert keys == {"MIN_WEIGHT_managed", "NQUEUED_SAT_CAP"}
        assert TuningStore(grid_database.names).read_current(connection).version == 2
        assert {item.version for item in TuningStore(grid_database.names).history(connection)} == {1, 2}


def test_values_that_became_invalid_are_left_out_with_a_note(
    grid_database: Database, config: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config("NQUEUED_SAT_CAP=400", "--share", "0.5", "--for", "6h").status == 0
    command = ("config", "set", "NQUEUED_NUC_CAP_FOR_JOBS", "300", "--reason", "x", "--editor", "me")
    assert runner(capsys, "--db", grid_database.url)(*command).status == 0
    record, decisions = cycle_at(grid_database, seed=SEED, agent=JOBS)
    assert record.outcome == "done" and {decision["tuning"] for decision in decisions} == {2}
    assert any("canary 1 left out" in note for note in record.notes)


def test_a_canary_of_the_task_brokerage(database: Database, config: Command) -> None:
    load(database, assigning_scenario())
    chosen = first_task_chosen(TASK, TASK + 1)
    share = share_choosing_only(chosen, TASK, TASK + 1)
    assert config("DISK_THRESHOLD=100000000", "--share", share, "--for", "6h").status == 0
    decisions = cycle(database, agent=TASKS)
    (rest,) = {TASK, TASK + 1} - {chosen}
    assert decisions[chosen]["outcome"] == "pending" and decisions[chosen]["tuning"] == -1
    assert decisions[rest]["outcome"] == "brokered" and decisions[rest]["tuning"] == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
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
def test_invalid_canaries_are_refused(
    grid_database: Database, config: Command, arguments: tuple[str, ...], status: int, message: str
) -> None:
    result = config(*arguments)
    assert (result.status, result.out) == (status, "") and message in result.err
    with grid_database.begin() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM broker.canaries")).scalar_one() == 0
    assert config().out == "no values have been tried\n"
