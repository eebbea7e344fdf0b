"""Whom a command asks: the database of the invocation, for the instant of its clock."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated

import typer

from broker.cli.context import open_store, settings_of
from broker.cli.time_arguments import moment_of
from broker.store.query_context import Asking

Json = Annotated[bool, typer.Option("--json", help="One object on one line.")]


@contextlib.contextmanager
def asked(context: typer.Context) -> Iterator[Asking]:
    """Ask the database of this invocation; what is read is of one instant."""
    with open_store(context) as database:
        now = moment_of(None, database, of_scenario=True)
        with database.read_snapshot() as connection:
            yield Asking(connection, database.names, now, settings_of(context).config)
