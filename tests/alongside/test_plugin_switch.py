"""The switch of JEDI's plug-in: its settings, their editor, and doctor's findings on the switch and the calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.alongside.answers.call_files import CallFile, read_folder
from broker.alongside.answers.gate import fall_backs
from broker.alongside.answers.plugin_findings import plugin_findings
from broker.alongside.model.gate_file import Limits
from broker.alongside.model.plugin_switch import PluginSwitch, place_of
from broker.alongside.statements import plugin_calls
from broker.alongside.statements.plugin_calls import Call, CallCount
from broker.cli.entry import main
from broker.store.connection.database import Database

NOW = datetime(2026, 8, 1, 12, 34, tzinfo=UTC)
HOUR = NOW.replace(minute=0)
FELL_BACK = Call("production_job", "fell_back", "schema_changed")


@pytest.mark.parametrize(
    ("switch", "label", "reason"),
    [
        (PluginSwitch(), "managed", None),
        (PluginSwitch(), None, None),
        (PluginSwitch(enabled=False), "managed", "switched_off"),
        (PluginSwitch(enabled=False, percent=0, labels=("test",)), "managed", "switched_off"),
        (PluginSwitch(labels=("test", "user")), "user", None),
        (PluginSwitch(labels=("test", "user")), "managed", "label"),
        (PluginSwitch(labels=("test",)), None, "label"),
        (PluginSwitch(percent=0), "managed", "percent"),
    ],
)
def test_tasks_that_the_switch_leaves_to_panda(switch: PluginSwitch, label: str | None, reason: str | None) -> None:
    assert switch.leaves(4711, label) == reason


def test_the_plugin_takes_a_task_above_its_own_percent() -> None:
    place = place_of(4711)
    assert PluginSwitch(percent=place).leaves(4711, None) == "percent"
    assert PluginSwitch(percent=place + 1).leaves(4711, None) is None


@given(st.integers(0, 10**12), st.integers(0, 100), st.integers(0, 100))
def test_a_task_within_a_percentage_is_within_every_larger_one(task: int, first: int, second: int) -> None:
    small, large = sorted((first, second))
    if PluginSwitch(percent=small).leaves(task, None) is None:
        assert PluginSwitch(percent=large).leaves(task, None) is None


@pytest.fixture
def command(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[Any]]]:
    monkeypatch.setenv("BROKER_DATABASE_URL", database.url)

    def run(*words: str) -> tuple[int, list[Any]]:
        with pytest.raises(SystemExit) as exit_info:
            main(["plugin", *words, "--json"])
        lines = capsys.readouterr().out.splitlines()
        return int(exit_info.value.code or 0), [json.loads(line) for line in lines]

    return run


def test_each_command_changes_one_setting_and_is_logged(command: Callable[..., tuple[int, list[Any]]]) -> None:
    assert command("log") == (0, [])
    options = ("--reason", "trial", "--editor", "ana")
    steps = [
        (("off", *options), (False, 100, None)),
        (("percent", "10", *options), (False, 10, None)),
        (("on", *options), (True, 10, None)),
        (("labels", "test", "managed", "test", *options), (True, 10, ["test", "managed"])),
        (("percent", "100", *options), (True, 100, ["test", "managed"])),
        (("labels", "all", *options), (True, 100, None)),
    ]
    for words, (enabled, percent, labels) in steps:
        status, (setting,) = command(*words)
        assert status == 0
        assert setting == {"enabled": enabled, "percent": percent, "labels": labels, "editor": "ana", "reason": "trial"}
    _, log = command("log")
    assert [(entry["enabled"], entry["percent"], entry["labels"]) for entry in log] == [
        entry for _, entry in reversed(steps)
    ]
    assert command("log", "--limit", "1")[1] == log[:1]


@pytest.mark.parametrize(
    "words",
    [
        ("percent", "101", "--reason", "x"),
        ("percent", "-1", "--reason", "x"),
        ("percent", "ten", "--reason", "x"),
        ("labels", "all", "test", "--reason", "x"),
        ("labels", "", "--reason", "x"),
        ("labels", "x" * 21, "--reason", "x"),
        ("off", "--reason", " "),
        ("off", "--reason", "x" * 501),
        ("off",),
    ],
)
def test_invalid_arguments_exit_with_2_and_change_nothing(
    command: Callable[..., tuple[int, list[Any]]], words: tuple[str, ...]
) -> None:
    status, _ = command(*words)
    assert status == 2
    assert command("log") == (0, [])


def _levels(database: Database, folder: Path) -> dict[str, str]:
    return {finding.what: finding.level for finding in plugin_findings(database, NOW, folder)}


def test_doctor_shows_the_switch_and_calls_counted_only_in_files(
    database: Database, command: Callable[..., tuple[int, list[Any]]], tmp_path: Path
) -> None:
    assert _levels(database, tmp_path / "none") == {
        "switch: on, 100 % of tasks, all labels, as shipped": "ok",
        "JEDI's plug-in was not called in the last 24 h": "note",
    }
    command("off", "--reason", "PanDA is upgraded", "--editor", "ana")
    with database.begin() as connection:
        plugin_calls.add(connection, Call("production_job", "left_to_panda", "switched_off"), NOW, 3)
    file = CallFile(tmp_path)
    for _ in range(2):
        file.add(FELL_BACK, HOUR)
    file.add(FELL_BACK, HOUR.replace(day=1, month=7))  # long ago
    levels = _levels(database, tmp_path)
    (switch,) = [text for text in levels if text.startswith("switch: off, 100 % of tasks, all labels; ana at ")]
    assert switch.endswith("PanDA is upgraded") and levels[switch] == "note"
    assert levels["production_job: left_to_panda 3 times in 24 h (switched_off)"] == "ok"
    in_file = f"production_job: fell_back 2 times in 24 h (schema_changed), counted in {tmp_path} only"
    assert levels[in_file] == "problem"


def test_a_call_file_is_taken_once_and_may_be_given_back(tmp_path: Path) -> None:
    file = CallFile(tmp_path)
    file.add(FELL_BACK, HOUR)
    ((path, calls),) = file.take()
    assert calls == [CallCount(HOUR, FELL_BACK, 1)]
    assert file.take() == [] and read_folder(tmp_path) == []
    file.give_back(path)
    assert read_folder(tmp_path) == calls


def test_a_truncated_line_is_not_counted(tmp_path: Path) -> None:
    file = CallFile(tmp_path)
    file.add(FELL_BACK, HOUR)
    (path,) = tmp_path.glob("*.calls")
    path.write_text(path.read_text() + '["2026-08-01T12:00:00+00:00", "prod\n{}\nnull\n', encoding="utf-8")
    assert read_folder(tmp_path) == [CallCount(HOUR, FELL_BACK, 1)]


def test_tasks_left_to_panda_are_no_fall_backs_for_the_gate() -> None:
    outcomes = {"decided": 9, "fell_back": 1, "left_to_panda": 90, "not_recorded": 5}
    calls = [CallCount(HOUR, Call("production_job", outcome, "x"), count) for outcome, count in outcomes.items()]
    line = fall_backs("production_job", Limits(), calls)
    assert line.value == pytest.approx(0.1)
