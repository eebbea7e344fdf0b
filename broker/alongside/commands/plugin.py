"""``broker plugin``: which tasks JEDI's plug-in decides on, without a restart of JEDI."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import typer

from broker.alongside.model.plugin_switch import WHOLE, PluginSwitch
from broker.alongside.statements import plugin_switches
from broker.cli.context import open_store
from broker.cli.output import print_json, print_table
from broker.cli.rendering.cells import remark, utc
from broker.errors import WRONG_USAGE, BrokerError
from broker.tuning.answers.values import Editor, editor_name

app = typer.Typer(no_args_is_help=True)

LONGEST_REASON = 500
MOST_LABEL_CHARACTERS = 20
ANY_LABEL = "all"
Reason = Annotated[str, typer.Option("--reason", help="Why, for the history.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="One object on one line.")]


class WrongSwitch(BrokerError):
    """The argument cannot be set."""

    exit_status = WRONG_USAGE


@app.command()
def off(context: typer.Context, reason: Reason, editor: Editor = None, as_json: Json = False) -> None:
    """Leave every task to PanDA's own brokers, within a minute."""
    _set(context, lambda now: dataclasses.replace(now, enabled=False), reason, editor, as_json)


@app.command()
def on(context: typer.Context, reason: Reason, editor: Editor = None, as_json: Json = False) -> None:
    """Let the plug-in decide, within a minute, on the percentage of tasks and the labels that are set."""
    _set(context, lambda now: dataclasses.replace(now, enabled=True), reason, editor, as_json)


@app.command()
def percent(
    context: typer.Context,
    share: Annotated[int, typer.Argument(metavar="N", min=0, max=WHOLE, help="Percent of tasks.", show_default=False)],
    reason: Reason,
    editor: Editor = None,
    as_json: Json = False,
) -> None:
    """Let the plug-in decide on N percent of tasks; a larger N keeps the same tasks and adds others."""
    _set(context, lambda now: dataclasses.replace(now, percent=share), reason, editor, as_json)


@app.command()
def labels(
    context: typer.Context,
    names: Annotated[
        list[str], typer.Argument(metavar="LABEL...|all", help="Labels (prodsourcelabel).", show_default=False)
    ],
    reason: Reason,
    editor: Editor = None,
    as_json: Json = False,
) -> None:
    """Let the plug-in decide on tasks of these labels only, or of all."""
    wrong = [label for label in names if not 0 < len(label) <= MOST_LABEL_CHARACTERS or not label.isprintable()]
    if wrong or (ANY_LABEL in names and len(names) > 1):
        hint = f"give labels of 1 to {MOST_LABEL_CHARACTERS} characters, or {ANY_LABEL} alone"
        raise WrongSwitch(f"no labels: {', '.join(map(repr, names))[:80]}", "broker plugin labels", hint)
    chosen = None if names == [ANY_LABEL] else tuple(dict.fromkeys(names))
    _set(context, lambda now: dataclasses.replace(now, labels=chosen), reason, editor, as_json)


@app.command()
def log(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of changes.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One object per change.")] = False,
) -> None:
    """List what was set, by whom and why, newest first; the newest is in force."""
    with open_store(context) as database, database.read_snapshot() as connection:
        changes = plugin_switches.history(connection, limit)
    for change in changes if as_json else ():
        print_json({**_shown(change.switch), "set_at": change.set_at, "editor": change.editor, "reason": change.reason})
    if not as_json:
        rows = [(utc(change.set_at), str(change.switch), change.editor, change.reason) for change in changes]
        print_table(("set at", "plug-in", "by", "reason"), rows, title="Switch of the plug-in")


def _set(
    context: typer.Context,
    change: Callable[[PluginSwitch], PluginSwitch],
    reason: str,
    editor: str | None,
    as_json: bool,
) -> None:
    if not 0 < len(reason.strip()) <= LONGEST_REASON:
        raise WrongSwitch("no reason, or too long a one", "--reason", f"give 1 to {LONGEST_REASON} characters")
    author = editor_name(editor)
    with open_store(context) as database, database.begin() as connection:
        plugin_switches.lock(connection)
        switch = change(plugin_switches.in_force(connection))
        plugin_switches.set_switch(connection, switch, editor=author, reason=reason.strip())
    if as_json:
        print_json({**_shown(switch), "editor": author, "reason": reason.strip()})
        return
    remark(f"plug-in: {switch}; JEDI's processes follow within a minute")
    if not switch.enabled and switch.percent:
        remark("it is off: `broker plugin on` lets it decide again")


def _shown(switch: PluginSwitch) -> dict[str, Any]:
    return {"enabled": switch.enabled, "percent": switch.percent, "labels": switch.labels}
