"""``broker config``: list, read and set tuning values, and show the history of changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import sqlalchemy as sa
import typer

from broker.cli.context import installed_catalogue, open_store
from broker.cli.elsewhere import Arguments, Documents, RemoteDocuments
from broker.cli.output import escaped, print_json, print_table, remark
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.inspection import all_states, entry_named, state_of
from broker.gdpconfig.proposals import Proposal
from broker.gdpconfig.publish import Published, differences, vo_to_edit
from broker.gdpconfig.reference import default_in_words, render_reference, scope_in_words, shown
from broker.gdpconfig.tuning import UNPUBLISHED_VERSION
from broker.gdpconfig.values import ConfigRow, from_text
from broker.store.gdpconfig_rows import TuningStore
from broker.tuning.answers.canaries import MOST_MOVED, LimitedChange, refusals
from broker.tuning.answers.values import Editor, TuningChange, editor_name, key_detail, key_summary, value_change
from broker.tuning.commands.canary import canary

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

app = typer.Typer(no_args_is_help=True)
app.command()(canary)

Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]
Vo = Annotated[str | None, typer.Option("--vo", help="VO of the tasks that the value is for [the installation's].")]
Key = Annotated[str, typer.Argument(help="Full name of the key, such as NQUEUED_SAT_CAP.", show_default=False)]
Reason = Annotated[str, typer.Option("--reason", help="Reason, for the history.", show_default=False)]
MayMove = Annotated[
    int | None,
    typer.Option(
        "--may-move", min=0, max=MOST_MOVED, help="Refuse it if a preview of the newest cycles moves more jobs."
    ),
]
Expected = Annotated[
    int | None, typer.Option("--expect-version", help="Change it only if this is still the version in force.")
]


@app.command(name="list")
def list_keys(
    context: typer.Context,
    vo: Vo = None,
    only_set: Annotated[bool, typer.Option("--set", help="Only keys that a row of the table sets.")] = False,
    json: Json = False,
) -> None:
    """List keys with their value, their default and where the value comes from."""
    current = _read(context)
    vo = vo or current.catalogue.vo
    states = [state for state in all_states(current, vo) if not only_set or state.set_by or state.bad]
    if json:
        for state in states:
            print_json(key_summary(state, current))
    else:
        columns = ("key", "value", "default", "unit", "source", "vo")
        rows = [
            (
                state.name,
                shown(state.value),
                shown(state.default),
                state.entry.unit,
                f"{state.origin}, bad row" if state.bad else state.origin,
                state.vo if state.set_by else scope_in_words(state.entry),
            )
            for state in states
        ]
        print_table(columns, rows, title=_title(current))
    _report(current, vo)


@app.command()
def get(context: typer.Context, key: Key, vo: Vo = None, json: Json = False) -> None:
    """Show a key: its value, what it means, its range, and which rule reads it."""
    entry_named(shipped_catalogue(), key)
    current = _read(context)
    vo = vo or current.catalogue.vo
    state = state_of(current, key, vo)
    entry = state.entry
    if json:
        print_json(key_detail(state, current))
    else:
        readers = "; ".join(f"{where}: {', '.join(codes)}" for where, codes in entry.read_by.items())
        source = f"{state.set_by}, VO {state.vo or 'any'}" if state.set_by else "default"
        rows = [
            ("value", shown(state.value)),
            ("source", source),
            ("unit", entry.unit),
            ("default", default_in_words(entry)),
            ("accepts", entry.accepts),
            ("scope", scope_in_words(entry)),
            ("row", f"app {entry.app}, component {entry.component}"),
            ("meaning", entry.meaning),
            ("read by", readers),
        ]
        print_table((state.name, ""), rows)
    _report(current, vo)


@app.command(name="set", context_settings={"ignore_unknown_options": True})
def set_key(
    context: typer.Context,
    key: Key,
    value: Annotated[str, typer.Argument(help="The new value.", show_default=False)],
    reason: Reason,
    vo: Vo = None,
    editor: Editor = None,
    expect_version: Expected = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="First show what the newest cycles would do with it, then ask.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the preview; set nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Make the change regardless of the preview.")] = False,
    may_move: MayMove = None,
    json: Json = False,
) -> None:
    """Set a key; running services use the value from their next cycle on."""
    entry = shipped_catalogue().require(key)
    typed = from_text(entry, value)
    who = editor_name(editor)
    if preview or dry_run or may_move is not None:
        from broker.tuning.commands.canary import look_only, reason_after_look

        catalogue = installed_catalogue(context)
        proposals = (Proposal(key, typed, vo_to_edit(catalogue.require(key), vo or catalogue.vo)),)
        if dry_run:
            look_only(context, proposals, may_move, json=json)
            return
        limited_change = LimitedChange(proposals, may_move, who, reason)
        reason = reason_after_look(context, limited_change, yes=yes or not preview, json=json)

    def change(store: TuningStore, connection: sa.Connection) -> Published:
        of_vo = vo or store.vo
        return store.set_value(
            connection, key, typed, editor=who, reason=reason, vo=of_vo, expected_version=expect_version
        )

    _change(context, change, json)


@app.command()
def unset(
    context: typer.Context,
    key: Key,
    reason: Reason,
    vo: Vo = None,
    editor: Editor = None,
    expect_version: Expected = None,
    json: Json = False,
) -> None:
    """Remove a value, so that the default is in force again."""
    shipped_catalogue().require(key)
    who = editor_name(editor)

    def change(store: TuningStore, connection: sa.Connection) -> Published:
        of_vo = vo or store.vo
        return store.unset(connection, key, editor=who, reason=reason, vo=of_vo, expected_version=expect_version)

    _change(context, change, json)


@app.command()
def rollback(
    context: typer.Context,
    version: Annotated[int, typer.Argument(help="The version to go back to.", min=1, show_default=False)],
    reason: Annotated[str | None, typer.Option("--reason", help="Why [back to version VERSION].")] = None,
    editor: Editor = None,
    expect_version: Expected = None,
    json: Json = False,
) -> None:
    """Restore every value of an older version, as a new version."""
    who = editor_name(editor)

    def change(store: TuningStore, connection: sa.Connection) -> Published:
        why = f"back to version {version}" if reason is None else reason
        return store.rollback(connection, version, editor=who, reason=why, expected_version=expect_version)

    _change(context, change, json)


@app.command()
def diff(
    context: typer.Context,
    first: Annotated[int, typer.Argument(help="A version.", min=1, show_default=False)],
    second: Annotated[int, typer.Argument(help="Another one.", min=1, show_default=False)],
    json: Json = False,
) -> None:
    """Show the differences between two versions."""
    with open_store(context) as database, database.read_snapshot() as connection:
        store = TuningStore(database.names)
        old, new = store.version(connection, first), store.version(connection, second)
    changes = differences(old.rows, new.rows)
    if json:
        for change in changes:
            print_json(value_change(change))
        return
    print_table(
        ("key", "vo", f"version {first}", f"version {second}"),
        [(change.row_id[1], change.row_id[2], _cell(change.old), _cell(change.new)) for change in changes],
        title=f"{len(changes)} difference(s)",
    )


@app.command()
def history(
    context: typer.Context,
    key: Annotated[str | None, typer.Argument(help="Full name of a key [all keys].", show_default=False)] = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of lines.", min=1)] = 100,
    refused: Annotated[
        bool, typer.Option("--refused", help="Instead, list changes refused because too many jobs would have moved.")
    ] = False,
    json: Json = False,
) -> None:
    """List who changed what, when and why, newest first."""
    if key is not None:
        shipped_catalogue().require(key)
    if refused:
        _refused_changes(context, key, limit, json)
        return
    with open_store(context) as database, database.read_snapshot() as connection:
        items = TuningStore(database.names).history(connection, key, limit)
    if json:
        for item in items:
            print_json(item)
        return
    columns = ("version", "at (UTC)", "editor", "key", "vo", "old", "new", "reason")
    rows = [
        (item.version, item.published_at, item.editor, item.key, item.vo, item.old, item.new, item.reason)
        for item in items
    ]
    print_table(columns, rows)


def _refused_changes(context: typer.Context, key: str | None, limit: int, json: bool) -> None:
    with open_store(context) as database:
        items = refusals(database, key, limit)
    if json:
        for item in items:
            print_json(item)
        return
    columns = ("at (UTC)", "editor", "key", "vo", "value", "share", "jobs that move", "of", "may move", "reason")
    rows = [
        (
            item.refused_at, item.editor, item.key, item.vo, item.value, f"{item.share:.0%}",
            "not previewed" if item.jobs_moved is None else item.jobs_moved, item.jobs, item.most_moved, item.reason,
        )
        for item in items
    ]  # fmt: skip
    print_table(columns, rows)


@app.command()
def doc() -> None:
    """Print the catalogue of keys as Markdown, as it stands in the reference."""
    typer.echo(render_reference(shipped_catalogue()), nl=False)


def _read(context: typer.Context) -> Published:
    """The values that the next cycle will use."""
    with open_store(context) as database, database.read_snapshot() as connection:
        return TuningStore(database.names).read_current(connection, live=True)


def _change(context: typer.Context, change: Callable[[TuningStore, sa.Connection], Published], json: bool) -> None:
    """Publish what other programs wrote, then the operator's change, and show the differences.

    The changes of other programs are committed first, so that the version named in a refusal can be read. Before the
    first version there is nothing to name: an operator who saw version 0 has seen the table as it is.
    """
    with open_store(context) as database:
        store = TuningStore(database.names)
        with database.begin() as connection:
            if store.read_current(connection).version != UNPUBLISHED_VERSION:
                store.sync_outside_changes(connection)
        with database.begin() as connection:
            before = store.read_current(connection, live=True)
            after = change(store, connection)
    changes = differences(before.rows, after.rows)
    if json:
        print_json(TuningChange(version=after.version, changed=[value_change(row_change) for row_change in changes]))
        return
    for row_change in changes:
        key, vo = row_change.row_id[1:]
        typer.echo(escaped(f"{key} (VO {vo or 'any'}): {_cell(row_change.old)} -> {_cell(row_change.new)}"))
    typer.echo(f"version {after.version}" if changes else f"nothing to change, it is so in version {after.version}")


def _title(current: Published) -> str:
    return f"gdpconfig version {current.version}" if current.version else "gdpconfig, not yet published as a version"


def _report(current: Published, vo: str) -> None:
    for bad in current.bad_rows:
        remark(f"warning: {bad}")
    for sentence in current.contradictions(vo):
        remark(f"warning: {sentence}")


def _cell(row: ConfigRow | None) -> str:
    if row is None:
        return "(default)"
    return str(row.value_json if row.type == "json" else row.value)


def _set_elsewhere(client: BrokerClient, given: Arguments) -> Documents:
    return [
        client.config_set(
            given["key"],
            given["value"],
            reason=given["reason"],
            vo=given["vo"],
            expect_version=given["expect_version"],
            may_move=given["may_move"],
        )
    ]


def _history_elsewhere(client: BrokerClient, given: Arguments) -> Documents:
    changes = client.config_refused if given["refused"] else client.config_history
    return itertools.islice(changes(given["key"]), given["limit"])


def _unset_elsewhere(client: BrokerClient, given: Arguments) -> Documents:
    expected = given["expect_version"]
    return [client.config_unset(given["key"], reason=given["reason"], vo=given["vo"], expect_version=expected)]


def _roll_back_elsewhere(client: BrokerClient, given: Arguments) -> Documents:
    expected = given["expect_version"]
    return [client.config_rollback(given["version"], reason=given["reason"] or "", expect_version=expected)]


ELSEWHERE = {
    "list": RemoteDocuments(lambda client, given: client.config_list(vo=given["vo"], only_set=given["only_set"])),
    "get": RemoteDocuments(lambda client, given: [client.config_get(given["key"], vo=given["vo"])]),
    "set": RemoteDocuments(_set_elsewhere),
    "unset": RemoteDocuments(_unset_elsewhere),
    "history": RemoteDocuments(_history_elsewhere),
    "diff": RemoteDocuments(lambda client, given: client.config_diff(given["first"], given["second"])),
    "rollback": RemoteDocuments(_roll_back_elsewhere),
}
