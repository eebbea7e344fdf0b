"""``broker notify``: rules and channels, messages and decisions sent, and tests of channels."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from broker.cli.context import duration, query_context, settings_of
from broker.cli.output import Column, print_json, print_table, remark
from broker.notifications.answers import channels, messages, streams
from broker.notifications.answers.messages import MessageFilters, State

app = typer.Typer(no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="One object on stdout.")]


@app.callback()
def notify() -> None:
    """Notifications: rules and channels, and messages sent."""


@app.command("list")
def list_channels(context: typer.Context, as_json: Json = False) -> None:
    """List channels and rules in force, as config/notifications.yaml sets them; no secrets."""
    answer = channels.notifying(settings_of(context).config)
    if as_json:
        print_json(answer)
        return
    rows = [
        (channel.channel, channel.kind, channel.where, ", ".join(channel.rules) or "-",
         "yes" if channel.takes_subscribers else "no", channel.decisions or "-")
        for channel in answer.channels
    ]  # fmt: skip
    columns = ("channel", "kind", "where", "rules", "subscribers", Column("decisions", drop_order=1))
    print_table(columns, rows, title="Channels")
    rules = [(rule.rule, rule.tells, ", ".join(rule.to), rule.quiet or "-") for rule in answer.rules]
    print_table(("rule", "tells", "to", Column("quiet", drop_order=1)), rules, title="Rules")


@app.command()
def history(
    context: typer.Context,
    since: Annotated[
        str, typer.Option("--since", metavar="LENGTH", help="Only messages planned within this time.")
    ] = "7d",
    state: Annotated[
        str | None, typer.Option("--state", help="waiting, delivered, dropped or given_up.", metavar="STATE")
    ] = None,
    channel: Annotated[str | None, typer.Option("--channel", help="Only by this channel.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of messages.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One object per message.")] = False,
) -> None:
    """List messages, newest first: what they are about, their channel and their outcome."""
    back = duration(since, "--since")
    with query_context(context) as query:
        filters = MessageFilters(since=query.now - back, state=_state(state), channel=channel, limit=limit)
        answer = messages.message_list(query, filters)
    if as_json:
        for message in answer.messages:
            print_json(message)
        return
    columns = (
        "planned", "event", "what", "channel", "state", Column("tries", drop_order=2), Column("incident", drop_order=3),
        Column("detail", drop_order=1),
    )  # fmt: skip
    rows = [
        (message.planned_at, message.event, message.sentence, message.address or message.channel, message.state,
         message.tries, message.incident, message.detail or "-")
        for message in answer.messages
    ]  # fmt: skip
    print_table(columns, rows, title="Messages")


@app.command()
def decisions(context: typer.Context, as_json: Json = False) -> None:
    """Show the progress of channels that publish decisions: what waits, and why the last try failed."""
    with query_context(context) as query:
        answer = streams.stream_list(query)
    if as_json:
        print_json(answer)
        return
    columns = (
        "channel", "state", "sent", "backlog", "tries", Column("last sent", drop_order=3), Column("lost", drop_order=2),
        Column("unknown", drop_order=4), Column("detail", drop_order=1),
    )  # fmt: skip
    rows = [
        (stream.channel, stream.state, stream.sent, stream.backlog, stream.tries, stream.sent_at or "-",
         stream.lost, stream.unknown, stream.detail or "-")
        for stream in answer.streams
    ]  # fmt: skip
    print_table(columns, rows, title="Decisions")


def _state(text: str | None) -> State | None:
    for choice in ("waiting", "delivered", "dropped", "given_up"):
        if text == choice:
            return choice
    if text is not None:
        raise typer.BadParameter(f"{text!r} is none of waiting, delivered, dropped, given_up", param_hint="--state")
    return None


@app.command("test")
def try_channel(
    context: typer.Context,
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="One of broker notify list.")],
    to: Annotated[str, typer.Option("--to", help="A person, for a mail channel [those of the channel].")] = "",
    as_json: Json = False,
) -> None:
    """Send a test message through a channel now, and show the answer of the other side."""
    result = channels.send_test(settings_of(context).config, channel, datetime.now(UTC), to)
    if as_json:
        print_json(result)
    else:
        remark(f"sent by {result.channel}: {result.answer} (incident {result.incident})")
