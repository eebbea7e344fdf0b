"""``broker match``: which queues take a requirement, without a task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from broker.cli.context import moment_of, open_store
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
#: Published tags older than this are remarked on.
OLD_AFTER = SourceLimit(max_age_s=86_400.0)


class WrongRequirement(BrokerError):
    """The requirement does not parse."""

    exit_status = WRONG_USAGE


def match(
    context: typer.Context,
    architecture: Annotated[str, typer.Argument(help="Old string, shorthand, or JSON: '#&nvidia:vram>=40960'.")],
    queue: Annotated[list[str] | None, typer.Option("--queue", help="Only this queue; may be repeated.")] = None,
    container: Annotated[str | None, typer.Option("--container", help="Name of the task's container.")] = None,
    only_tags: Annotated[
        bool,
        typer.Option("--only-tags", help="The container must be in the queue's tags: no prefixes, no any, no /cvmfs."),
    ] = False,
    release: Annotated[str | None, typer.Option("--release", help="Release as in transHome: Athena-25.0.1.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object.")] = False,
) -> None:
    """Which queues take a requirement, which refuse it and why, and how the requirement was understood."""
    if only_tags and not container:
        raise WrongRequirement("tags of what", "--only-tags", "name the container with --container")
    need = _need(architecture, None if release is None else read_release(release), container, only_tags)
    for pattern, why in unsupported_patterns(need):
        remark(f"the pattern {pattern!r} cannot be used: {why}")
    with open_store(context) as database:
        offers = _offers(database)
    chosen = _named(offers.queues, queue or ())
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


def _named(offers: Sequence[QueueOffer], names: Sequence[str]) -> list[QueueOffer]:
    known = {offer.name: offer for offer in offers}
    wanted = [known_name("queue", name, known, "schedconfig_json") for name in names]
    return [known[name] for name in dict.fromkeys(wanted)] if names else list(offers)


def _message(need: Need, offer: QueueOffer, outcome: Outcome) -> tuple[str, str]:
    return ("", "") if outcome == Outcome.FITS else (outcome.code, explain(need, offer, outcome).sentence)
