"""Global shares: their targets, what runs and waits in each, and how they are set and removed.

Running and waiting work is in HS06. Each change records who made it and why.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa

from agents.classes.classification import no_queue
from agents.service.configuration import config_file, load_process
from broker.classes.share_preference import ShareLoad, ShareNode, share_loads
from broker.domain.grid import COUNTED_STATUSES
from broker.domain.work import DroppedRow
from broker.errors import Refused
from broker.grid.answers.grid import last_snapshot
from broker.grid.answers.models import ShareLine, Shares
from broker.grid.answers.queue_records import queue_records
from broker.grid.model.share_tree import GlobalShare, check_removal, check_share
from broker.grid.statements import share_rows
from broker.grid.statements.share_rows import ShareChange
from broker.snapshot.build_classes import share_values
from broker.snapshot.snapshot import Snapshot
from broker.store.classes.class_inputs import read_share_counts, read_share_rows
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext, known_name
from broker.store.schema import migrate

RUNNING = ("running",)
QUEUED = ("defined", "assigned", "activated", "starting")


@dataclass
class _Totals:
    """The load of a share, including all shares below it."""

    running_hs06: float = 0.0
    queued_hs06: float = 0.0
    running_jobs: int = 0
    queued_jobs: int = 0
    children: list[str] = field(default_factory=list)


def shares(query: QueryContext) -> Shares:
    """The tree of shares, parents first. HS06 are PanDA's own statistics, or counted now, as ``broker.yaml`` says."""
    dropped: list[DroppedRow] = []
    rows = read_share_rows(query.connection, query.catalogue)
    nodes = [ShareNode(*value) for value in share_values(rows, dropped)]
    process = load_process(config_file("broker.yaml", query.config), query.config)
    queues = queue_records(query).about
    if not queues:
        raise no_queue()
    counts, computed_at = read_share_counts(query.connection, query.catalogue, process.job_statistics)
    jobs = jobs_by_share(last_snapshot(query))
    lines = share_lines(nodes, share_loads(counts, queues), jobs)
    counted_at = computed_at if process.job_statistics == "panda" else query.now
    return Shares(now=query.now, counted_at=counted_at, shares=tuple(lines))


def jobs_by_share(snapshot: Snapshot | None) -> dict[str, tuple[int, int]]:
    """Running and waiting jobs by share, over all queues; empty without a snapshot."""
    if snapshot is None:
        return {}
    totals = snapshot.jobs.by_accounting_key.sum(axis=0)
    running = [COUNTED_STATUSES.index(status) for status in RUNNING]
    queued = [COUNTED_STATUSES.index(status) for status in QUEUED]
    return {
        tag: (int(totals[row, running].sum()), int(totals[row, queued].sum()))
        for row, tag in enumerate(snapshot.jobs.accounting_keys)
        if not tag.startswith("#")
    }


def share_lines(
    nodes: Sequence[ShareNode], loads: Mapping[str, ShareLoad], jobs: Mapping[str, tuple[int, int]]
) -> list[ShareLine]:
    """The lines of the tree; a share adds up its own load and that of its children. Pure.

    The target of a share is its part, among its siblings, of its parent's target; all top-level shares add up to 100.
    """
    children: defaultdict[str | None, list[ShareNode]] = defaultdict(list)
    for node in nodes:
        children[node.parent].append(node)
    totals: dict[str, _Totals] = {}
    for node in children[None]:
        _total(node, children, loads, jobs, totals)
    all_running = sum(totals[node.name].running_hs06 for node in children[None])
    lines: list[ShareLine] = []
    _add_lines(children[None], 100.0, 0, children, totals, all_running, lines)
    return lines


def _total(
    node: ShareNode,
    children: Mapping[str | None, Sequence[ShareNode]],
    loads: Mapping[str, ShareLoad],
    jobs: Mapping[str, tuple[int, int]],
    totals: dict[str, _Totals],
) -> _Totals:
    load, (running, queued) = loads.get(node.name, ShareLoad()), jobs.get(node.name, (0, 0))
    total = totals[node.name] = _Totals(load.running_hs, load.queuing_hs, running, queued)
    for child in children.get(node.name, ()):
        if child.name in totals:
            continue  # a cycle in the table
        below = _total(child, children, loads, jobs, totals)
        total.running_hs06 += below.running_hs06
        total.queued_hs06 += below.queued_hs06
        total.running_jobs += below.running_jobs
        total.queued_jobs += below.queued_jobs
        total.children.append(child.name)
    return total


