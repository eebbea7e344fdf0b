"""``broker queues`` and ``broker queue show``: what queues get, and why not more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.context import Json, query_context
from broker.cli.elsewhere import Arguments, Document, RemoteAnswer
from broker.cli.output import Column, print_facts, print_json, print_table, say
from broker.cli.rendering.cells import TimeWithAge
from broker.domain.words import with_unit
from broker.grid.answers.models import BrokerageAtQueue, QueueAnswer, QueueFilters, Queues
from broker.grid.answers.queue import near_miss_sentence, queue_answer, queue_sentences
from broker.grid.answers.queues import queues as all_queues
from broker.history.answers.tasks import known_queue_filters

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

MOST_MISSES = 8
MOST_LINKS = 10


def queues(
    context: typer.Context,
    status: Annotated[str | None, typer.Option("--status", help="Only queues in this status.")] = None,
    site: Annotated[str | None, typer.Option("--site", help="Only queues of this site.")] = None,
    idle: Annotated[bool, typer.Option("--idle", help="Only queues that got no jobs recently.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One object per queue.")] = False,
) -> None:
    """List queues: jobs, pilots, chunks for which each was considered and chosen, what rejected it most often."""
    with query_context(context) as query:
        filters = known_queue_filters(query, QueueFilters(status=status, site=site, idle=idle))
        queue_list = all_queues(query, filters)
    if as_json:
        for line in queue_list.queues:
            print_json(line)
        return
    show_queues(queue_list)


def show_queues(queue_list: Queues) -> None:
    """Print all queues as a table."""
    columns = (
        Column("queue"),
        Column("status"),
        Column("got"),
        Column("chosen", drop_order=3),
        Column("considered", drop_order=2),
        Column("mostly rejected by"),
        Column("running", drop_order=4),
        Column("waiting", drop_order=5),
        Column("pilots", drop_order=6),
        Column("site", drop_order=7),
        Column("pseudo-queues", only_wide=True),
        Column("type", only_wide=True),
    )
    rows = [
        (
            line.queue,
            line.status,
            line.placed,
            line.chosen,
            line.considered,
            line.main_code or "",
            line.jobs.running,
            line.jobs.defined + line.jobs.assigned + line.jobs.activated + line.jobs.starting,
            line.pilots,
            line.site,
            line.pseudo_queues,
            line.type,
        )
        for line in queue_list.queues
    ]
    print_table(columns, rows, title=f"Queues: {len(queue_list.queues)}")


def show_queue(
    context: typer.Context,
    queue: Annotated[str, typer.Argument(help="Queue, case-insensitive.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Show what a queue got, what each rule rejected there, what it would get with other limits, and its links."""
    with query_context(context) as query:
        answer = queue_answer(query, queue)
    if as_json:
        print_json(answer)
        return
    show_queue_answer(answer)


def show_queue_answer(answer: QueueAnswer) -> None:
    """Print what one queue gets, and why not more: sentences, then tables."""
    for sentence in queue_sentences(answer):
        say(sentence)
    _show_misses(answer)
    _show_facts(answer)
    for line in answer.brokerages:
        _show_rejected(line)
    _show_limits(answer)
    _show_links(answer)
    _show_pins(answer)


def _show_misses(answer: QueueAnswer) -> None:
    misses = sorted((miss for line in answer.brokerages for miss in line.near_misses), key=lambda miss: -miss.jobs)
    for miss in misses[:MOST_MISSES]:
        say(near_miss_sentence(miss))
    if not misses and answer.brokerages and not answer.not_a_candidate:
        say("No other value of a single limit of the queue would bring more.")


def _show_facts(answer: QueueAnswer) -> None:
    jobs = answer.jobs
    facts = [
        ("status", answer.status),
        ("type", answer.type),
        ("site", answer.site),
        ("cloud", answer.cloud),
        ("pseudo-queues", answer.pseudo_queues),
        ("running", jobs.running),
        ("waiting", jobs.defined + jobs.assigned + jobs.activated + jobs.starting),
        ("transferring", jobs.transferring),
        ("pilots in 3 h", answer.pilots),
        ("workers", answer.workers),
        ("last start of a job", TimeWithAge(answer.last_start_at, answer.now)),
        ("as of", TimeWithAge(answer.taken_at, answer.now)),
    ]
    print_facts(facts, title=answer.queue)


def _show_rejected(line: BrokerageAtQueue) -> None:
    rows = [(reason.code, reason.decisions, reason.waiting, reason.such_as) for reason in line.rejected]
    columns = ("rule's code", "decisions in 24 h", "chunks that wait", Column("such as", drop_order=1))
    rejected = f"Rejected here by {line.brokerage}: in {line.considered - line.chosen:,} decisions of 24 h"
    checked = "" if line.looked_at == line.waiting else f"; {line.looked_at:,} of {line.waiting:,} that wait looked at"
    print_table(columns, rows, title=f"{rejected}{checked}")


def _show_limits(answer: QueueAnswer) -> None:
    rows = [
        (
            limit.pseudo_queue,
            limit.field,
            with_unit(limit.limit, limit.unit),
            f"{limit.chunks_beyond} of {limit.chunks}",
            with_unit(limit.median, limit.unit),
            with_unit(limit.largest, limit.unit),
        )
        for limit in answer.limits
    ]
    columns = (
        "pseudo-queue",
        "field",
        "limit",
        "chunks beyond",
        Column("median", drop_order=2),
        Column("largest", drop_order=1),
    )
    print_table(columns, rows, title="Limits against what chunks ask for")


def _show_links(answer: QueueAnswer) -> None:
    rows = [
        (link.source, link.nucleus, link.queued_files, link.cap_files, link.full, link.mbps_1d)
        for link in answer.links[:MOST_LINKS]
    ]
    columns = ("from", "nucleus", "files queued", "cap", "full", Column("MB/s in a day", drop_order=1))
    print_table(columns, rows, title="Links with most files queued")


def _show_pins(answer: QueueAnswer) -> None:
    if answer.pins:
        rows = [(pin.field, str(pin.value), pin.until, pin.editor, pin.reason) for pin in answer.pins]
        print_table(("field", "held at", "until", "by", "reason"), rows, title="Held by operators")


def _ask(client: BrokerClient, given: Arguments) -> Document:
    return client.queues(status=given["status"], site=given["site"], idle=given["idle"])


ELSEWHERE = RemoteAnswer(_ask, Queues, show_queues, "queues")
SHOW_ELSEWHERE = RemoteAnswer(
    lambda client, given: client.queue(given["queue"], evaluate=client.has_token), QueueAnswer, show_queue_answer
)
