from __future__ import annotations

import csv
import io
import json
import os
import sys
import types
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from broker.cli import commands as commands_module
from broker.cli.application import build_app
from broker.cli.output import Column, print_json, print_table, say
from broker.cli.rendering import options
from broker.cli.rendering.cells import Percent, TimeWithAge
from tests.cli.commands import Command, runner

AT = datetime(2026, 11, 22, 5, 20, 58, tzinfo=UTC)
ROWS = [("BNL/MCORE", 5, Percent(0.0353987), TimeWithAge(AT, AT), "a, b")]
COLUMNS = (
    "queue",
    "jobs",
    Column("share", drop_order=1),
    Column("since", drop_order=2),
    Column("links", only_wide=True),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def listing(json: Annotated[bool, typer.Option("--json", help="Objects.")] = False) -> None:
    """A list."""
    if json:
        print_json({"queue": "BNL/MCORE", "jobs": 5})
        return
    print_table(COLUMNS, ROWS, title="Queues")
    print_table(("reason", "queues"), [("lowmemory", 3)], title="Reasons")
    say("That is all.")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broker_home: Path) -> Command:
    module = types.ModuleType("listing_commands")
    module.listing = listing  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = ("listing", "listing_commands:listing", "A list.")
    monkeypatch.setattr(commands_module, "COMMANDS", (*commands_module.COMMANDS, entry))
    monkeypatch.setattr(commands_module, "WATCHED", frozenset({"listing"}))
    return runner(capsys)


def test_a_pipe_gets_tabs_and_no_padding(command: Command) -> None:
    assert command("listing").out.splitlines() == [
        "Queues",
        "queue\tjobs\tshare\tsince",
        "BNL/MCORE\t5\t3.5 %\t2026-11-22 05:20:58 UTC (now)",
        "Reasons",
        "reason\tqueues",
        "lowmemory\t3",
        "That is all.",
    ]


def test_wide_shows_every_column_aligned(command: Command) -> None:
    lines = command("listing", "--format", "wide").out.splitlines()
    assert lines[1:4] == [
        "queue      jobs  share  since                          links",
        "---------  ----  -----  -----------------------------  -----",
        "BNL/MCORE     5  3.5 %  2026-11-22 05:20:58 UTC (now)  a, b",
    ]


def test_csv_has_every_column_and_nothing_but_rows(command: Command) -> None:
    first, second = command("listing", "--format", "csv").out.split("\n\n")
    assert list(csv.reader(first.splitlines())) == [
        ["queue", "jobs", "share", "since", "links"],
        ["BNL/MCORE", "5", "0.0353987", "2026-11-22T05:20:58+00:00", "a, b"],
    ]
    assert list(csv.reader(second.splitlines())) == [["reason", "queues"], ["lowmemory", "3"]]


@pytest.mark.parametrize("words", [("--json",), ("--format", "json"), ("--json", "--format", "csv")])
def test_json_by_either_option(command: Command, words: tuple[str, ...]) -> None:
    assert json.loads(command("listing", *words).out) == {"queue": "BNL/MCORE", "jobs": 5}


def test_an_unknown_format_is_wrong_usage(command: Command) -> None:
    assert command("listing", "--format", "yaml").status == 2


def test_a_narrow_terminal_gives_up_columns_and_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    print_table(COLUMNS, ROWS, stream=stream)
    assert stream.getvalue().splitlines() == [
        "queue      jobs  share",
        "---------  ----  -----",
        "BNL/MCORE     5  3.5 %",
        "(no room for: since; see",
        "--format wide)",
        "",
    ]


def _interrupted_wait(until: int) -> tuple[list[float], Callable[[float], None]]:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == until:
            raise KeyboardInterrupt

    return waits, wait


def test_watch_repeats_the_list_until_it_is_interrupted(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    waits, wait = _interrupted_wait(3)
    monkeypatch.setattr(options.time, "sleep", wait)
    result = command("listing", "--watch", "2.5")
    assert result.status == 0
    assert waits == [2.5] * 3
    assert result.out.count("BNL/MCORE") == 3
    assert result.out.count("every 2.5 s, now 20") == 3


def test_watch_is_for_lists_only(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands_module, "WATCHED", frozenset())
    assert command("listing", "--watch", "1").status == 2


def test_every_watched_command_exists_and_each_with_json_has_formats() -> None:
    options_of = dict(_leaves(typer.main.get_command(build_app())))
    assert set(options_of) >= commands_module.WATCHED
    for path, names in options_of.items():
        assert ("--format" in names) == ("--json" in names), path
        if path != "import sites":  # its --watch follows the file; the command prints no list
            assert ("--watch" in names) == (path in commands_module.WATCHED), path


def _leaves(command: Any, path: str = "") -> list[tuple[str, list[str]]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        return [(path, [name for parameter in command.params for name in parameter.opts])]
    return [leaf for name, subcommand in inner.items() for leaf in _leaves(subcommand, f"{path} {name}".strip())]


def test_text_is_wrapped_to_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    stream = Terminal()
    say("a sentence that is longer than the terminal", stream=stream)
    assert all(len(line) <= 24 for line in stream.getvalue().splitlines())
    assert os.environ["COLUMNS"] == "24"
