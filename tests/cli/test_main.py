from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest
import typer

from broker import __version__
from broker.cli import commands as commands_module
from broker.cli.application import NONE
from broker.cli.context import settings_of
from broker.cli.main import _command_in, _options_first, main
from broker.errors import BrokerError, Refused


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert isinstance(end.value.code, int)
    return end.value.code


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, broker_home: Path) -> types.ModuleType:
    """A module with commands, known to ``broker`` by the names of its functions."""
    module = types.ModuleType("made_up_commands")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def register(function: object, name: str) -> None:
        setattr(module, name, function)
        entry = (name, f"{module.__name__}:{name}", "A synthetic command.")
        monkeypatch.setattr(commands_module, "COMMANDS", (*commands_module.COMMANDS, entry))

    module.register = register  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (BrokerError("what", "where", "do this"), 1, "error: what; where; do this\n"),
        (BrokerError("what"), 1, "error: what\n"),
        (Refused("stale\nnews\x1b[2J", "", "wait"), 3, "error: stale\\nnews\\x1b[2J; wait\n"),
    ],
)
def test_an_error_is_one_line_and_a_status(
    commands: types.ModuleType, capsys: pytest.CaptureFixture[str], error: BrokerError, status: int, line: str
) -> None:
    def fail() -> None:
        raise error

    commands.register(fail, "fail")
    assert run("fail") == status
    assert capsys.readouterr() == ("", line)


def test_an_unexpected_error_is_one_line_and_a_traceback_on_request(
    commands: types.ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise KeyError("no such key")

    commands.register(fail, "fail")
    assert run("fail") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: KeyError: 'no such key'; test_main.py, line ")
    assert printed.err.count("\n") == 1
    monkeypatch.setenv("BROKER_TRACEBACK", "1")
    assert run("fail") == 1
    assert "Traceback" in capsys.readouterr().err


def test_commands_get_the_settings(commands: types.ModuleType, broker_home: Path) -> None:
    records = []

    def record(context: typer.Context, word: str) -> None:
        records.append((settings_of(context).database_url, settings_of(context).home, word))

    commands.register(record, "look")
    assert run("look", "a", "--db", "postgresql://h/d") == 0
    assert run("--db=postgresql://h/e", "look", "b") == 0
    assert run("look", "--", "--db") == 0
    assert records == [
        ("postgresql://h/d", broker_home, "a"),
        ("postgresql://h/e", broker_home, "b"),
        (None, broker_home, "--db"),
    ]


def test_a_group_is_a_typer_application(commands: types.ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()

    @app.command()
    def one() -> None:
        print("one")

    @app.command()
    def two() -> None:
        print("two")

    commands.register(app, "group")
    assert run("group", "two") == 0
    assert capsys.readouterr().out == "two\n"


def test_a_missing_command_module_does_not_break_other_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        commands_module, "COMMANDS", (*commands_module.COMMANDS, ("later", "broker.cli.no_such_module:later", "Later."))
    )
    assert run("--help") == 0
    help_text = capsys.readouterr().out
    assert "db" in help_text
    assert "later" not in help_text
    assert run("later") == 2


def test_a_missing_package_is_named_by_the_command_that_needs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "needs_more.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(commands_module, "COMMANDS", (*commands_module.COMMANDS, ("more", "needs_more:more", "More.")))
    assert run("--help") == 0
    capsys.readouterr()
    assert run("more") == 1
    assert capsys.readouterr().err == (
        "error: the package no_such_package is not installed; command more; pip install no_such_package\n"
    )


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        # messages of a Typer with pydantic, and of the oldest supported one
        (
            ("explain", "abc"),
            (
                "Invalid value for 'TASK': 'abc' is no whole number",
                "Invalid value for 'TASK': 'abc' is not a valid integer.",
            ),
        ),
        (
            ("tasks", "--limit", "0"),
            (
                "Invalid value for '--limit': '0' is less than 1",
                "Invalid value for '--limit': 0 is not in the range 1<=x<=100000.",
            ),
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_explained_in_plain_words(
    words: tuple[str, ...], messages: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    assert capsys.readouterr().err.splitlines()[-1].removeprefix("Error: ") in messages
    assert run(*words, "--json") == 2
    assert json.loads(capsys.readouterr().out)["error"]["what"] in messages


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"gridbroker {__version__}\n"


def test_a_bad_schema_name_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BROKER_PANDA_SCHEMA", "a;b")
    assert run("db", "init", "--db", "postgresql://localhost:1/x") == 1
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["db", "init"], "db"),
        (["--db", "url", "run", "x"], "run"),
        (["--db=url", "run"], "run"),
        (["--help"], NONE),
        ([], NONE),
        (["--db"], NONE),
    ],
)
def test_the_command_is_found_among_the_options(words: list[str], command: str | None) -> None:
    assert _command_in(words) == command


@pytest.mark.parametrize(
    ("words", "sorted_words"),
    [
        (["run", "--db", "u", "x"], ["--db", "u", "run", "x"]),
        (["run", "--db=u"], ["--db=u", "run"]),
        (["db", "psql", "--", "--db", "u"], ["db", "psql", "--", "--db", "u"]),
        (["run", "--db"], ["run", "--db"]),
    ],
)
def test_the_database_may_be_named_anywhere(words: list[str], sorted_words: list[str]) -> None:
    assert _options_first(words) == sorted_words
