"""``broker import sites``: the sites of an installation from a file of its own, once or whenever it changes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from agents.feeds.sites import MAX_BYTES, SitesAgent, SitesOptions
from broker.cli.context import settings_of
from broker.cli.output import print_json, remark
from broker.errors import DONE, REFUSED, WRONG_USAGE, BrokerError
from broker.feeds.commands.by_hand import At, ByHand, DryRun, Json
from broker.feeds.model.sites_file.reading import SitesRefused, read_sites
from broker.feeds.model.sites_file.tables import Declared
from broker.fetching.web import read_file

FILE = "sites.yaml"
EVERY_S = 2.0
"""Seconds between two looks at a file that is followed."""


class NoFile(BrokerError):
    """No file of sites is named, and there is none where one is looked for."""

    exit_status = WRONG_USAGE


def sites(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="[sites.yaml of the configuration]", show_default=False)
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Import it again whenever it changes, until stopped.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    at: At = None,
) -> None:
    """Sites, queues, endpoints and space, from a file of your own (YAML); what it leaves out goes offline."""
    chosen = _named(context) if file is None else file

    def work() -> int:
        return import_file(context, chosen, dry_run, as_json, at)

    status = follow(chosen, work) if watch else work()
    if status:
        raise typer.Exit(status)


def import_file(context: typer.Context, file: Path, dry_run: bool, as_json: bool, at: str | None) -> int:
    """Check the file and import it; the exit status.

    Raises:
        BrokerError: it cannot be read, or the import was refused.
    """
    try:
        grid = read_sites(read_file(file, MAX_BYTES).data or b"", str(file))
    except SitesRefused as refused:
        for one in refused.problems:
            if as_json:
                print_json({"file": str(file), **dataclasses.asdict(one)})
            else:
                remark(f"error: {file}, {one.sentence}")
        remark(f"{len(refused.problems)} faults in {file}: nothing was imported")
        return REFUSED
    by_hand = ByHand(context, dry_run, as_json, at, allow_shrink=True)
    by_hand.run(SitesAgent(SitesOptions(**by_hand.options(SitesAgent.name, file=file)), by_hand.process))
    by_hand.end()
    if not as_json:
        found = Declared.of(grid)
        numbers = f"{len(found.sites)} sites, {len(found.queues)} queues, {len(found.endpoints)} endpoints"
        remark(f"{numbers} {'would be' if dry_run else 'are'} on record; next: broker doctor --ready")
    return DONE


def follow(file: Path, work: Callable[[], int], pause: Callable[[float], object] = time.sleep) -> int:
    """Do ``work`` now and each time the file changes, until interrupted; the exit status.

    What goes wrong is told and tried again when the file changes; a lease that another process holds, at each look.

    Args:
        file: the file.
        work: what is to be done; gives an exit status.
        pause: waits for seconds between two looks.
    """
    seen: object = None
    try:
        while True:
            found = _mark(file)
            if found != seen:
                seen = found
                try:
                    work()
                except typer.Exit:
                    pass  # what it found was told
                except BrokerError as error:
                    remark(f"error: {error}")
                    seen = None if error.exit_status == REFUSED else found
                remark(f"following {file}; Ctrl-C ends it")
            pause(EVERY_S)
    except KeyboardInterrupt:
        return DONE


def _mark(file: Path) -> object:
    """What tells one version of a file from another; a file that is not there has a mark, too."""
    try:
        found = file.stat()
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino


def _named(context: typer.Context) -> Path:
    settings = settings_of(context)
    file = (settings.config or settings.own_folder) / FILE
    if not file.is_file():
        raise NoFile("no file of sites is named", str(file), "write broker import sites FILE, or broker init first")
    return file
