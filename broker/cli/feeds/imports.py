"""``broker import``: what the feeds do, by hand and from files; and what they did."""

from __future__ import annotations

import dataclasses
import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from agents.feeds.cric import CricAgent, CricOptions
from agents.feeds.network import NetworkAgent, NetworkOptions
from agents.feeds.replica_files import ReplicaFileOptions, ReplicaImport
from agents.feeds.rucio_quota import QuotaOptions, RucioQuotaAgent
from agents.feeds.rucio_space import RucioSpaceAgent, SpaceOptions
from agents.feeds.workers import WorkersImport, WorkersOptions
from agents.service import json_log, registry
from agents.service.base import Agent, CycleRequest
from agents.service.configuration import AgentsConfiguration, config_file, load
from agents.service.process import ProcessSettings, load_process
from broker.cli.context import open_store, settings_of
from broker.cli.feeds.document_names import cric_documents, rucio_kind
from broker.cli.output import print_json, print_table, remark
from broker.cli.service.run import EXIT_STATUS, SEED_BITS, HandRun, report, run_by_hand
from broker.cli.time_arguments import moment_of, until
from broker.errors import FAILED
from broker.store.feeds.feed_runs import FeedRun, last_runs

app = typer.Typer(no_args_is_help=True)

Files = Annotated[list[str], typer.Argument(metavar="FILE-OR-URL...", show_default=False)]
NamedFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FILE-OR-URL...", help="NAME where the address or the content does not tell.", show_default=False
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change, and write nothing.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line on stdout.")]
At = Annotated[str, typer.Option("--at", metavar="TIME|now", help="The instant of the import (UTC).")]
AllowShrink = Annotated[
    bool, typer.Option("--allow-shrink", help="Accept documents and tables that are much smaller than before.")
]


@app.command()
def cric(
    context: typer.Context,
    documents: NamedFiles,
    dry_run: DryRun = False,
    json: Json = False,
    at: At = "now",
    allow_shrink: AllowShrink = False,
) -> None:
    """Queues, software tags, sites, endpoints, relations and closeness, from documents of CRIC."""
    by_hand = _ByHand(context, dry_run, json, at)
    given = {"documents": cric_documents(documents), "address": None, "allow_shrink": allow_shrink}
    by_hand.run(CricAgent(CricOptions(**by_hand.options("cric") | given), by_hand.process))
    by_hand.end()


@app.command()
def rucio(
    context: typer.Context,
    documents: Files,
    dry_run: DryRun = False,
    json: Json = False,
    at: At = "now",
    allow_shrink: AllowShrink = False,
) -> None:
    """Space of endpoints, replicas of datasets or quotas, from files with what Rucio says."""
    by_hand = _ByHand(context, dry_run, json, at)
    for address in documents:
        by_hand.run(_rucio_agent(by_hand, address, allow_shrink=allow_shrink))
    by_hand.end()


@app.command()
def network(
    context: typer.Context,
    documents: Files,
    dry_run: DryRun = False,
    json: Json = False,
    at: At = "now",
    allow_shrink: AllowShrink = False,
) -> None:
    """Transfers and throughput of links, from network metrics."""
    by_hand = _ByHand(context, dry_run, json, at)
    for address in documents:
        given = {"address": address, "allow_shrink": allow_shrink}
        by_hand.run(NetworkAgent(NetworkOptions(**by_hand.options("network") | given), by_hand.process))
    by_hand.end()


@app.command()
def workers(
    context: typer.Context, documents: Files, dry_run: DryRun = False, json: Json = False, at: At = "now"
) -> None:
    """Worker statistics, from reports of Harvester."""
    by_hand = _ByHand(context, dry_run, json, at)
    given = {f"report {number}": address for number, address in enumerate(documents, 1)}
    by_hand.run(WorkersImport(WorkersOptions(documents=given), by_hand.process))
    by_hand.end()


@app.command()
def log(
    context: typer.Context,
    feed: Annotated[str | None, typer.Option("--feed", help="Only runs of this feed.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="So many runs, the newest first.")] = 20,
    json: Json = False,
) -> None:
    """What the last runs of feeds did: documents, changes, and what was left out by reason."""
    with open_store(context) as database, database.begin() as connection:
        found = last_runs(connection, feed, limit)
    if json:
        for run in found:
            print_json(dataclasses.asdict(run))
        return
    columns = ("run", "started", "feed", "outcome", "documents", "added", "changed", "gone", "fields", "left out")
    print_table(columns, [_row(run) for run in found], title="Runs of feeds")
    for run in found:
        for document in run.documents:
            if document.get("outcome") == "refused":
                output = f"{document.get('code', '')} {document.get('detail', '')}".strip()
                remark(f"run {run.id}: {document.get('document')} was refused: {output}")


def _row(run: FeedRun) -> tuple[object, ...]:
    def total(kind: str) -> int:
        return sum(int(numbers.get(kind, 0)) for numbers in run.changes.values())

    fields: dict[str, int] = {}
    for numbers in run.changes.values():
        for name, count in numbers.get("fields", {}).items():
            fields[name] = fields.get(name, 0) + count
    most = sorted(fields.items(), key=lambda pair: (-pair[1], pair[0]))[:4]
    dropped_rows = {code: count for codes in run.dropped_rows.values() for code, count in codes.items()}
    documents = ", ".join(
        f"{one.get('document')} {one['outcome']}" for one in run.documents if one["outcome"] != "kept"
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
        _listed(dict(most)),
        _listed(dropped_rows),
    )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _rucio_agent(by_hand: _ByHand, address: str, *, allow_shrink: bool) -> Agent[Any]:
    """The agent for what is in a file: replicas, quotas or space."""
    kind, source = rucio_kind(address)
    process = by_hand.process
    if kind == "replicas":
        return ReplicaImport(ReplicaFileOptions(address=source), process)
    if kind == "quotas":
        return RucioQuotaAgent(QuotaOptions(**by_hand.options("rucio_quota") | {"address": source}), process)
    given = {"address": source, "allow_shrink": allow_shrink}
    return RucioSpaceAgent(SpaceOptions(**by_hand.options("rucio_space") | given), process)


class _ByHand:
    """Runs agents once, with what the operator's configuration says of them."""

    def __init__(self, context: typer.Context, dry_run: bool, json: bool, at: str) -> None:
        json_log.configure(level=logging.CRITICAL)
        until(at)  # a wrong time is told before anything is opened
        self._context, self._json, self._at, self._dry_run = context, json, at, dry_run
        folder: Path | None = settings_of(context).config
        self.configuration: AgentsConfiguration = load(config_file("agents.yaml", folder), registry.NAMES)
        self.process: ProcessSettings = load_process(config_file("broker.yaml", folder), folder)
        self._status = 0

    def options(self, name: str) -> dict[str, Any]:
        """The options of an agent as configured."""
        agents = self.configuration.agents
        return dict(agents[name].options) if name in agents else {}

    def run(self, agent: Agent[Any]) -> None:
        """Run one cycle and print what it did."""
        output: list[dict[str, Any]] = []
        request = CycleRequest(dry_run=self._dry_run, emit=print_json if self._json else output.append, by_hand=True)
        with open_store(self._context) as database:
            prepared = HandRun(database, moment_of(self._at, database), secrets.randbits(SEED_BITS), request)
            record = run_by_hand(agent, prepared, self.configuration)
        report(agent.name, record, None if self._json else output)
        self._status = max(self._status, EXIT_STATUS.get(record.outcome, FAILED))

    def end(self) -> None:
        """End the command with the worst status."""
        if self._status:
            raise typer.Exit(self._status)
