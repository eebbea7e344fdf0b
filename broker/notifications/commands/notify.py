"""``broker notify``: rules and channels, messages and decisions sent, and whether a channel works."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from broker.cli.context import asked, duration, settings_of
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
    """Channels and rules in force, as config/notifications.yaml sets them; no secrets."""
    found = channels.notifying(settings_of(context).config)
    if as_json:
        print_json(found)
        return
    rows = [
        (one.channel, one.kind, one.where, ", ".join(one.rules) or "-", "yes" if one.takes_subscribers else "no",
         one.decisions or "-")
        for one in found.channels
    ]  # fmt: skip
    columns = ("channel", "kind", "where", "rules", "subscribers", Column("decisions", give_up=1))
    print_table(columns, rows, title="Channels")
    told = [(one.rule, one.tells, ", ".join(one.to), one.quiet or "-") for one in found.rules]
    print_table(("rule", "tells", "to", Column("quiet", give_up=1)), told, title="Rules")


@app.command()
def history(
    context: typer.Context,
    since: Annotated[str, typer.Option("--since", metavar="LENGTH", help="Planned so long ago at most.")] = "7d",
    state: Annotated[
        str | None, typer.Option("--state", help="waiting, delivered, dropped or given_up.", metavar="STATE")
    ] = None,
    channel: Annotated[str | None, typer.Option("--channel", help="By one channel only.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One object a message.")] = False,
) -> None:
    """Messages, the newest first: about what, by which channel, and what came of them."""
    back = duration(since, "--since")
    with asked(context) as asking:
        wanted = MessageFilters(since=asking.now - back, state=_state(state), channel=channel, limit=limit)
        found = messages.message_list(asking, wanted)
    if as_json:
        for one in found.messages:
            print_json(one)
        return
    columns = (
        "planned", "event", "what", "channel", "state", Column("tries", give_up=2), Column("incident", give_up=3),
        Column("detail", give_up=1),
    )  # fmt: skip
    rows = [
        (one.planned_at, one.event, one.sentence, one.address or one.channel, one.state, one.tries, one.incident,
         one.detail or "-")
        for one in found.messages
    ]  # fmt: skip
    print_table(columns, rows, title="Messages")


@app.command()
def decisions(context: typer.Context, as_json: Json = False) -> None:
    """Decisions that channels publish: how far that has come, what waits, and why the last try failed."""
    with asked(context) as asking:
        found = streams.stream_list(asking)
    if as_json:
        print_json(found)
        return
    columns = (
        "channel", "state", "sent", "backlog", "tries", Column("last sent", give_up=3), Column("lost", give_up=2),
        Column("unknown", give_up=4), Column("detail", give_up=1),
    )  # fmt: skip
    rows = [
        (one.channel, one.state, one.sent, one.backlog, one.tries, one.sent_at or "-", one.lost, one.unknown,
         one.detail or "-")
        for one in found.streams
    ]  # fmt: skip
    print_table(columns, rows, title="Decisions")


def _state(text: str | None) -> State | None:
    for known in ("waiting", "delivered", "dropped", "given_up"):
        if text == known:
            return known
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
    """Send a test message through a channel now, and say what the other side answered."""
    found = channels.send_test(settings_of(context).config, channel, datetime.now(UTC), to)
    if as_json:
        print_json(found)
    else:
        remark(f"sent by {found.channel}: {found.answer} (incident {found.incident})")
