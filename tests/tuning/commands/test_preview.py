"""``broker config set --preview`` within the limits, beyond them, and without a terminal to ask at."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.tuning.commands.canary import PreviewLimits, beyond_limits, read_limits
from broker.whatif.model.comparison import Difference, Totals
from broker.whatif.model.task_differences import LOSES_LAST, NOTHING, Entries, TaskColumns, TaskSums
from tests.brokerages.small_grid import TASK, one_cycle
from tests.cli.commands import Command, runner
from tests.whatif.stored import SEED, job_scenario

BAD = ("MIN_WEIGHT_managed", "1000000")
REASON = ("--reason", "to see", "--editor", "operator", "--preview")


@pytest.fixture
def cycle_database(database: Database) -> Database:
    assert one_cycle(database, job_scenario(), seed=SEED)[0].outcome == "done"
    return database


@pytest.fixture
def config_set(database: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    monkeypatch.setattr("broker.tuning.commands.canary.cores", lambda: 1)
    return runner(capsys, "--db", database.url, "config", "set")


def type_answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(text))


def versions(database: Database) -> list[int]:
    with database.begin() as connection:
        return list(connection.execute(sa.text("SELECT version FROM broker.gdpconfig_versions ORDER BY 1")).scalars())


@pytest.mark.slow
def test_nothing_is_set_without_confirmation_even_within_the_limits(
    cycle_database: Database, config_set: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    unanswered = config_set("NQUEUED_SAT_CAP", "149", *REASON, "--json")
    assert unanswered.status == 3 and versions(cycle_database) == [1]
    preview, refusal = (json.loads(line) for line in unanswered.out.splitlines())
    assert (preview["kind"], preview["changed"], preview["brokerage"]) == ("preview", 0, "production_job")
    assert preview["baseline"]["versions"] == [1] and preview["baseline"]["cycles"] == 1
    assert refusal["error"]["code"] == "refused" and "--yes" in refusal["error"]["what_to_do"]
    forced = config_set("NQUEUED_SAT_CAP", "149", *REASON, "--json", "--yes")
    assert forced.status == 0 and json.loads(forced.out.splitlines()[1])["version"] == 2
    type_answer(monkeypatch, "y\n")
    confirmed = config_set("NQUEUED_SAT_CAP", "148", *REASON)
    assert confirmed.status == 0 and "Make the change?" in confirmed.err and versions(cycle_database) == [1, 2, 3]


@pytest.mark.slow
def test_a_dry_run_changes_nothing(
    cycle_database: Database, config_set: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--dry-run", "--reason", "to see", "--editor", "operator")
    type_answer(monkeypatch, "y\n")
    for more in ((), ("--yes",), ("--preview", "--yes")):
        result = config_set(*BAD, *options, *more)
        assert result.status == 0 and "2 task(s) become unschedulable" in result.err
        assert "nothing was changed" in result.err and "Make the change?" not in result.err
        assert versions(cycle_database) == [1]
    assert "Baseline: tuning version 1, 1 cycle(s) of 2026-08-01 12:00:00 UTC." in result.out


def test_a_dry_run_without_a_stored_cycle_fails(database: Database, config_set: Command) -> None:
    assert config_set(*BAD, "--dry-run", "--reason", "r").status == 4


def test_beyond_the_limits_a_person_must_confirm(
    cycle_database: Database, config_set: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = config_set(*BAD, *REASON)
    assert refusal.status == 3 and versions(cycle_database) == [1]
    assert f"2 task(s) become unschedulable ({TASK}, {TASK + 1}); the limit is 0" in refusal.err
    assert "2 of 3 outcomes change (66.7%)" in refusal.err and "nobody to ask" in refusal.err
    type_answer(monkeypatch, "n\n")
    assert config_set(*BAD, *REASON).status == 3 and versions(cycle_database) == [1]
    type_answer(monkeypatch, "y\n")
    confirmed = config_set(*BAD, *REASON)
    assert confirmed.status == 0 and "Make the change?" in confirmed.err and versions(cycle_database) == [1, 2]


def test_yes_confirms_in_advance_and_values_are_checked_first(cycle_database: Database, config_set: Command) -> None:
    forced = config_set(*BAD, *REASON, "--yes", "--json")
    assert (
        forced.status == 0
        and "warning: 2 task(s) become unschedulable" in forced.err
        and versions(cycle_database) == [1, 2]
    )
    refusal = config_set("NQUEUED_SAT_CAP", "many", *REASON)
    assert (refusal.status, refusal.out) == (3, "") and "whole number" in refusal.err


def test_without_a_stored_cycle_the_effect_is_unknown(database: Database, config_set: Command) -> None:
    result = config_set(*BAD, *REASON)
    assert result.status == 3 and "what would change is not known" in result.err
    assert config_set(*BAD, *REASON, "--yes").status == 0


def difference(losing: int, changed: int, decisions: int, moved: int = 0) -> Difference:
    totals = Totals(decisions=decisions, jobs_before=Counter(Q=100), jobs_moved=moved)
    totals.outcomes.update({("brokered", "pending"): changed, ("brokered", "brokered"): decisions - changed})
    entries = Entries(np.arange(losing), np.full(losing, LOSES_LAST), np.ones(losing, dtype=np.int64))
    tasks = TaskSums([TaskColumns((), entries, *[NOTHING] * 5)])
    return Difference({"production_job": totals}, {"production_job": tasks})


@pytest.mark.parametrize(
    ("losing", "changed", "moved", "violations"),
    [(0, 0, 0, 0), (0, 2, 10, 0), (0, 3, 0, 1), (1, 2, 0, 0), (2, 2, 0, 1), (2, 3, 0, 2), (0, 0, 11, 1), (2, 3, 11, 3)],
)
def test_only_exceeded_limits_are_reported(losing: int, changed: int, moved: int, violations: int) -> None:
    limits = PreviewLimits(changed_outcomes=0.02, tasks_losing_last_queue=1, jobs_moved=0.10)
    assert len(beyond_limits(difference(losing, changed, 100, moved), limits)) == violations


def test_without_decisions_no_limit_is_exceeded() -> None:
    assert beyond_limits(Difference(), PreviewLimits()) == []


def test_the_limits_file_is_validated(tmp_path: Path) -> None:
    from agents.service.configuration import ConfigurationError, config_file

    assert read_limits(config_file("preview.yaml")) == PreviewLimits()
    file = tmp_path / "preview.yaml"
    for text in ("cycles: 0", "changed_outcomes: 1.5", "changed: 1", "[", "changed_outcomes: .nan"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError):
            read_limits(file)


def test_moving_more_jobs_than_allowed_is_refused_and_recorded(
    cycle_database: Database, config_set: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (*BAD, "--reason", "to see", "--editor", "operator")
    config = runner(capsys, "--db", cycle_database.url, "config")
    preview = config_set(*arguments, "--dry-run", "--may-move", "0")
    assert preview.status == 0 and "at most 0 may move" in preview.err
    assert config("history", "--refused", "--json").out == ""
    refusal = config_set(*arguments, "--may-move", "0", "--json")
    assert refusal.status == 3 and versions(cycle_database) == [1]
    assert "at most 0 may move" in json.loads(refusal.out.splitlines()[-1])["error"]["what"]
    entry = json.loads(config("history", BAD[0], "--refused", "--json").out)
    assert (entry["key"], entry["value"], entry["editor"], entry["most_moved"]) == (BAD[0], 1_000_000, "operator", 0)
    assert 0 < entry["jobs_moved"] <= entry["jobs"] and entry["reason"] == "to see"
    assert BAD[0] in config("history", "--refused").out
    canary = config("canary", "=".join(BAD), "--share", "0.5", "--for", "1h", "--may-move", "0", "--editor", "operator")
    assert canary.status == 3 and "of the chosen tasks about" in canary.err
    accepted = config_set(*arguments, "--may-move", str(entry["jobs_moved"]))
    assert accepted.status == 0 and versions(cycle_database) == [1, 2]
    assert f"at most {entry['jobs_moved']}" in json.loads(config("history", "--json").out.splitlines()[0])["reason"]


def test_a_limit_without_a_stored_cycle_is_refused(database: Database, config_set: Command) -> None:
    refusal = config_set(*BAD, "--reason", "r", "--may-move", "5", "--json")
    assert refusal.status == 3
    assert "not previewed" in json.loads(refusal.out.splitlines()[-1])["error"]["what"]
