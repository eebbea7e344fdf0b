"""``--format`` and ``--watch`` for every command that prints rows, added when the command is registered."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import OptionInfo

from broker.cli import output
from broker.cli.closed_pipes import reader_gone
from broker.cli.completion import AnyFunction, with_annotations
from broker.cli.output import Format, say
from broker.cli.rendering.cells import utc

FORMAT, WATCH = "output_format", "watch_every_s"
JSON_OPTION = "--json"
CLEAR_SCREEN = "\x1b[H\x1b[2J"

_FormatOption = Annotated[
    Format,
    typer.Option(
        "--format",
        help="How rows are printed: table (tabs in a pipe), json (as --json), csv, or wide: every column.",
    ),
]
_WatchOption = Annotated[
    float | None,
    typer.Option("--watch", metavar="SECONDS", min=0.1, help="Show it again so often, until Ctrl-C."),
]


def with_rendering(function: AnyFunction, watched: bool, wait: Callable[[float], None] | None = None) -> AnyFunction:
    """Return ``function`` with ``--format``, and ``--watch`` if ``watched``; unchanged if it has no ``--json``.

    Args:
        function: a command.
        watched: whether it lists things and changes nothing.
        wait: replaces sleeping between two refreshes.
    """
    json_name = _json_parameter(function)
    if json_name is None:
        return function

    added = {FORMAT: (_FormatOption, Format.TABLE), **({WATCH: (_WatchOption, None)} if watched else {})}

    @with_annotations(function, {}, added)
    def command(*arguments: Any, **named: Any) -> Any:
        output_format, every_s = named.pop(FORMAT, Format.TABLE), named.pop(WATCH, None)
        if named.get(json_name):
            output_format = Format.JSON
        named[json_name] = output_format is Format.JSON
        token, started = output.chosen.set(output_format), output.tables.set(0)
        try:
            once = functools.partial(function, *arguments, **named)
            return once() if every_s is None else _again_and_again(once, every_s, wait or time.sleep)
        finally:
            output.chosen.reset(token)
            output.tables.reset(started)

    return command


def _json_parameter(function: AnyFunction) -> str | None:
    """Return the parameter that ``--json`` sets."""
    for name, hint in get_type_hints(function, include_extras=True).items():
        for metadata in getattr(hint, "__metadata__", ()):
            if isinstance(metadata, OptionInfo) and JSON_OPTION in (metadata.default, *(metadata.param_decls or ())):
                return name
    return None


def _again_and_again(once: Callable[[], Any], every_s: float, wait: Callable[[float], None]) -> None:
    try:
        while True:
            if sys.stdout.isatty():
                sys.stdout.write(CLEAR_SCREEN)
            say(f"every {every_s:g} s, now {utc(datetime.now(UTC))}; Ctrl-C ends it")
            with contextlib.suppress(typer.Exit):  # the next refresh comes all the same
                once()
            sys.stdout.flush()
            if reader_gone():
                return
            wait(every_s)
    except KeyboardInterrupt:
        return
