"""``broker match``: which queues and nodes take a requirement, without a task; and why a job has no pilot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from broker.cli.context import moment_of, open_store, query_context
from broker.cli.output import print_json, print_table, remark
from broker.domain.queues import QueueOffer, SoftwareOffers
from broker.engine.job.facts import software_offers
from broker.errors import WRONG_USAGE, BrokerError
from broker.matching.architecture import parse
from broker.matching.explanation import explain, unsupported_patterns
from broker.matching.match_queue import match_queue
from broker.matching.need import Need, Release, need_of, read_release
from broker.matching.outcomes import Outcome
from broker.matching.requirement import RequirementError, canonical, document
from broker.matching.specs.judge import judge
from broker.matching.specs.spec import OWN, JobSpecs, Spec
from broker.pilots.answers.why_job import WhyJob, why_job, why_specs
from broker.pools.answers.spec_files import read_job_specs, read_node_file, verdict_document
from broker.pools.commands.pool_match import show_verdict
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import SourceLimit, assess
from broker.snapshot.sources.gpus import GPUS
from broker.snapshot.sources.queues import QUEUES
from broker.snapshot.sources.software import SOFTWARE
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.query_context import known_name
from broker.store.snapshots.source_reads import SourceReader, read_sources

WATCHED = (QUEUES, SOFTWARE, GPUS)
#: Age beyond which published tags cause a remark.
OLD_AFTER = SourceLimit(max_age_s=86_400.0)


class WrongRequirement(BrokerError):
    """The requirement does not parse."""

    exit_status = WRONG_USAGE


Architecture = Annotated[str | None, typer.Argument(help="Old string, shorthand, or JSON: '#&nvidia:vram>=40960'.")]
OnlyQueues = Annotated[list[str] | None, typer.Option("--queue", help="Only this queue; may be repeated.")]
Container = Annotated[str | None, typer.Option("--container", help="Name of the task's container.")]
OnlyTags = Annotated[
    bool,
    typer.Option("--only-tags", help="The container must be in the queue's tags: no prefixes, no any, no /cvmfs."),
]
ReleaseText = Annotated[str | None, typer.Option("--release", help="Release as in transHome: Athena-25.0.1.")]
Job = Annotated[
    str | None,
    typer.Option(
        "--job", help="Instead, show which nodes of the last 24 hours fit this job: PandaID, or file of specs."
    ),
]
OnlyNode = Annotated[
    Path | None, typer.Option("--node", metavar="FILE", help="Only this node, in YAML or JSON; needs no database.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One object.")]


def match(
    context: typer.Context,
    architecture: Architecture = None,
    queue: OnlyQueues = None,
    container: Container = None,
    only_tags: OnlyTags = False,
    release: ReleaseText = None,
    job: Job = None,
    node: OnlyNode = None,
    as_json: AsJson = False,
) -> None:
    """Show which queues take a requirement, which refuse it and why, and how the requirement was understood.

    With --node, whether a pilot's node takes it; with --job, which seen nodes fit a job or miss by one field.
    """
    if (architecture is None) == (job is None):
        raise WrongRequirement("one of the two is wanted", "ARCHITECTURE and --job", "give one of them")
    of_tags = {"--container": container, "--release": release, "--only-tags": only_tags or None}
    options = [name for name, value in of_tags.items() if value is not None] + (["--queue"] if node and queue else [])
    if options and (job is not None or node is not None):
        raise WrongRequirement("is of queues: it does not go with this", options[0], "leave it out")
    if node is not None:
        _at_node(architecture, job, node, as_json=as_json)
        return
    if job is not None:
        _show_nodes(_nodes_for_job(context, job, queue or ()), as_json=as_json)
        return
    assert architecture is not None  # noqa: S101 - one of the two was given
    if only_tags and not container:
        raise WrongRequirement("tags of what", "--only-tags", "name the container with --container")
    need = _need(architecture, None if release is None else read_release(release), container, only_tags)
    for pattern, why in unsupported_patterns(need):
        remark(f"the pattern {pattern!r} cannot be used: {why}")
    with open_store(context) as database:
        offers = _offers(database)
    chosen = _select_queues(offers.queues, queue or ())
    outcomes = {offer.name: match_queue(need, offer, offers.sources, offers.gpus_known) for offer in chosen}
    if as_json:
        accepted = sorted(name for name, outcome in outcomes.items() if outcome == Outcome.FITS)
        rejected = {name: outcome.code for name, outcome in outcomes.items() if outcome != Outcome.FITS}
        print_json({"requirement": document(need.requirement), "accepted": accepted, "rejected": rejected})
        return
    rows = [
        (offer.name, "yes" if outcome == Outcome.FITS else "no", *_message(need, offer, outcome))
        for offer, outcome in zip(chosen, outcomes.values(), strict=True)
    ]
    rows.sort(key=lambda row: (row[1] == "no", row[0]))
    print_table(("queue", "takes it", "code", "why"), rows, title=f"Requirement {canonical(need.requirement)}")


def _at_node(architecture: str | None, job: str | None, node: Path, *, as_json: bool) -> None:
    """Show whether a node has what a task's architecture or a job's specs require; the same code judges both."""
    if architecture is not None:
        _need(architecture, None, None, False)
        specs = JobSpecs((Spec(panda_architecture=architecture),))
    else:
        specs = read_job_specs(Path(job or ""), OWN)
    verdict = judge(specs, read_node_file(node, OWN), OWN)
    if as_json:
        print_json(verdict_document(verdict, OWN))
    else:
        show_verdict(verdict, OWN)


def _nodes_for_job(context: typer.Context, job: str, queues: Sequence[str]) -> WhyJob:
    if len(queues) > 1:
        raise WrongRequirement("a job waits at one queue", "--queue", "name one")
    if job.isascii() and job.isdecimal():
        if queues:
            raise WrongRequirement("a job that is submitted has its queue", "--queue", "leave it out")
        with query_context(context) as query:
            return why_job(query, int(job))
    specs = read_job_specs(Path(job), OWN)
    with query_context(context) as query:
        return why_specs(query, specs, queues[0] if queues else None)


def _need(architecture: str, release: Release | None, container: str | None, only_tags: bool) -> Need:
    try:
        parse(architecture)
    except RequirementError as error:
        first = error.problems[0]
        raise WrongRequirement(first.what, f"character {first.position}", f"accepted: {first.accepted}") from error
    return need_of(architecture, release, container, only_tags)


def _offers(database: Database) -> SoftwareOffers:
    now = moment_of(None, database, of_scenario=True)
    with database.read_snapshot() as connection:
        reader = SourceReader(connection, TableCatalogue.read(connection, database.names), now)
        sources, _ = read_sources(reader, WATCHED)
    return software_offers(_snapshot(sources, now))


def _snapshot(sources: dict[str, RawSource], now: datetime) -> Snapshot:
    used, states = {}, []
    for name, source in sources.items():
        used[name], state = assess(source, now, OLD_AFTER)
        if state.state != "ok":
            remark(f"source {name} is {state.state}: {state.age_s or 0:.0f} s old")
        states.append(state)
    snapshot = build_snapshot("match", now, used, tuple(states))
    for row in snapshot.dropped_rows:
        remark(f"left out {row.source} {row.identifier}: {row.detail}")
    return snapshot


def _select_queues(offers: Sequence[QueueOffer], names: Sequence[str]) -> list[QueueOffer]:
    known = {offer.name: offer for offer in offers}
    selected = [known_name("queue", name, known, "schedconfig_json") for name in names]
    return [known[name] for name in dict.fromkeys(selected)] if names else list(offers)


def _message(need: Need, offer: QueueOffer, outcome: Outcome) -> tuple[str, str]:
    return ("", "") if outcome == Outcome.FITS else (outcome.code, explain(need, offer, outcome).sentence)


def _show_nodes(answer: WhyJob, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    for sentence in answer.sentences:
        print(sentence)
    fits = [
        (node.site, node.panda_queue, node.of, node.kinds_of_nodes, node.seen, node.last_seen_at)
        for node in answer.fits
    ]
    print_table(("site", "PanDA queue", "of", "kinds of nodes", "seen", "last"), fits, title="Fits")
    near = [(node.field, node.asked, node.best, node.site, node.kinds_of_nodes, node.seen) for node in answer.near]
    columns = ("misses by", "asked", "best", "at", "kinds of nodes", "seen")
    print_table(columns, near, title=f"Misses by one condition; {answer.far:,} more by several")
