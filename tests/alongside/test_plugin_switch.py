"""The switch of JEDI's plug-in: what is set, who set it, and what doctor says of it and of the calls."""

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
    ("switch", "label", "left"),
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
def test_what_is_left_to_panda(switch: PluginSwitch, label: str | None, left: str | None) -> None:
    assert switch.leaves(4711, label) == left


def test_the_boundary_of_percent_is_the_place_of_the_task() -> None:
    place = place_of(4711)
    assert PluginSwitch(percent=place).leaves(4711, None) == "percent"
    assert PluginSwitch(percent=place + 1).leaves(4711, None) is None


@given(st.integers(0, 10**12), st.integers(0, 100), st.integers(0, 100))
def test_who_is_in_a_percent_is_in_a_larger_one(task: int, one: int, other: int) -> None:
    small, large = sorted((one, other))
    if PluginSwitch(percent=small).leaves(task, None) is None:
        assert PluginSwitch(percent=large).leaves(task, None) is None


@pytest.fixture
def command(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[Any]]]:
    monkeypatch.setenv("BROKER_DATABASE_URL", database.url)

    def run(*words: str) -> tuple[int, list[Any]]:
        with pytest.raises(SystemExit) as ended:
            main(["plugin", *words, "--json"])
        lines = capsys.readouterr().out.splitlines()
        return int(ended.value.code or 0), [json.loads(line) for line in lines]

    return run


def test_each_command_changes_one_thing_and_stays_on_record(command: Callable[..., tuple[int, list[Any]]]) -> None:
    assert command("log") == (0, [])
    why = ("--reason", "trial", "--editor", "ana")
    steps = [
        (("off", *why), (False, 100, None)),
        (("percent", "10", *why), (False, 10, None)),
        (("on", *why), (True, 10, None)),
        (("labels", "test", "managed", "test", *why), (True, 10, ["test", "managed"])),
        (("percent", "100", *why), (True, 100, ["test", "managed"])),
        (("labels", "all", *why), (True, 100, None)),
    ]
    for words, (enabled, percent, labels) in steps:
        status, (said,) = command(*words)
        assert status == 0
        assert said == {"enabled": enabled, "percent": percent, "labels": labels, "editor": "ana", "reason": "trial"}
    _, log = command("log")
    assert [(one["enabled"], one["percent"], one["labels"]) for one in log] == [one for _, one in reversed(steps)]
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
def test_what_cannot_be_set_is_wrong_use(command: Callable[..., tuple[int, list[Any]]], words: tuple[str, ...]) -> None:
    status, _ = command(*words)
    assert status == 2
    assert command("log") == (0, [])


def _said(database: Database, folder: Path) -> dict[str, str]:
    return {one.what: one.level for one in plugin_findings(database, NOW, folder)}


def test_doctor_shows_the_switch_and_what_only_files_count(
    database: Database, command: Callable[..., tuple[int, list[Any]]], tmp_path: Path
) -> None:
    assert _said(database, tmp_path / "none") == {
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
    said = _said(database, tmp_path)
    (switch,) = [one for one in said if one.startswith("switch: off, 100 % of tasks, all labels; ana at ")]
    assert switch.endswith("PanDA is upgraded") and said[switch] == "note"
    assert said["production_job: left_to_panda 3 times in 24 h (switched_off)"] == "ok"
    in_file = f"production_job: fell_back 2 times in 24 h (schema_changed), counted in {tmp_path} only"
    assert said[in_file] == "problem"


def test_files_are_taken_once_and_given_back(tmp_path: Path) -> None:
    file = CallFile(tmp_path)
    file.add(FELL_BACK, HOUR)
    ((path, calls),) = file.take()
    assert calls == [CallCount(HOUR, FELL_BACK, 1)]
    assert file.take() == [] and read_folder(tmp_path) == []
    file.give_back(path)
    assert read_folder(tmp_path) == calls


def test_half_a_line_counts_nothing(tmp_path: Path) -> None:
    file = CallFile(tmp_path)
    file.add(FELL_BACK, HOUR)
    (path,) = tmp_path.glob("*.calls")
    path.write_text(path.read_text() + '["2026-08-01T12:00:00+00:00", "prod\n{}\nnull\n', encoding="utf-8")
    assert read_folder(tmp_path) == [CallCount(HOUR, FELL_BACK, 1)]


def test_what_the_switch_leaves_to_panda_is_no_fall_back_for_the_gate() -> None:
    outcomes = {"decided": 9, "fell_back": 1, "left_to_panda": 90, "not_recorded": 5}
    calls = [CallCount(HOUR, Call("production_job", one, "x"), count) for one, count in outcomes.items()]
    line = fall_backs("production_job", Limits(), calls)
    assert line.value == pytest.approx(0.1)
