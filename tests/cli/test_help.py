"""The help of every command with the installed Typer; ``.ci/typer-versions`` runs these tests with several."""

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
    for name, inner_command in inner.items():
        yield from leaves(inner_command, (*path, name))


def test_every_help_describes_each_option_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    command = runner(capsys)
    for path, leaf in leaves(typer.main.get_command(build_app())):
        help_text = " ".join(command(*path, "--help").out.split())
        assert "\\[" not in help_text and "<bool>" not in help_text, path
        for option in leaf.params:
            words = " ".join((option.help or "").split())
            assert words in help_text, (path, option.name)
            if option.default not in (None, False, ()) and getattr(option, "show_default", False) is True:
                default = getattr(option.default, "value", option.default)
                if default is True:
                    default = option.name.replace("_", "-")  # a switch with two names shows the active one
                assert f"default: {default}" in help_text, (path, option.name)


def test_bracketed_words_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "[drawn]" in runner(capsys)("run", "--help").out


def test_the_list_of_commands_is_complete_and_not_truncated(capsys: pytest.CaptureFixture[str]) -> None:
    help_text = runner(capsys)("--help").out
    flat = " ".join(help_text.split())
    for name, _, text in commands.COMMANDS:
        assert f"{name} {text}" in flat
    assert "..." not in help_text.partition("COMMAND [ARGS]...")[2]


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from broker.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'sqlalchemy', 'pydantic', 'rich', 'psycopg', 'yaml'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_build_app_without_a_command_has_all_names() -> None:
    names = set(typer.main.get_command(build_app(NONE)).commands)  # type: ignore[attr-defined]
    assert names == {name for name, _, _ in commands.COMMANDS}


class Completions(Protocol):
    def __call__(self, *words: str, home: Path | None = None) -> list[str]: ...


@pytest.fixture
def completions(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Completions:
    """``completions(*words)``: the completions of the last word in a shell."""

    def complete(*words: str, home: Path | None = None) -> list[str]:
        for name in [name for name in os.environ if name.startswith("BROKER_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv(completion.VARIABLE, "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(("broker", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        if home is not None:
            monkeypatch.setenv("BROKER_HOME", str(home))
        result = runner(capsys)()
        assert result.err == ""
        return result.out.split()

    return complete


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


def test_nothing_is_completed_without_a_running_server(tmp_path: Path, completions: Completions) -> None:
    assert completions("queue", "history", "B", home=tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("shell", "word"), [("bash", "COMP_WORDS"), ("zsh", "compdef"), ("fish", "commandline")])
def test_a_script_for_each_shell(shell: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = runner(capsys)("completion", shell)
    assert result.status == 0
    assert word in result.out and completion.VARIABLE in result.out


def test_another_shell_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    result = runner(capsys)("completion", "tcsh")
    assert (result.status, result.out) == (2, "")
    assert "bash, zsh, fish" in result.err
