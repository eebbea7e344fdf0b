"""The frame of all commands that import documents: options, the run of an agent, the report and the exit status."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from agents.service import json_log, registry
from agents.service.base import Agent, CycleRequest
from agents.service.configuration import AgentsConfiguration, ProcessSettings, config_file, load, load_process
from broker.cli.completion import AnyFunction, with_annotations
from broker.cli.context import at_option, check_time, moment_of, open_store, settings_of
from broker.cli.output import print_json
from broker.errors import FAILED
from broker.service.commands.run import EXIT_STATUS, SEED_BITS, HandRun, report, run_by_hand

Files = Annotated[list[str], typer.Argument(metavar="FILE-OR-URL...", show_default=False)]
NamedFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FILE-OR-URL...", help="NAME if neither address nor content identifies it.", show_default=False
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change; write nothing.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]
At = Annotated[str | None, at_option("The instant of the import")]
AllowShrink = Annotated[
    bool, typer.Option("--allow-shrink", help="Accept documents and tables that are much smaller than before.")
]


class ByHand:
    """Runs agents once, with the operator's configuration.

    Attributes:
        allow_shrink: accept documents and tables that are much smaller than before.
        configuration: of the agents.
        process: settings of the process.
    """

    def __init__(self, context: typer.Context, dry_run: bool, json: bool, at: str | None, allow_shrink: bool) -> None:
        """Check the time and load the configuration; the database is not opened yet."""
        json_log.configure(level=logging.CRITICAL)
        check_time(at)  # a wrong time is reported before anything is opened
        self._context, self._json, self._at, self._dry_run = context, json, at, dry_run
        self.allow_shrink = allow_shrink
        folder: Path | None = settings_of(context).config
        self.configuration: AgentsConfiguration = load(config_file("agents.yaml", folder), registry.NAMES)
        self.process: ProcessSettings = load_process(config_file("broker.yaml", folder), folder)
        self._status = 0

    def options(self, name: str, **overrides: Any) -> dict[str, Any]:
        """The options of an agent as configured, with ``overrides`` in place of theirs."""
        agents = self.configuration.agents
        return (dict(agents[name].options) if name in agents else {}) | overrides

    def run(self, agent: Agent[Any]) -> None:
        """Run one cycle and print its results."""
        output: list[dict[str, Any]] = []
        request = CycleRequest(dry_run=self._dry_run, emit=print_json if self._json else output.append, by_hand=True)
        with open_store(self._context) as database:
            prepared = HandRun(database, moment_of(self._at, database), secrets.randbits(SEED_BITS), request)
            record = run_by_hand(agent, prepared, self.configuration)
        report(agent.name, record, None if self._json else output)
        self._status = max(self._status, EXIT_STATUS.get(record.outcome, FAILED))

    def end(self) -> None:
        """Exit with the worst status, unless every run succeeded."""
        if self._status:
            raise typer.Exit(self._status)


Work = Callable[[ByHand, list[str]], None]


def _plain(
    context: typer.Context, documents: Files, dry_run: DryRun = False, json: Json = False, at: At = None
) -> None:
    """Arguments that every import takes."""


def importing(app: typer.Typer, documents: Any = Files, *, shrinks: bool = True) -> Callable[[Work], AnyFunction]:
    """Register a function that imports documents as a command of ``app``.

    Args:
        app: the group.
        documents: annotation of its arguments.
        shrinks: whether documents may be refused for being smaller than before.
    """
    added = {"allow_shrink": (AllowShrink, False)} if shrinks else {}

    def register(work: Work) -> AnyFunction:
        @with_annotations(_plain, {"documents": documents}, added)
        def command(
            context: typer.Context,
            documents: list[str],
            dry_run: bool,
            json: bool,
            at: str | None,
            allow_shrink: bool = False,
        ) -> None:
            by_hand = ByHand(context, dry_run, json, at, allow_shrink)
            work(by_hand, documents)
            by_hand.end()

        command.__name__, command.__doc__ = work.__name__, work.__doc__
        return app.command()(command)

    return register
