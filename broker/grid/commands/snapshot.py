"""``broker snapshot``: the stored snapshots of the grid, their size, and files of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from broker.cli.context import duration, moment_of, open_store, settings_of
from broker.cli.output import print_json, print_table, remark
from broker.errors import WRONG_USAGE, BrokerError
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.snapshot.raw import SnapshotCorruptError
from broker.store.connection.database import Database
from broker.store.decisions.stored_cycles import stored_cycles
from broker.store.gdpconfig_rows import TuningStore
from broker.store.scenarios.scenario_file import Scenario, read_document, write_scenario, write_text
from broker.store.snapshots import stored_snapshots as snapshots
from broker.store.snapshots.snapshot_file import MARK, SnapshotFile, from_document, to_document
from broker.store.snapshots.snapshot_overview import SourceLine, newest_id, sources_of, stored_snapshots, total_bytes
from broker.store.snapshots.snapshot_scenario import scenario_of
from broker.store.snapshots.stored_snapshots import EncodedSnapshot, NoSuchSnapshot, SnapshotLostError, encoded_snapshot
from broker.whatif.answers.stored_cases import snapshot_of_scenario

app = typer.Typer(no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]
SCENARIO_NAMES = (".scenario.json", ".scenario.json.gz")


class WrongArguments(BrokerError):
    """The arguments cannot be combined."""

    exit_status = WRONG_USAGE


@app.command("list")
def list_(
    context: typer.Context,
    last: Annotated[str | None, typer.Option("--last", metavar="SPAN", help="Such as 24h or 7d [all].")] = None,
    as_json: Json = False,
) -> None:
    """List stored snapshots: bytes of their sources, bytes that no other snapshot shares, and decisions on them."""
    span = None if last is None else duration(last, "--last")
    with open_store(context) as database:
        since = None if span is None else moment_of(None, database, of_scenario=True) - span
        with database.read_snapshot() as connection:
            stored, total = stored_snapshots(connection, since), total_bytes(connection)
    if as_json:
        for row in stored:
            print_json(asdict(row))
        return
    columns = ("snapshot", "taken at", "engine", "sources", "bytes", "own bytes", "decisions", "not ok")
    rows = [
        (row.id, row.taken_at, row.engine, row.sources, row.bytes, row.own_bytes, row.decisions, _message(row.not_ok))
        for row in stored
    ]
    print_table(columns, rows, title=f"{len(rows)} snapshots, {total} bytes in all")


def _message(states: Any) -> str:
    return ", ".join(f"{name} {state}" for name, state in states.items())


@app.command()
def show(
    context: typer.Context,
    snapshot: Annotated[str | None, typer.Argument(help="Name of the snapshot [the newest].")] = None,
    as_json: Json = False,
) -> None:
    """Show a snapshot: each source with its state, rows, bytes, and the number of snapshots that share it."""
    with open_store(context) as database, database.read_snapshot() as connection:
        name = _snapshot_name(connection, snapshot)
        sources, header = sources_of(connection, name), snapshots.header(connection, name)
        corrupt = _fault_of(connection, name)
    states = {str(one.get("name")): one for one in header.about.get("states", [])}
    described = [_description(one, states.get(one.name, {})) for one in sources]
    if as_json:
        fault = {"corrupt": corrupt or None}
        print_json({"id": name, "taken_at": header.taken_at, "engine": header.engine, "sources": described, **fault})
    else:
        columns = ("source", "state", "rows", "age (s)", "left out", "bytes", "in snapshots", "sha256")
        print_table(columns, [_cells(one) for one in described], title=f"Snapshot {name} of {header.taken_at}")
    if corrupt:
        raise SnapshotLostError(f"snapshot {name} cannot be read: {corrupt}", "broker.snapshots", "use another one")


def _fault_of(connection: sa.Connection, name: str) -> str:
    """What is wrong with a snapshot; empty if it can be used."""
    try:
        encoded_snapshot(connection, name).build()
    except (SnapshotCorruptError, SnapshotLostError) as error:
        return str(error)
    return ""


def _description(line: SourceLine, state: Any) -> dict[str, Any]:
    output = {name: state.get(name) for name in ("state", "rows", "age_s", "left_out", "detail")}
    return {"name": line.name, **output, "bytes": line.bytes, "snapshots": line.snapshots, "sha256": line.sha256}


def _cells(source: dict[str, Any]) -> tuple[object, ...]:
    state = f"{source['state'] or '-'} {source['detail'] or ''}".strip()
    size = "lost" if source["bytes"] is None else source["bytes"]
    return (
        source["name"],
        state,
        source["rows"],
        source["age_s"],
        source["left_out"],
        size,
        source["snapshots"],
        source["sha256"][:16],
    )


@app.command()
def export(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="[SNAPSHOT] FILE", help="SNAPSHOT defaults to the newest.")],
    decisions: Annotated[bool, typer.Option("--decisions", help="Include what was decided on it.")] = False,
    scenario: Annotated[
        bool, typer.Option("--scenario", help="Export a scenario, as for FILE.scenario.json, for broker db load.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Export a snapshot to a file (.json or .json.gz), its sources with their digests."""
    *names, file = words
    as_scenario = scenario or file.endswith(SCENARIO_NAMES)
    if len(names) > 1 or (as_scenario and decisions):
        what = "a scenario holds no decisions" if len(names) <= 1 else "more than a snapshot and a file"
        raise WrongArguments(what, "broker snapshot export", "write: broker snapshot export [SNAPSHOT] FILE")
    with open_store(context) as database, database.read_snapshot() as connection:
        name = _snapshot_name(connection, names[0] if names else None)
        snapshot = encoded_snapshot(connection, name)
        try:
            if as_scenario:
                result = scenario_of(snapshot.taken_at, snapshot.sources())
                write_scenario(Path(file), result.scenario)
                for lost in result.lost:
                    remark(f"not in the scenario: {lost}")
            else:
                bundle = _with_decisions(database, connection, snapshot) if decisions else SnapshotFile(snapshot)
                write_text(Path(file), json.dumps(to_document(bundle), indent=None, separators=(",", ":")) + "\n")
        except SnapshotCorruptError as error:
            raise SnapshotLostError(f"snapshot {name}: {error}", "broker.snapshots", "export another one") from error
    output = {"id": name, "taken_at": snapshot.taken_at, "file": file, "bytes": Path(file).stat().st_size}
    _say(output, as_json, "Wrote")


