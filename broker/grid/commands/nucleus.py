"""``broker nucleus``: state, space and draws of a nucleus, or of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.context import Json, query_context
from broker.cli.elsewhere import Arguments, Document, RemoteAnswer
from broker.cli.output import Column, print_json, print_table, say
from broker.cli.rendering.cells import Percent
from broker.domain.words import many
from broker.grid.answers.models import Nuclei, NucleusAnswer
from broker.grid.answers.queues import nuclei, nucleus_answer

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

MOST_LINKS = 10


def nucleus(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Nucleus, case-insensitive [all].", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Show what a nucleus collects, the probability of its draws, what rejected it, its space and links."""
    with query_context(context) as query:
        if name is None:
            every = nuclei(query)
            if as_json:
                print_json(every)
            else:
                show_nuclei(every)
            return
        answer = nucleus_answer(query, name)
    if as_json:
        print_json(answer)
        return
    show_nucleus(answer)


def show_nuclei(nucleus_list: Nuclei) -> None:
    """Print all nuclei and satellites as a table."""
    columns = (
        "nucleus",
        "role",
        "state",
        Column("free GB", drop_order=1),
        Column("of GB", drop_order=2),
        "drawn",
        "candidate",
        Column("considered", drop_order=3),
        Column("output endpoint", drop_order=4),
    )
    rows = [
        (
            line.nucleus,
            line.role,
            line.state,
            line.free_gb,
            line.total_gb,
            line.collected,
            line.candidate,
            line.considered,
            line.output_endpoint or "",
        )
        for line in nucleus_list.nuclei
    ]
    print_table(columns, rows, title=f"Nuclei and satellites: {len(nucleus_list.nuclei)}")


def show_nucleus(answer: NucleusAnswer) -> None:
    """Print one nucleus: sentences, then tables."""
    line = answer.line
    free = (
        ""
        if line.free_gb is None or line.total_gb is None
        else f", {line.free_gb:,.0f} of {line.total_gb:,.0f} GB free"
    )
    say(f"{line.nucleus}: {line.role}, {line.state}{free}. Output goes to {line.output_endpoint or 'no endpoint'}.")
    say(
        f"In 24 h considered in {many(line.considered, 'decision')}, a candidate in {line.candidate:,}, "
        f"drawn for {many(line.collected, 'task')}. "
        "A nucleus is drawn at random, each with the probability of its weight."
    )
    tasks = [(one.jeditaskid, one.drawn, Percent(one.probability), one.weight, one.decided_at) for one in answer.tasks]
    print_table(("task", "drawn", "probability", "weight", Column("at", drop_order=1)), tasks, title="Tasks")
    rejected = [(one.code, one.decisions, one.waiting, one.such_as) for one in answer.rejected]
    print_table(("rule's code", "decisions in 24 h", "tasks that wait", "such as"), rejected, title="Rejected by")
    links = [(one.source, one.queued_files, one.cap_files, one.full) for one in answer.links[:MOST_LINKS]]
    print_table(("from", "files queued", "cap", "full"), links, title="Links with most files queued")
    say(f"Queues of the site: {', '.join(answer.queues) or 'none'}")


def _ask(client: BrokerClient, given: Arguments) -> Document:
    return client.nuclei() if given["name"] is None else client.nucleus(given["name"])


def _show(answer: Nuclei | NucleusAnswer) -> None:
    if isinstance(answer, Nuclei):
        show_nuclei(answer)
    else:
        show_nucleus(answer)


ELSEWHERE = RemoteAnswer(_ask, Nuclei | NucleusAnswer, _show)
