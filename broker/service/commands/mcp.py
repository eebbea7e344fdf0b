"""``broker mcp``: read-only answers for an assistant over stdin and stdout, by the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli.context import open_store, require, require_database, settings_of

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only tools on this topic; may be repeated.")
]
MOST_BYTES, LEAST, MOST = 40_000, 4_000, 1_000_000
MostBytes = Annotated[
    int,
    typer.Option("--most-bytes", min=LEAST, max=MOST, help="Maximum bytes of an answer; its cursor gives the rest."),
]


def mcp(context: typer.Context, topic: Topics = None, most_bytes: MostBytes = MOST_BYTES) -> None:
    """Answer an assistant's questions over stdin and stdout (Model Context Protocol); nothing is changed."""
    require_database(context)
    require("mcp")
    require("api")
    from broker.api.in_process import ADDRESS, reading
    from broker.service.commands.mcp_server import serve
    from gridbroker_client import BrokerClient

    settings = settings_of(context)
    with (
        open_store(context) as database,
        reading(database, home=settings.home, folder=settings.config) as transport,
        BrokerClient(ADDRESS, transport=transport) as client,
    ):
        serve(client, topic or (), most_bytes)


def elsewhere(client: BrokerClient, given: Mapping[str, Any]) -> None:
    """Serve the broker behind ``client`` in the same way, with the client's token."""
    require("mcp")
    from broker.service.commands.mcp_server import serve

    serve(client, given.get("topic") or (), given["most_bytes"])
