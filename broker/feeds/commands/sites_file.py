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
"""Seconds between two checks of a file that is followed."""


class NoFile(BrokerError):
    """No file of sites is named, and none exists at the default place."""

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
    """Import sites, queues, endpoints and space from a file of your own (YAML); what it omits goes offline."""
    chosen = _default_file(context) if file is None else file

    def work() -> int:
        return import_file(context, chosen, dry_run, as_json, at)

    status = follow(chosen, work) if watch else work()
    if status:
        raise typer.Exit(status)


def import_file(context: typer.Context, file: Path, dry_run: bool, as_json: bool, at: str | None) -> int:
    """Check the file and import it; return the exit status.

    Raises:
        BrokerError: the file cannot be read, or the import was refused.
    """
    try:
        grid = read_sites(read_file(file, MAX_BYTES).data or b"", str(file))
    except SitesRefused as refused:
        for problem in refused.problems:
            if as_json:
                print_json({"file": str(file), **dataclasses.asdict(problem)})
            else:
                remark(f"error: {file}, {problem.sentence}")
        remark(f"{len(refused.problems)} faults in {file}: nothing was imported")
        return REFUSED
    by_hand = ByHand(context, dry_run, as_json, at, allow_shrink=True)
    by_hand.run(SitesAgent(SitesOptions(**by_hand.options(SitesAgent.name, file=file)), by_hand.process))
    by_hand.end()
    if not as_json:
        declared = Declared.of(grid)
        numbers = f"{len(declared.sites)} sites, {len(declared.queues)} queues, {len(declared.endpoints)} endpoints"
        remark(f"{numbers} {'would be' if dry_run else 'are'} on record; next: broker doctor --ready")
    return DONE


def follow(file: Path, work: Callable[[], int], pause: Callable[[float], object] = time.sleep) -> int:
    """Run ``work`` now and each time the file changes, until interrupted; return the exit status.

    Errors are reported. Failed work is retried when the file changes, or, while another process holds the lease, at
    each check.

    Args:
        file: the file.
        work: called for each version of the file; returns an exit status.
        pause: waits for a number of seconds between two checks.
    """
    seen: object = None
    try:
        while True:
            version = _version_of(file)
            if version != seen:
                seen = version
                try:
                    work()
                except typer.Exit:
                    pass  # its findings were reported
                except BrokerError as error:
                    remark(f"error: {error}")
                    seen = None if error.exit_status == REFUSED else version
                remark(f"following {file}; Ctrl-C ends it")
            pause(EVERY_S)
    except KeyboardInterrupt:
        return DONE


def _version_of(file: Path) -> object:
    """Identify the version of a file; a missing file has one, too."""
    try:
        status = file.stat()
    except OSError as error:
        return error.errno
    return status.st_mtime_ns, status.st_size, status.st_ino


def _default_file(context: typer.Context) -> Path:
    settings = settings_of(context)
    file = (settings.config or settings.own_folder) / FILE
    if not file.is_file():
        raise NoFile("no file of sites is named", str(file), "write broker import sites FILE, or broker init first")
    return file