def _with_decisions(database: Database, connection: sa.Connection, snapshot: EncodedSnapshot) -> SnapshotFile:
    decisions = [decision for cycle in stored_cycles(connection, snapshot=snapshot.id) for decision in cycle.decisions]
    store = TuningStore(database.names)
    versions = {decision.origin.tuning for decision in decisions}
    return SnapshotFile(snapshot, decisions, {version: store.version(connection, version) for version in versions})


@app.command("import")
def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A snapshot, or a scenario: .json or .json.gz", show_default=False)],
    as_json: Json = False,
) -> None:
    """Import the snapshot of a file, or the one that a cycle would take of a scenario; its digests are checked."""
    document = read_document(file)
    if isinstance(document, dict) and MARK in document:
        bundle = from_document(document, shipped_catalogue(), str(file))
        snapshot = bundle.snapshot
        if bundle.decisions:
            remark(f"its {len(bundle.decisions)} decisions are not stored; broker replay --file {file} looks at them")
    else:
        snapshot = snapshot_of_scenario(Scenario.of(document, str(file)), settings_of(context).config)
    with open_store(context, make=True) as database, database.begin() as connection:
        snapshots.save(
            connection, snapshot.id, snapshot.taken_at, snapshot.engine, snapshot.parts, snapshot.about, repair=True
        )
    _say(
        {"id": snapshot.id, "taken_at": snapshot.taken_at, "file": str(file), "sources": len(snapshot.parts)},
        as_json,
        "Stored",
    )


def _snapshot_name(connection: sa.Connection, snapshot: str | None) -> str:
    """The given name of a snapshot, else that of the newest."""
    name = snapshot or newest_id(connection)
    if name is None:
        raise NoSuchSnapshot("no snapshot is stored", "broker.snapshots", "run a brokerage first")
    snapshots.header(connection, name)
    return name


def _say(output: dict[str, Any], as_json: bool, title: str) -> None:
    if as_json:
        print_json(output)
    else:
        print_table(("", ""), list(output.items()), title=f"{title} snapshot {output['id']}")
