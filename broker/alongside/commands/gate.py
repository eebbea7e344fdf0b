"""``broker shadow --gate``: whether the work of PanDA's brokers may be handed over."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import typer

from broker.alongside.answers.gate import doctor_problems, gate, gate_file
from broker.alongside.answers.gate_page import gate_page
from broker.alongside.answers.sentences import gate_cells, verdict_sentence
from broker.alongside.answers.shadow_models import Gate
from broker.alongside.commands.shadow_plot import plot_shadow
from broker.cli.context import moment_of, open_store, settings_of
from broker.cli.output import print_json, print_table, say
from broker.errors import GATE_CLOSED, WRONG_USAGE, BrokerError
from broker.store.query_context import Asking
from broker.whatif.model.plot import check_plot


class NeedsAGate(BrokerError):
    """Options that do not go together."""

    exit_status = WRONG_USAGE


class CannotWritePage(BrokerError):
    """The page cannot be written."""


def show_gate(
    context: typer.Context,
    path: Path,
    at: str | None,
    given: Mapping[str, str | None],
    *,
    as_json: bool,
    html: Path | None,
    plot: Path | None,
) -> None:
    """Print the verdict; where the gate stays closed the command ends with status 6.

    Raises:
        NeedsAGate: an option of ``given`` says what the file says.
        GateFileError: the file cannot be used.
        CannotWritePage: the page cannot be written.
    """
    for option, value in given.items():
        if value is not None:
            raise NeedsAGate(f"{option} does not go with --gate", option, "the file says what is looked at")
    folder = settings_of(context).config
    criteria, where = gate_file(path, folder)
    if plot is not None:
        check_plot(plot)
    with open_store(context) as database:
        until = moment_of(at, database, of_scenario=True)
        here = time.monotonic, time.sleep
        clean = criteria.doctor == "clean"
        problems = doctor_problems(database, folder, datetime.now(UTC), *here) if clean else []
        with database.read_snapshot() as connection:
            found = gate(Asking(connection, database.names, until, folder), criteria, where, problems)
    if html is not None:
        _write(html, gate_page(found))
    if plot is not None:
        plot_shadow(found.shadow, plot)
    if as_json:
        print_json(found)
    else:
        _show(found)
    if not found.passed:
        raise typer.Exit(GATE_CLOSED)


def _show(found: Gate) -> None:
    say(verdict_sentence(found))
    headings = ("brokerage", "label", "criterion", "", "found", "limit", "detail")
    print_table(headings, [gate_cells(one) for one in found.lines], title=f"Criteria of {found.where}")
    for note in found.shadow.notes:
        say(f"note: {note}")


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CannotWritePage(f"the page cannot be written: {error.strerror}", str(path)) from error
