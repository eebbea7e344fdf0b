"""``broker init``: create an installation for a VO of its own."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from broker.cli.context import connect_store, moment_of, settings_of
from broker.cli.output import print_json, print_table, remark
from broker.service.answers.installing import SITES_FILE, WrongVo, checked_vo, fill_database, write_files
from broker.tuning.answers.values import Editor, editor_name


def init(
    context: typer.Context,
    vo: Annotated[
        str | None, typer.Option("--vo", metavar="NAME", help="The virtual organisation [prompted for on a terminal].")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="For its files [BROKER_CONFIG, else config in BROKER_HOME]."),
    ] = None,
    editor: Editor = None,
    json: Annotated[bool, typer.Option("--json", help="One object for each thing that now exists.")] = False,
) -> None:
    """Create an installation for a VO of its own: database, VO, share, resource types, thresholds, profile small.

    Run again, it changes nothing: what exists already stays.
    """
    settings = settings_of(context)
    name, who = checked_vo(_ask_for_vo() if vo is None else vo), editor_name(editor)
    config_folder = folder or settings.config or settings.own_folder
    with connect_store(context) as database:
        steps = fill_database(database, name, who, moment_of(None, database))
    steps += write_files(config_folder)
    for step in steps if json else ():
        print_json(dataclasses.asdict(step))
    if not json:
        rows = [(step.what, step.value, step.done, step.note) for step in steps]
        print_table(("what", "value", "", "note"), rows, title=f"Installation of VO {name}")
    if settings.database_url is not None:
        remark("name the database to all commands: --db or BROKER_DATABASE_URL")
    if config_folder not in (settings.config, settings.own_folder):
        remark(f"name the folder to all commands: export BROKER_CONFIG={shlex.quote(str(config_folder.resolve()))}")
    sites = config_folder / SITES_FILE
    remark(f"next: put your sites into {sites}, then: broker import sites {shlex.quote(str(sites))}")


def _ask_for_vo() -> str:
    """Ask for the name on the terminal until it is valid.

    Raises:
        WrongVo: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise WrongVo("no VO is named", "--vo", "write broker init --vo NAME")
    while True:
        try:
            return checked_vo(typer.prompt("Name of the virtual organisation"))
        except WrongVo as error:
            remark(f"{error.what}: {error.remedy}")