def _add_lines(
    siblings: Iterable[ShareNode],
    target: float,
    depth: int,
    children: Mapping[str | None, Sequence[ShareNode]],
    totals: Mapping[str, _Totals],
    all_running: float,
    lines: list[ShareLine],
) -> None:
    listed = sorted(siblings, key=lambda node: (-node.value, node.name))
    whole = sum(node.value for node in listed)
    for node in listed:
        own, total = target * node.value / whole if whole > 0 else 0.0, totals[node.name]
        running = 100.0 * total.running_hs06 / all_running if all_running > 0 else None
        lines.append(
            ShareLine(
                gshare=node.name,
                parent=node.parent,
                depth=depth,
                value=node.value,
                target_percent=own,
                running_percent=running,
                running_hs06=total.running_hs06,
                queued_hs06=total.queued_hs06,
                running_jobs=total.running_jobs,
                queued_jobs=total.queued_jobs,
                usage_of_target_percent=None if running is None or own <= 0 else 100.0 * running / own,
            )
        )
        below = [child for child in children.get(node.name, ()) if child.name in total.children]
        _add_lines(below, own, depth + 1, children, totals, all_running, lines)


class NotOurShares(Refused):
    """The shares belong to a PanDA installation."""


@dataclass(frozen=True)
class ShareEdit:
    """Who changes a share, why and when (aware)."""

    editor: str
    reason: str
    at: datetime


def set_share(
    database: Database, name: str, value: int, fields: Mapping[str, str | None], edit: ShareEdit
) -> tuple[GlobalShare, bool]:
    """Create or change a share; running services use it from their next cycle on.

    Args:
        database: database of a standalone installation.
        name: name of the share.
        value: its part, relative to its siblings.
        fields: further fields of :class:`GlobalShare` to change; omitted fields stay.
        edit: who changes it.

    Returns:
        The share as it is now, and whether it was created.

    Raises:
        NotOurShares: alongside PanDA.
        ShareRefused: the share is invalid.
        NotFound: there is no such parent.
    """
    _check_standalone(database)
    with database.begin() as connection:
        share_rows.lock_shares(connection, database.names)
        known = share_rows.read_shares(connection, database.names)
        old = known.get(name)
        current = old or GlobalShare(name, value, vo=database.names.vo)
        new = GlobalShare(**{**dataclasses.asdict(current), **fields, "value": value})
        check_share(new, known)
        _write(connection, database, old, new, edit)
    return new, old is None


def add_share(database: Database, name: str, value: int, edit: ShareEdit) -> bool:
    """Create a share unless its name exists, and return whether it was created; an existing share stays as it is.

    Raises:
        NotOurShares: alongside PanDA.
    """
    _check_standalone(database)
    with database.begin() as connection:
        share_rows.lock_shares(connection, database.names)
        if name in share_rows.read_shares(connection, database.names):
            return False
        _write(connection, database, None, GlobalShare(name, value, vo=database.names.vo), edit)
    return True


def _write(
    connection: sa.Connection, database: Database, old: GlobalShare | None, new: GlobalShare, edit: ShareEdit
) -> None:
    share_rows.write_share(connection, database.names, new)
    before = None if old is None else dataclasses.asdict(old)
    change = ShareChange(edit.at, edit.editor, edit.reason, new.name, before, dataclasses.asdict(new))
    share_rows.note_change(connection, change)


def remove_share(database: Database, name: str, edit: ShareEdit) -> None:
    """Remove a share.

    Raises:
        NotOurShares: alongside PanDA.
        NothingFound: there is no such share; the error names similar ones.
        ShareRefused: shares are below it, or some of its tasks have not ended.
    """
    _check_standalone(database)
    with database.begin() as connection:
        share_rows.lock_shares(connection, database.names)
        known = share_rows.read_shares(connection, database.names)
        if name not in known:
            name = known_name("share", name, known, "global_shares")
        check_removal(name, known.values(), share_rows.open_tasks(connection, database.names, name))
        share_rows.remove_share(connection, database.names, name)
        old = dataclasses.asdict(known[name])
        share_rows.note_change(connection, ShareChange(edit.at, edit.editor, edit.reason, name, old, None))


def _check_standalone(database: Database) -> None:
    if migrate.check(database) != migrate.STANDALONE:
        raise NotOurShares("the shares belong to a PanDA installation", repr(database), "change them in PanDA")
