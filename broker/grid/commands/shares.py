"""``broker shares``: global shares, their targets and what they use."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import query_context
from broker.cli.elsewhere import RemoteAnswer
from broker.cli.output import Column, print_json, print_table
from broker.cli.rendering.cells import Percent
from broker.cli.rendering.plotting import Plot, check_plot
from broker.grid.answers.models import ShareLine, Shares
from broker.grid.answers.shares import shares as all_shares


def shares(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="One object per share.")] = False,
    plot: Plot = None,
) -> None:
    """Show the tree of global shares: target, running, waiting. Children add up to their parent."""
    check_plot(plot)
    with query_context(context) as query:
        tree = all_shares(query)
    if plot is not None:
        from broker.grid.commands.share_picture import plot_shares

        plot_shares(tree, plot)
    if as_json:
        for line in tree.shares:
            print_json(line)
        return
    show_shares(tree)


def show_shares(tree: Shares) -> None:
    """Print the tree of global shares as a table."""
    columns = (
        "share",
        "target",
        "running",
        Column("of target", drop_order=1),
        Column("HS06 running", drop_order=4),
        Column("HS06 waiting", drop_order=5),
        Column("jobs running", drop_order=2),
        Column("jobs waiting", drop_order=3),
    )
    print_table(columns, [_row(line) for line in tree.shares], title=f"Global shares: {len(tree.shares)}")


def _row(line: ShareLine) -> tuple[object, ...]:
    return (
        f"{'. ' * line.depth}{line.gshare}",
        _share(line.target_percent),
        _share(line.running_percent),
        _share(line.usage_of_target_percent),
        line.running_hs06,
        line.queued_hs06,
        line.running_jobs,
        line.queued_jobs,
    )


def _share(percent: float | None) -> Percent:
    return Percent(None if percent is None else percent / 100.0)


ELSEWHERE = RemoteAnswer(lambda client, given: client.shares(), Shares, show_shares, "shares")
