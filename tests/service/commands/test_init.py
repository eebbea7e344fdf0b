"""``broker init``: the initial settings of a VO, repeated runs without a change, and invalid names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.service.configuration import config_file, load_process, profile_in_force
from broker.settings import read_settings
from broker.store.connection.database import Database
from broker.store.schema.migrate import upgrade
from tests.cli.commands import Command, runner

LONGEST = "a" * 16


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str], broker_home: Path) -> Command:
    return runner(capsys, "--db", database.url)


def steps(broker: Command, *words: str) -> dict[str, str]:
    result = broker("init", *words, "--json")
    assert result.status == 0, result.err
    return {step["what"]: step["done"] for step in map(json.loads, result.out.splitlines()) if step["what"] != "file"}


def test_init_writes_missing_settings_and_reports_them(broker: Command, broker_home: Path) -> None:
    assert set(steps(broker, "--vo", "myexp").values()) == {"written"} | {"there already"}
    keys = {
        value["key"]: value for value in map(json.loads, broker("config", "list", "--set", "--json").out.splitlines())
    }
    assert (keys["DISK_THRESHOLD"]["value"], keys["DISK_THRESHOLD"]["vo"]) == (0.1, "myexp")
    (share,) = map(json.loads, broker("share", "list", "--json").out.splitlines())
    assert (share["name"], share["vo"], share["waiting_jobs_a_queue"]) == ("default", "myexp", 500)
    process = load_process(config_file("broker.yaml", broker_home / "config"), broker_home / "config")
    profile = profile_in_force(process)
    assert (profile.profile, profile.redecide) == ("small", "each_cycle")
    assert profile.of("production_job").without == ("pilots",)
    assert read_settings().config == broker_home / "config"  # all commands read this folder from now on


def test_a_second_init_keeps_the_changes_of_operators(broker: Command, broker_home: Path) -> None:
    broker("init", "--vo", "myexp")
    broker("config", "set", "DISK_THRESHOLD", "5", "--reason", "larger disks")
    broker("share", "set", "default", "7", "--reason", "less")
    (broker_home / "config" / "broker.yaml").write_text("profile: seed\n")
    assert set(steps(broker, "--vo", "myexp").values()) == {"there already"}
    repeated = broker("init", "--vo", "myexp")
    assert "left as it is" in repeated.out
    assert "next: put your sites into" in repeated.err
    assert broker("config", "get", "DISK_THRESHOLD", "--json").document["value"] == 5
    assert json.loads(broker("share", "list", "--json").out)["value"] == 7
    assert (broker_home / "config" / "broker.yaml").read_text() == "profile: seed\n"


@pytest.mark.parametrize("name", ["", "my exp", "1exp", "a/b", LONGEST + "a", "exp\n2", "é"])
def test_an_invalid_name_is_refused_before_anything_is_created(broker: Command, broker_home: Path, name: str) -> None:
    result = broker("init", "--vo", name)
    assert result.status == 2
    assert "; --vo; give 1 to 16 letters, digits, dots, hyphens and underscores" in result.err
    assert not broker_home.exists()


def test_the_longest_name_is_valid_and_another_vo_is_refused(broker: Command) -> None:
    assert broker("init", "--vo", LONGEST).status == 0
    result = broker("init", "--vo", "other")
    assert (result.status, f"belongs to VO {LONGEST}" in result.err) == (3, True)


def test_without_a_terminal_the_name_has_to_be_given(broker: Command) -> None:
    result = broker("init")
    assert (result.status, result.err) == (2, "error: no VO is named; --vo; write broker init --vo NAME\n")


def test_on_a_terminal_the_name_is_asked_for_until_it_is_valid(
    broker: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["my exp", "myexp"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.prompt", lambda question: next(answers))
    result = broker("init")
    assert (result.status, "not a name of a VO: 'my exp'" in result.err) == (0, True)
    assert "Installation of VO myexp" in result.out


def test_another_folder_must_be_named_to_all_commands(broker: Command, tmp_path: Path) -> None:
    result = broker("init", "--vo", "myexp", "--folder", str(tmp_path / "etc"))
    assert f"export BROKER_CONFIG={tmp_path}/etc" in result.err
    assert (tmp_path / "etc" / "sites.yaml").is_file()
    (tmp_path / "file").write_text("")
    assert broker("init", "--vo", "myexp", "--folder", str(tmp_path / "file")).status == 1


@pytest.fixture
def beside_panda(database: Database) -> Database:
    with database.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA broker CASCADE")
    assert upgrade(database).mode != "standalone"
    return database


def test_init_alongside_panda_is_refused(beside_panda: Database, broker: Command) -> None:
    result = broker("init", "--vo", "myexp")
    assert (result.status, "the tables are those of a PanDA" in result.err) == (3, True)
