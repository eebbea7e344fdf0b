"""The command ``broker``: finds the command groups, and turns errors into one line and an exit status."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, NoReturn

import typer

from broker import __version__
from broker.cli.output import remark
from broker.errors import FAILED, BrokerError
from broker.settings import read_settings

COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("demo", "broker.cli.demo:demo", "Broker a whole example grid, from start to finish."),
    ("serve", "broker.cli.serve:serve", "Run all agents on their schedules, until stopped."),
    ("run", "broker.cli.run:run", "Run one cycle of one agent."),
    ("agents", "broker.cli.agents:agents", "What runs, when, the last outcome, and who holds the lease."),
    ("explain", "broker.cli.explain:explain", "The last decision about a task, with reasons and weights."),
    ("why-not", "broker.cli.explain:why_not", "Why a queue was not chosen for a task."),
    ("story", "broker.cli.story:story", "The timeline of one task: decisions, tuning, timeouts, moves."),
    ("replay", "broker.cli.replay:replay", "Decide again what was decided, and compare to the byte."),
    ("snapshot", "broker.cli.snapshot:app", "What is kept of the grid: list, show, export to a file, import."),
    ("timeouts", "broker.cli.timeouts:timeouts", "Which jobs have waited or run for too long, by rule."),
    ("why-timeout", "broker.cli.timeouts:why_timeout", "When each timeout rule fires for a job, and why not."),
    ("match", "broker.cli.match:match", "Which queues take a requirement, which refuse it, and why."),
    (
        "classes",
        "broker.cli.classes:classes",
        "Classes of queues, users and tasks; usage of shares; their age.",
    ),
    ("rules", "broker.cli.rules:rules", "The ordered rules of a brokerage."),
    ("what-if", "broker.cli.what_if:what_if", "What would have been decided with other values or rules."),
    ("sweep", "broker.cli.sweep:sweep", "What would have been decided with each value of a grid."),
    ("config", "broker.cli.config:app", "List, read and set tuning values."),
    ("features", "broker.cli.features:app", "What a site tells its jobs: read, report, publish, announce a shutdown."),
    ("job-status", "broker.cli.job_status:app", "What a job tells its site: write, read, and rank jobs to vacate."),
    ("sss", "broker.cli.sss:app", "Jobs as SSS Job Objects: validate, show, import, export."),
    ("pool", "broker.cli.pool_store:app", "SubmitPools: what jobs require, and which queues meet it."),
    ("match-job", "broker.cli.match_job:match_job", "One job for a pilot, or why there is none."),
    ("submit", "broker.cli.submit:submit", "Submit jobs from a file, by its kind."),
    ("db", "broker.cli.db:app", "Install, upgrade, load, dump and reach the database."),
)
"""Name, ``module:attribute``, help. The attribute is a function (one command) or a ``typer.Typer`` (a group)."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and ends the process with its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, _end)
    try:
        build_app(_command_in(given))(args=_options_first(given), prog_name="broker")
    except BrokerError as error:
        remark(f"error: {error}")
        raise SystemExit(error.exit_status) from error
    except BrokenPipeError:
        # The reader has gone; leave nothing for the interpreter to flush into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(FAILED) from None
    except Exception as error:
        _report(error)
        raise SystemExit(FAILED) from error
    raise SystemExit(0)


def build_app(only: str | None = None) -> typer.Typer:
    """The application with one command group, or with all of them (for the help)."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="Workload brokerage for grids of batch queues: which nucleus, which queue, and why.",
    )
    app.callback()(_global_options)
    known = {name for name, _, _ in COMMANDS}
    for name, target, text in COMMANDS:
        if only not in known or name == only:
            _register(app, name, target, text)
    return app


def _register(app: typer.Typer, name: str, target: str, text: str) -> None:
    module, attribute = target.split(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name == module:
            return
        missing = error.name

        def unavailable() -> None:
            raise BrokerError(f"the package {missing} is not installed", f"command {name}", f"pip install {missing}")

        found = unavailable
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name, help=text)
    else:
        app.command(name, help=text)(found)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gridbroker {__version__}")
        raise typer.Exit


def _global_options(
    context: typer.Context,
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="URL", help="The database [BROKER_DATABASE_URL]; else the embedded one."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    context.obj = read_settings(db)


def _command_in(arguments: Sequence[str]) -> str | None:
    """The name of the command: the first word that is neither an option nor the value of ``--db``."""
    words = iter(arguments)
    for word in words:
        if word == "--db":
            next(words, None)
        elif word in ("--help", "--"):
            return None
        elif not word.startswith("-"):
            return word
    return None


def _options_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with ``--db URL`` in front, wherever it stood before ``--``."""
    front: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word == "--db":
            value = next(words, None)
            # Without a value it stays last, where it is reported instead of taking the next word.
            front, rest = (front, [*rest, word]) if value is None else ([*front, word, value], rest)
        elif word.startswith("--db="):
            front.append(word)
        else:
            rest.append(word)
    return front + rest


def _end(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends a command the way an error does, so that it lets go of the embedded server."""
    raise SystemExit(128 + number)


def _report(error: Exception) -> None:
    if os.environ.get("BROKER_TRACEBACK"):
        traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    first_line = (str(error).splitlines() or [""])[0][:500]
    remark(
        f"error: {type(error).__name__}: {first_line}; {os.path.basename(last.filename)}, line {last.lineno};"
        " run it again with BROKER_TRACEBACK=1 and report what it prints"
    )


if __name__ == "__main__":
    main()
