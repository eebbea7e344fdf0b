"""``broker explain``, ``why-not`` and ``rules`` as an operator types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import pytest

from broker.store.connection.database import Database
from tests.brokerages.small_grid import TASK, dataset, input_files, one_cycle, scenario, task
from tests.cli.commands import Outcome, runner


class OnDatabase(Protocol):
    def __call__(self, database: Database, *arguments: str, **environment: str) -> Outcome: ...


@pytest.fixture
def broker(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> OnDatabase:
    """A command on the database of the test."""

    def run(database: Database, *arguments: str, **environment: str) -> Outcome:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            return runner(capsys, "--db", database.url)(*arguments)

    return run


def lines(result: Outcome) -> list[dict[str, Any]]:
    """The objects on stdout, which must hold nothing else."""
    assert result.status == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


@pytest.fixture
def decided(database: Database) -> Database:
    """A grid with one brokered task."""
    grid = scenario(
        jedi_tasks=[task()],
        jedi_datasets=[dataset(5, type="pseudo_input", datasetname="pseudo_dataset")],
        jedi_dataset_contents=input_files(5, 0, type="pseudo_input"),
    )
    record, _ = one_cycle(database, grid)
    assert record.outcome == "done"
    return database


def test_explain_gives_the_object_of_the_cycle(broker: OnDatabase, decided: Database) -> None:
    (answer,) = lines(broker(decided, "explain", str(TASK), "--json"))
    (decision,) = answer["decisions"]
    assert (decision["jeditaskid"], decision["brokerage"], decision["outcome"]) == (TASK, "production_job", "brokered")
    assert sum(decision["assigned"].values()) == 5
    first, last = decision["funnel"][0], decision["funnel"][-1]
    assert (
        first[1] - sum(before - after for _, before, after in decision["funnel"])
        == last[2]
        == len(decision["candidates"])
    )
    assert "running_queued" in broker(decided, "explain", str(TASK)).out


def test_why_not_names_the_rule_the_value_the_limit_and_the_key(broker: OnDatabase, decided: Database) -> None:
    (answer,) = lines(broker(decided, "why-not", str(TASK), "GAMMA_OFF", "--json"))
    assert (answer["candidate"]["code"], answer["candidate"]["rule"]) == ("status", "status")
    comparison = answer["candidate"]["compared"]
    assert {name: comparison[name] for name in ("value", "operator", "limit", "key")} == {
        "value": "offline",
        "operator": "==",
        "limit": "online",
        "key": "queue.status",
    }
    candidates = [
        answer_line["candidate"] for answer_line in lines(broker(decided, "why-not", str(TASK), "BETA", "--json"))
    ]
    by_queue = {candidate["name"]: candidate["code"] for candidate in candidates}
    assert by_queue == {"BETA/MCORE": "chosen", "BETA/SCORE": "cpucore"}
    (test,) = lines(broker(decided, "why-not", str(TASK), "GAMMA_TEST", "--json"))
    assert test["candidate"]["code"] == "test_queue"
    refusal = broker(decided, "why-not", str(TASK), "GAMMA_OF", "--json")
    assert refusal.status == 4 and "did you mean GAMMA_OFF" in refusal.out
    assert lines(broker(decided, "why-not", str(TASK), "gamma_off", "--json")) == [answer]


def test_a_task_that_no_cycle_has_seen(broker: OnDatabase, decided: Database) -> None:
    result = broker(decided, "explain", "1")
    assert result.status == 4
    assert "there is no task 1" in result.err
    too_early = broker(decided, "explain", str(TASK), "--at", "2026-01-01")
    assert too_early.status == 4 and "the first is of 2026" in too_early.err
    assert broker(decided, "explain", str(TASK), "--at", "yesterday").status == 2


def test_the_rules_of_a_custom_profile(broker: OnDatabase, decided: Database, tmp_path: Path) -> None:
    shipped = [rule["rule"] for rule in lines(broker(decided, "rules", "production_job", "--json"))]
    assert shipped[0] == "status"
    (tmp_path / "profiles").mkdir()
    (tmp_path / "broker.yaml").write_text("profile: ours\n")
    (tmp_path / "profiles" / "ours.yaml").write_text(
        "profile: ours\nbrokerages:\n  - {brokerage: production_job, without: [nucleus_boost]}\n"
    )
    ours = [rule["rule"] for rule in lines(broker(decided, "rules", "--json", BROKER_CONFIG=str(tmp_path)))]
    assert [name for name in shipped if name not in ours] == ["nucleus_boost"]
    assert broker(decided, "rules", "no_brokerage").status == 4
