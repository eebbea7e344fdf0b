"""``broker config set --preview``: within the limits, beyond them, and with nobody to ask."""

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
def cycled(database: Database) -> Database:
    assert one_cycle(database, job_scenario(), seed=SEED)[0].outcome == "done"
    return database


@pytest.fixture
def config_set(database: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    monkeypatch.setattr("broker.tuning.commands.canary.cores", lambda: 1)
    return runner(capsys, "--db", database.url, "config", "set")


def answered(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(text))


def versions(database: Database) -> list[int]:
    with database.begin() as connection:
        return list(connection.execute(sa.text("SELECT version FROM broker.gdpconfig_versions ORDER BY 1")).scalars())


@pytest.mark.slow
def test_nothing_is_set_without_a_yes_even_within_the_limits(
    cycled: Database, config_set: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = config_set("NQUEUED_SAT_CAP", "149", *REASON, "--json")
    assert shown.status == 3 and versions(cycled) == [1]
    preview, refused = (json.loads(line) for line in shown.out.splitlines())
    assert (preview["kind"], preview["changed"], preview["brokerage"]) == ("preview", 0, "production_job")
    assert preview["baseline"]["versions"] == [1] and preview["baseline"]["cycles"] == 1
    assert refused["error"]["code"] == "refused" and "--yes" in refused["error"]["what_to_do"]
    made = config_set("NQUEUED_SAT_CAP", "149", *REASON, "--json", "--yes")
    assert made.status == 0 and json.loads(made.out.splitlines()[1])["version"] == 2
    answered(monkeypatch, "y\n")
    agreed = config_set("NQUEUED_SAT_CAP", "148", *REASON)
    assert agreed.status == 0 and "Make the change?" in agreed.err and versions(cycled) == [1, 2, 3]


@pytest.mark.slow
def test_a_dry_run_only_looks(cycled: Database, config_set: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    look = ("--dry-run", "--reason", "to see", "--editor", "operator")
    answered(monkeypatch, "y\n")
    for more in ((), ("--yes",), ("--preview", "--yes")):
        shown = config_set(*BAD, *look, *more)
        assert shown.status == 0 and "2 task(s) become unschedulable" in shown.err
        assert "nothing was changed" in shown.err and "Make the change?" not in shown.err
        assert versions(cycled) == [1]
    assert "Baseline: tuning version 1, 1 cycle(s) of 2026-08-01 12:00:00 UTC." in shown.out


def test_a_dry_run_without_a_cycle_finds_nothing(database: Database, config_set: Command) -> None:
    assert config_set(*BAD, "--dry-run", "--reason", "r").status == 4


def test_beyond_the_limits_somebody_must_agree(
    cycled: Database, config_set: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = config_set(*BAD, *REASON)
    assert refused.status == 3 and versions(cycled) == [1]
    assert f"2 task(s) become unschedulable ({TASK}, {TASK + 1}); the limit is 0" in refused.err
    assert "2 of 3 outcomes change (66.7%)" in refused.err and "nobody to ask" in refused.err
    answered(monkeypatch, "n\n")
    assert config_set(*BAD, *REASON).status == 3 and versions(cycled) == [1]
    answered(monkeypatch, "y\n")
    agreed = config_set(*BAD, *REASON)
    assert agreed.status == 0 and "Make the change?" in agreed.err and versions(cycled) == [1, 2]


def test_yes_says_it_beforehand_and_values_are_checked_first(cycled: Database, config_set: Command) -> None:
    made = config_set(*BAD, *REASON, "--yes", "--json")
    assert made.status == 0 and "warning: 2 task(s) become unschedulable" in made.err and versions(cycled) == [1, 2]
    wrong = config_set("NQUEUED_SAT_CAP", "many", *REASON)
    assert (wrong.status, wrong.out) == (3, "") and "whole number" in wrong.err


def test_without_any_cycle_nothing_is_known(database: Database, config_set: Command) -> None:
    shown = config_set(*BAD, *REASON)
    assert shown.status == 3 and "what would change is not known" in shown.err
    assert config_set(*BAD, *REASON, "--yes").status == 0


def difference(losing: int, changed: int, decisions: int, moved: int = 0) -> Difference:
    totals = Totals(decisions=decisions, jobs_before=Counter(Q=100), jobs_moved=moved)
    totals.outcomes.update({("brokered", "pending"): changed, ("brokered", "brokered"): decisions - changed})
    lost = Entries(np.arange(losing), np.full(losing, LOSES_LAST), np.ones(losing, dtype=np.int64))
    tasks = TaskSums([TaskColumns((), lost, *[NOTHING] * 5)])
    return Difference({"production_job": totals}, {"production_job": tasks})


@pytest.mark.parametrize(
    ("losing", "changed", "moved", "told"),
    [(0, 0, 0, 0), (0, 2, 10, 0), (0, 3, 0, 1), (1, 2, 0, 0), (2, 2, 0, 1), (2, 3, 0, 2), (0, 0, 11, 1), (2, 3, 11, 3)],
)
def test_limits_are_passed_when_they_are_exceeded(losing: int, changed: int, moved: int, told: int) -> None:
    limits = PreviewLimits(changed_outcomes=0.02, tasks_losing_last_queue=1, jobs_moved=0.10)
    assert len(beyond_limits(difference(losing, changed, 100, moved), limits)) == told


def test_no_decision_passes_no_limit() -> None:
    assert beyond_limits(Difference(), PreviewLimits()) == []


def test_the_file_of_limits(tmp_path: Path) -> None:
    from agents.service.configuration import ConfigurationError, config_file

    assert read_limits(config_file("preview.yaml")) == PreviewLimits()
    file = tmp_path / "preview.yaml"
    for text in ("cycles: 0", "changed_outcomes: 1.5", "changed: 1", "[", "changed_outcomes: .nan"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError):
            read_limits(file)


def test_more_jobs_than_may_move_are_refused_and_noted(
    cycled: Database, config_set: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (*BAD, "--reason", "to see", "--editor", "operator")
    config = runner(capsys, "--db", cycled.url, "config")
    looked = config_set(*asked, "--dry-run", "--may-move", "0")
    assert looked.status == 0 and "at most 0 may move" in looked.err
    assert config("history", "--refused", "--json").out == ""
    refused = config_set(*asked, "--may-move", "0", "--json")
    assert refused.status == 3 and versions(cycled) == [1]
    assert "at most 0 may move" in json.loads(refused.out.splitlines()[-1])["error"]["what"]
    noted = json.loads(config("history", BAD[0], "--refused", "--json").out)
    assert (noted["key"], noted["value"], noted["editor"], noted["most_moved"]) == (BAD[0], 1_000_000, "operator", 0)
    assert 0 < noted["jobs_moved"] <= noted["jobs"] and noted["reason"] == "to see"
    assert BAD[0] in config("history", "--refused").out
    canary = config("canary", "=".join(BAD), "--share", "0.5", "--for", "1h", "--may-move", "0", "--editor", "operator")
    assert canary.status == 3 and "of the chosen tasks about" in canary.err
    made = config_set(*asked, "--may-move", str(noted["jobs_moved"]))
    assert made.status == 0 and versions(cycled) == [1, 2]
    assert f"at most {noted['jobs_moved']}" in json.loads(config("history", "--json").out.splitlines()[0])["reason"]


def test_a_limit_without_any_cycle_is_refused(database: Database, config_set: Command) -> None:
    refused = config_set(*BAD, "--reason", "r", "--may-move", "5", "--json")
    assert refused.status == 3
    assert "not previewed" in json.loads(refused.out.splitlines()[-1])["error"]["what"]
