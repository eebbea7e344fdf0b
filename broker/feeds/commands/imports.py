"""``broker import``: import by hand and from files what the feeds import, show their log, and write example files."""

from __future__ import annotations

import dataclasses
import json as json_format
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from agents.feeds.by_hand import ReplicaFileOptions, ReplicaImport, WorkersImport, WorkersOptions
from agents.feeds.cric import CricAgent, CricOptions
from agents.feeds.network import NetworkAgent, NetworkOptions
from agents.feeds.rucio_usage import QuotaOptions, RucioQuotaAgent, RucioSpaceAgent, SpaceOptions
from agents.service.base import Agent
from broker.cli.context import open_store
from broker.cli.output import print_json, print_table, remark
from broker.errors import BrokerError
from broker.feeds.commands.by_hand import ByHand, Json, NamedFiles, importing
from broker.feeds.commands.document_names import cric_documents, rucio_kind
from broker.feeds.commands.sites_file import sites
from broker.feeds.statements.feed_runs import FeedRun, last_runs, status_changes
from broker.simulation.model.demo import grid_documents

MOST_STATUS_CHANGES = 50
"""Most queues with a changed status that are named below the table."""

app = typer.Typer(no_args_is_help=True)


@app.command()
def example(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Created if it does not exist.", show_default=False)],
    queues: Annotated[int, typer.Option("--queues", min=1, max=10_000, help="Number of queues of the grid.")] = 200,
) -> None:
    """Write what CRIC, Rucio, network metrics and Harvester would publish now about a synthetic grid."""
    now, size = datetime.now(UTC), grid_documents.GridSize(queues)
    documents: dict[str, Any] = grid_documents.cric_documents(size, now)
    documents |= {
        "network_metrics": grid_documents.network_metrics(size, now),
        "rse_usage": grid_documents.rse_usage(size, now),
        "worker_reports": grid_documents.worker_reports(size),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in documents.items():
            (folder / f"{name}.json").write_text(json_format.dumps(content), encoding="utf-8")
    except OSError as error:
        raise BrokerError(f"cannot write: {error.strerror}", str(folder), "name another folder") from error
    remark(f"{len(documents)} documents of {queues} queues in {folder}")


app.command()(sites)


@importing(app, NamedFiles)
def cric(by_hand: ByHand, documents: list[str]) -> None:
    """Import queues, software tags, sites, endpoints, relations and closeness, from documents of CRIC."""
    named = cric_documents(documents)
    options = by_hand.options("cric", documents=named, address=None, allow_shrink=by_hand.allow_shrink)
    by_hand.run(CricAgent(CricOptions(**options), by_hand.process))


@importing(app)
def rucio(by_hand: ByHand, documents: list[str]) -> None:
    """Import space of endpoints, replicas of datasets or quotas, from files with output of Rucio."""
    for address in documents:
        by_hand.run(_rucio_agent(by_hand, address))


@importing(app)
def network(by_hand: ByHand, documents: list[str]) -> None:
    """Import transfers and throughput of links, from network metrics."""
    for address in documents:
        options = by_hand.options("network", address=address, allow_shrink=by_hand.allow_shrink)
        by_hand.run(NetworkAgent(NetworkOptions(**options), by_hand.process))


@importing(app, shrinks=False)
def workers(by_hand: ByHand, documents: list[str]) -> None:
    """Import worker statistics, from reports of Harvester."""
    named = {f"report {number}": address for number, address in enumerate(documents, 1)}
    by_hand.run(WorkersImport(WorkersOptions(documents=named), by_hand.process))


def _rucio_agent(by_hand: ByHand, address: str) -> Agent[Any]:
    """The agent for the content of a file: replicas, quotas or space."""
    kind, source = rucio_kind(address)
    if kind == "replicas":
        return ReplicaImport(ReplicaFileOptions(address=source), by_hand.process)
    if kind == "quotas":
        return RucioQuotaAgent(QuotaOptions(**by_hand.options("rucio_quota", address=source)), by_hand.process)
    options = by_hand.options("rucio_space", address=source, allow_shrink=by_hand.allow_shrink)
    return RucioSpaceAgent(SpaceOptions(**options), by_hand.process)


@app.command()
def log(
    context: typer.Context,
    feed: Annotated[str | None, typer.Option("--feed", help="Only runs of this feed.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of runs, newest first.")
    ] = 20,
    json: Json = False,
) -> None:
    """List the last runs of feeds: documents, changes, and what was left out by reason."""
    with open_store(context) as database, database.begin() as connection:
        runs = last_runs(connection, feed, limit)
        changed_statuses = status_changes(connection, [run.id for run in runs if run.id is not None])
    if json:
        for run in runs:
            print_json(dataclasses.asdict(run))
        return
    columns = ("run", "started", "feed", "outcome", "documents", "added", "changed", "gone", "fields", "left out")
    print_table(columns, [_row(run) for run in runs], title="Runs of feeds")
    for run in runs:
        for document in run.documents:
            if document.get("outcome") == "refused":
                output = f"{document.get('code', '')} {document.get('detail', '')}".strip()
                remark(f"run {run.id}: {document.get('document')} was refused: {output}")
    for number, queue, before, after in changed_statuses[:MOST_STATUS_CHANGES]:
        remark(f"run {number}: queue {queue} is {after}, was {before}")


def _row(run: FeedRun) -> tuple[object, ...]:
    def total(kind: str) -> int:
        return sum(int(numbers.get(kind, 0)) for numbers in run.changes.values())

    fields: dict[str, int] = {}
    for numbers in run.changes.values():
        for name, count in numbers.get("fields", {}).items():
            fields[name] = fields.get(name, 0) + count
    top_fields = sorted(fields.items(), key=lambda pair: (-pair[1], pair[0]))[:4]
    dropped_rows = {code: count for codes in run.dropped_rows.values() for code, count in codes.items()}
    documents = ", ".join(
        f"{document.get('document')} {document['outcome']}"
        for document in run.documents
        if document["outcome"] != "kept"
    )
    return (
        run.id,
        run.started_at,
        run.feed + (" by hand" if run.by_hand else ""),
        run.outcome,
        documents,
        total("added"),
        total("changed"),
        total("gone"),
        _listed(dict(top_fields)),
        _listed(dropped_rows),
    )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
