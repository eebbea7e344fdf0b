"""``broker reasons``: what waits, by reason, most frequent first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from broker.brokerages.registry import offered
from broker.cli.context import Json, duration, query_context
from broker.cli.elsewhere import Arguments, Document, NotRemote, RemoteAnswer
from broker.cli.output import Column, print_json, print_table, say
from broker.cli.rendering.cells import TimeWithAge, utc
from broker.domain.instants import length
from broker.history.answers.list_models import ReasonFilters, ReasonLine, Reasons
from broker.history.answers.reasons import reasons as reasons_now
from broker.history.answers.tasks import known_value

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient


def reasons(
    context: typer.Context,
    brokerage: Annotated[str | None, typer.Option("--brokerage", help="Only of this brokerage.")] = None,
    compare: Annotated[str, typer.Option("--compare", metavar="SPAN", help="Show the change over this time.")] = "1h",
    rules: Annotated[bool, typer.Option("--rules", help="Also show how often each rule rejected queues.")] = False,
    as_json: Json = False,
) -> None:
    """List what waits by reason, most frequent first, with the change since an hour ago."""
    span = duration(compare, "--compare")
    if brokerage is not None:
        brokerage = known_value("brokerage", brokerage, offered())
    with query_context(context) as query:
        answer = reasons_now(
            query, ReasonFilters(brokerage=brokerage, compare_s=span.total_seconds(), with_rules=rules)
        )
    if as_json:
        print_json(answer)
        return
    show_reasons(answer, rules)


def show_reasons(answer: Reasons, with_rules: bool = False) -> None:
    """Print what waits, by reason; ``with_rules`` adds how often each rule rejected queues."""
    columns = (
        Column("brokerage", drop_order=2),
        Column("reason"),
        Column("chunks"),
        Column("change"),
        Column("tasks", drop_order=1),
        Column("oldest", drop_order=3),
        Column("such as", drop_order=4),
    )
    rows = [
        (
            line.brokerage,
            line.main_code or line.reason,
            line.chunks,
            _change(line),
            line.tasks,
            TimeWithAge(line.oldest_since, answer.now),
            line.such_as,
        )
        for line in answer.lines
    ]
    waiting, considered = sum(answer.waiting.values()), sum(answer.considered.values())
    print_table(columns, rows, title=f"{waiting:,} of {considered:,} chunks and tasks wait")
    if with_rules:
        lines = [(rule.brokerage, rule.code, rule.queues, rule.decides) for rule in answer.rules]
        heads = ("brokerage", "rule's code", "queues rejected", "decides for")
        print_table(heads, lines, title="Queues rejected, over all decisions of 24 h")
    say(f"now {utc(answer.now)}; change against {length((answer.now - answer.compared_with).total_seconds())} ago")


def _change(line: ReasonLine) -> str:
    return "" if line.chunks_before is None else f"{line.chunks - line.chunks_before:+d}"


def _ask(client: BrokerClient, given: Arguments) -> Document:
    if given["rules"]:
        raise NotRemote("the counts by rule are read on the broker's own machine", "--rules", "leave it out")
    window_s = duration(given["compare"], "--compare").total_seconds()
    return client.reasons(brokerage=given["brokerage"], window_s=window_s)


ELSEWHERE = RemoteAnswer(_ask, Reasons, show_reasons)
