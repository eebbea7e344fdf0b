"""The help of every command, under whichever Typer is installed: ``.ci/typer-versions`` runs it with several."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import typer

from broker.cli import commands, completion
from broker.cli.application import NONE, build_app
from tests.cli.commands import runner


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, one in inner.items():
        yield from leaves(one, (*path, name))


def test_every_help_shows_each_option_with_its_words_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    command = runner(capsys)
    for path, found in leaves(typer.main.get_command(build_app())):
        shown = " ".join(command(*path, "--help").out.split())
        assert "\\[" not in shown and "<bool>" not in shown, path
        for one in found.params:
            words = " ".join((one.help or "").split())
            assert words in shown, (path, one.name)
            if one.default not in (None, False, ()) and getattr(one, "show_default", False) is True:
                default = getattr(one.default, "value", one.default)
                if default is True:
                    default = one.name.replace("_", "-")  # a switch with two names shows the one that holds
                assert f"default: {default}" in shown, (path, one.name)


def test_bracketed_words_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "[drawn]" in runner(capsys)("run", "--help").out


def test_the_list_of_commands_is_whole_and_nothing_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    listed = runner(capsys)("--help").out
    flat = " ".join(listed.split())
    for name, _, text in commands.COMMANDS:
        assert f"{name} {text}" in flat
    assert "..." not in listed.partition("COMMAND [ARGS]...")[2]


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from broker.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'sqlalchemy', 'pydantic', 'rich', 'psycopg', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_build_app_without_a_command_has_all_names() -> None:
    names = set(typer.main.get_command(build_app(NONE)).commands)  # type: ignore[attr-defined]
    assert names == {name for name, _, _ in commands.COMMANDS}


class Completions(Protocol):
    def __call__(self, *words: str, home: Path | None = None) -> list[str]: ...


@pytest.fixture
def completions(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Completions:
    """What a shell is offered for the last of some words."""

    def offered(*words: str, home: Path | None = None) -> list[str]:
        for name in [name for name in os.environ if name.startswith("BROKER_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv(completion.VARIABLE, "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(("broker", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        if home is not None:
            monkeypatch.setenv("BROKER_HOME", str(home))
        done = runner(capsys)()
        assert done.err == ""
        return done.out.split()

    return offered


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("wh",), ["why-not", "why-timeout", "what-if"]),
        (("config", "ge"), ["get"]),
        (("config", "get", "NQUEUED_NUC_CAP_"), ["NQUEUED_NUC_CAP_FOR_JOBS"]),
        (("config", "set", "NQUEUED_SAT"), ["NQUEUED_SAT_CAP"]),
        (("run", "analysis_r"), ["analysis_rebrokerage"]),
        (("rules", "production"), ["production_job", "production_task"]),
        (("what-if", "--rule", "lowm"), ["lowmemory=off", "lowmemory=on"]),
        (("what-if", "--set", "NQUEUED_SAT"), ["NQUEUED_SAT_CAP="]),
        (("pool", "list", "--fo"), ["--format"]),
    ],
)
def test_commands_and_names_complete(words: tuple[str, ...], expected: list[str], completions: Completions) -> None:
    assert sorted(completions(*words)) == sorted(expected)


def test_nothing_is_completed_where_nothing_runs(tmp_path: Path, completions: Completions) -> None:
    assert completions("queue", "history", "B", home=tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("shell", "word"), [("bash", "COMP_WORDS"), ("zsh", "compdef"), ("fish", "commandline")])
def test_a_script_for_each_shell(shell: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = runner(capsys)("completion", shell)
    assert done.status == 0
    assert word in done.out and completion.VARIABLE in done.out


def test_another_shell_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    done = runner(capsys)("completion", "tcsh")
    assert (done.status, done.out) == (2, "")
    assert "bash, zsh, fish" in done.err
