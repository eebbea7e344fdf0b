"""``broker links``: links from storages to nuclei, with the files queued on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.context import query_context
from broker.cli.elsewhere import LARGEST_PAGE, Arguments, Document, RemoteAnswer
from broker.cli.output import Column, print_json, print_table, say
from broker.grid.answers.links import links as all_links
from broker.grid.answers.models import LinkFilters, Links

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient


def links(
    context: typer.Context,
    source: Annotated[str | None, typer.Option("--from", help="Only from this site.")] = None,
    nucleus: Annotated[str | None, typer.Option("--nucleus", help="Only to this nucleus.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Only links with more files than the cap.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of links.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One object per link.")] = False,
) -> None:
    """List links to nuclei: files queued against the cap, closeness, throughput; most files first."""
    with query_context(context) as query:
        page = all_links(query, LinkFilters(source=source, nucleus=nucleus, full=full, limit=limit))
    if as_json:
        for line in page.links:
            print_json(line)
        return
    show_links(page)


def show_links(page: Links) -> None:
    """Print links as a table."""
    columns = (
        "from",
        "nucleus",
        "files queued",
        "cap",
        "full",
        Column("closeness", drop_order=3),
        Column("MB/s 1 h", drop_order=4),
        Column("MB/s 1 d", drop_order=1),
        Column("MB/s 1 w", drop_order=2),
    )
    rows = [
        (
            link.source,
            link.nucleus,
            link.queued_files,
            link.cap_files,
            link.full,
            link.closeness,
            link.mbps_1h,
            link.mbps_1d,
            link.mbps_1w,
        )
        for link in page.links
    ]
    print_table(columns, rows, title=f"Links: {page.total}; cap {page.cap_key}")
    if page.total > len(page.links):
        say(f"{page.total - len(page.links)} more; --limit shows more of them")


def _ask(client: BrokerClient, given: Arguments) -> Document:
    limit = min(given["limit"], LARGEST_PAGE)
    return client.links(source=given["source"], nucleus=given["nucleus"], full=given["full"], limit=limit)


ELSEWHERE = RemoteAnswer(_ask, Links, show_links, "links")
