"""``broker config set --preview``: within the limits, beyond them, and with nobody to ask."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.cli.preview import PreviewLimits, beyond_limits, read_limits
from broker.store.database import Database
from broker.whatif.comparison import Difference, TaskDifference, Totals
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
    monkeypatch.setattr("broker.cli.preview.cores", lambda: 1)
    return runner(capsys, "--db", database.url, "config", "set")


def answered(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(text))


def versions(database: Database) -> list[int]:
    with database.begin() as connection:
        return list(connection.execute(sa.text("SELECT version FROM broker.gdpconfig_versions ORDER BY 1")).scalars())


def test_a_change_within_the_limits_is_made(cycled: Database, config_set: Command) -> None:
    shown = config_set("NQUEUED_SAT_CAP", "149", *REASON, "--json")
    assert (shown.status, shown.err) == (0, "")
    preview, made = (json.loads(line) for line in shown.out.splitlines())
    assert (preview["kind"], preview["changed"], made["version"]) == ("preview", 0, 2)


def test_beyond_the_limits_somebody_must_agree(
    cycled: Database, config_set: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = config_set(*BAD, *REASON)
    assert refused.status == 3 and versions(cycled) == [1]
    assert f"2 task(s) lose their last queue ({TASK}, {TASK + 1}); the limit is 0" in refused.err
    assert "2 of 3 outcomes change (66.7%)" in refused.err and "nobody to ask" in refused.err
    answered(monkeypatch, "n\n")
    assert config_set(*BAD, *REASON).status == 3 and versions(cycled) == [1]
    answered(monkeypatch, "y\n")
    agreed = config_set(*BAD, *REASON)
    assert agreed.status == 0 and "Make the change?" in agreed.err and versions(cycled) == [1, 2]


def test_yes_says_it_beforehand_and_values_are_checked_first(cycled: Database, config_set: Command) -> None:
    made = config_set(*BAD, *REASON, "--yes", "--json")
    assert made.status == 0 and "warning: 2 task(s) lose" in made.err and versions(cycled) == [1, 2]
    wrong = config_set("NQUEUED_SAT_CAP", "many", *REASON)
    assert (wrong.status, wrong.out) == (3, "") and "whole number" in wrong.err


def test_without_any_cycle_nothing_is_known(database: Database, config_set: Command) -> None:
    shown = config_set(*BAD, *REASON)
    assert shown.status == 3 and "what would change is not known" in shown.err
    assert config_set(*BAD, *REASON, "--yes").status == 0


def difference(losing: int, changed: int, decisions: int) -> Difference:
    totals = Totals(decisions=decisions)
    totals.outcomes.update({("brokered", "pending"): changed, ("brokered", "brokered"): decisions - changed})
    tasks = {("production_job", number): TaskDifference(loses_last_queue=True) for number in range(losing)}
    return Difference(tasks, {"production_job": totals})


@pytest.mark.parametrize(
    ("losing", "changed", "told"),
    [(0, 0, 0), (0, 2, 0), (0, 3, 1), (1, 2, 0), (2, 2, 1), (2, 3, 2)],
)
def test_limits_are_passed_when_they_are_exceeded(losing: int, changed: int, told: int) -> None:
    limits = PreviewLimits(changed_outcomes=0.02, tasks_losing_last_queue=1)
    assert len(beyond_limits(difference(losing, changed, 100), limits)) == told


def test_no_decision_passes_no_limit() -> None:
    assert beyond_limits(Difference(), PreviewLimits()) == []


def test_the_file_of_limits(tmp_path: Path) -> None:
    from agents.configuration import ConfigurationError, config_file

    assert read_limits(config_file("preview.yaml")) == PreviewLimits()
    file = tmp_path / "preview.yaml"
    for text in ("cycles: 0", "changed_outcomes: 1.5", "changed: 1", "[", "changed_outcomes: .nan"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError):
            read_limits(file)
