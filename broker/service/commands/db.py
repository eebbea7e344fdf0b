"""``broker db``: install, upgrade, load, dump and reach the database, and preview an upgrade."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from agents.service import configuration, registry
from agents.service.configuration import load_process
from broker.alongside.answers.panda_server import agents_via_panda, only_recording
from broker.cli.context import connect_store, open_store, require_database, settings_of
from broker.cli.output import print_json, print_table, remark
from broker.errors import DONE, FAILED, GATE_CLOSED, REFUSED
from broker.service.answers.doctor import missing_findings
from broker.store.connection import embedded_binaries
from broker.store.connection.address import without_password
from broker.store.connection.database import Database
from broker.store.connection.denials import TUNING, WRITERS
from broker.store.connection.embedded import EmbeddedServer
from broker.store.connection.errors import EmbeddedServerError, SchemaOutdated
from broker.store.connection.tables import Names, TableCatalogue, quoted
from broker.store.scenarios.load_dump import dump as dump_scenario, load as load_scenario
from broker.store.scenarios.scenario_file import read_scenario, write_scenario
from broker.store.schema import migrate, rights
from broker.store.schema.pending_steps import HeldLock, Pending, PendingStep, read_pending

_HELD = {
    "moment": "for a moment",
    "scan": "while it is read",
    "index": "while it is indexed",
    "rewrite": "while its rows are written",
    "unknown": "for a time that is not known",
}
_STOPS = {"nothing": "others go on", "writes": "stops writing", "all": "stops reading and writing"}


def show_pending(pending: Pending, *, json: bool) -> int:
    """Print the steps; return the exit status: done, refused with steps, or that running services would not go on."""
    if json:
        print_json(
            {
                "safe": pending.is_safe,
                "from_before_1": pending.from_before_1,
                "steps": [_as_object(step) for step in pending.steps],
            }
        )
    elif not pending.steps:
        typer.echo("the schema is current")
    else:
        rows = [(step.label, _writers(step), _locks(step)) for step in pending.steps]
        print_table(("step", "who writes afterwards", "locks"), rows)
        typer.echo(_verdict(pending))
    if not pending.steps:
        return DONE
    return REFUSED if pending.is_safe else GATE_CLOSED


def _verdict(pending: Pending) -> str:
    count = len(pending.steps)
    if pending.from_before_1:
        return f"{count} steps: services of releases before 1.0 write nothing after the first; stop them before"
    if pending.is_safe:
        return f"{count} steps, each only adds: services that run now go on"
    release = next((step.effects.oldest_writer for step in pending.steps[::-1] if step.effects.oldest_writer), None)
    older = "services of older releases" if release is None else f"services older than {release}"
    return f"{count} steps: {older} only read afterwards; start newer ones first, back is a restored backup"


def _writers(step: PendingStep) -> str:
    effects = step.effects
    if effects.oldest_writer is not None:
        return f"{effects.oldest_writer} and newer"
    return "as before" if effects.only_adds else f"not said: {effects.more_than_adds[0]}"


def _locks(step: PendingStep) -> str:
    return "; ".join(_lock(lock) for lock in step.locks) or "none on tables that are there"


def _lock(lock: HeldLock) -> str:
    length = "" if not lock.about_s else f", about {lock.about_s:.1f} s"
    return f"{lock.lock.table}: {_STOPS[lock.lock.stops]} {_HELD[lock.lock.held]}{length}"


def _as_object(step: PendingStep) -> dict[str, Any]:
    return {
        "step": step.label,
        "only_adds": step.effects.only_adds,
        "oldest_writer": step.effects.oldest_writer,
        "more_than_adds": step.effects.more_than_adds,
        "locks": [
            {
                "table": lock.lock.table,
                "mode": lock.lock.mode,
                "stops": lock.lock.stops,
                "held": lock.lock.held,
                "size_bytes": lock.size_bytes,
                "about_s": lock.about_s,
            }
            for lock in step.locks
        ],
    }


app = typer.Typer(no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]


@app.command()
def init(
    context: typer.Context,
    mirrored: Annotated[
        bool,
        typer.Option("--mirrored", help="For copies of the tables of a PanDA on another database, such as Oracle."),
    ] = False,
    json: Json = False,
) -> None:
    """Install the schema: all of it, or only our own alongside a PanDA database."""
    with connect_store(context) as database:
        _show_installed(migrate.upgrade(database, mirrored=mirrored), database, json, settings_of(context).config)


@app.command()
def upgrade(
    context: typer.Context,
    only_check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Change nothing: show which steps would run, whether each only adds, and who waits how long. Exits "
            "with 0 if there are none, 3 if running services go on through them, 6 if they do not.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Bring an installed schema to this version."""
    require_database(context)
    with connect_store(context) as database:
        if only_check:
            raise typer.Exit(show_pending(read_pending(database), json=json))
        try:
            migrate.check(database)
        except SchemaOutdated as pending:
            remark(f"upgrading: {pending.what}")
        _show_installed(migrate.upgrade(database), database, json, settings_of(context).config)


@app.command()
def load(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Scenario: .json or .json.gz", show_default=False)],
    replace: Annotated[bool, typer.Option("--replace", help="Empty the scenario tables and decisions first.")] = False,
    json: Json = False,
) -> None:
    """Load a scenario file, in one transaction."""
    scenario = read_scenario(file)
    with open_store(context, make=True) as database:
        counts = load_scenario(database, scenario, replace=replace)
    if json:
        print_json({"now": scenario.now, "tables": counts})
    else:
        print_table(("table", "rows"), counts.items(), title=f"Loaded {file.name}, now = {scenario.now.isoformat()}")


@app.command()
def dump(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Scenario: .json or .json.gz", show_default=False)],
    json: Json = False,
) -> None:
    """Write the scenario tables to a file."""
    with open_store(context) as database:
        scenario = dump_scenario(database, datetime.now(UTC).replace(microsecond=0))
    write_scenario(file, scenario)
    counts = {name: len(rows) for name, rows in scenario.tables.items()}
    if json:
        print_json({"now": scenario.now, "tables": counts})
    else:
        print_table(("table", "rows"), counts.items(), title=f"Wrote {file.name}, now = {scenario.now.isoformat()}")


@app.command()
def url(context: typer.Context, json: Json = False) -> None:
    """Print the address of the database; the embedded server then stays up until `broker db stop`."""
    settings = settings_of(context)
    embedded = None if settings.database_url is not None else EmbeddedServer(settings.home)
    require_database(context)
    with connect_store(context) as database:
        if embedded is not None:
            embedded.keep()
            remark("the embedded server stays up until `broker db stop`")
        if json:
            print_json({"url": database.url})
        else:
            typer.echo(database.url)


@app.command()
def stop(context: typer.Context) -> None:
    """Stop the embedded server that `broker db url` left running."""
    home = settings_of(context).home
    if not EmbeddedServer(home).shut_down():
        remark("another broker command uses the embedded server; it stops with the last of them")


@app.command(context_settings={"ignore_unknown_options": True})
def psql(
    context: typer.Context,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="-- [PSQL ARGUMENTS]...", show_default=False, help="Passed to psql.")
    ] = None,
) -> None:
    """Run psql on the database, for example: broker db psql -- -Atc "select 1"."""
    require_database(context)
    with connect_store(context) as database:
        address, secret = without_password(sa.make_url(database.url))
        done = subprocess.run(  # noqa: S603 - the program is ours, its arguments are the operator's
            [str(_client()), "--no-password", *(arguments or ()), "--dbname", address.render_as_string()],
            check=False,
            env=_client_environment({**os.environ, **secret}, database.names),
        )
    if done.returncode != 0:
        raise typer.Exit(FAILED)


def _client() -> Path:
    """Return the bundled psql, or the system's if the extra is not installed."""
    try:
        return embedded_binaries.program("psql")
    except EmbeddedServerError:
        program = shutil.which("psql")
        if program is None:
            raise
        return Path(program)


def _client_environment(variables: Mapping[str, str], names: Names) -> dict[str, str]:
    """Return the variables for psql, with a search path over all three schemas."""
    path = ",".join(quoted(name) for name in (names.panda, names.meta, names.broker, "public"))
    option = "-c search_path=" + path.replace(" ", "\\ ")
    return {**variables, "PGOPTIONS": f"{variables.get('PGOPTIONS', '')} {option}".strip()}


def _show_installed(installed: migrate.UpgradeResult, database: Database, json: bool, folder: Path | None) -> None:
    needed = _rights(installed, database, folder)
    if json:
        missing = {"tables": installed.missing.tables, "columns": dict(installed.missing.columns)}
        panda = {"version": installed.panda_now, "before": installed.panda_before}
        about = {"mode": installed.mode, "applied": installed.applied, "missing": missing}
        print_json({**about, "panda_schema": panda, "rights": needed})
        return
    for step in installed.applied:
        typer.echo(f"applied {step}")
    if not installed.applied:
        typer.echo("the schema is current")
    if installed.mode == migrate.BESIDE:
        typer.echo(f"alongside PanDA: schema {database.names.panda} was left as it is")
        off = ", ".join(WRITERS)
        typer.echo(f"agents that write PanDA's tables are off until agents.yaml says enabled: true: {off}")
    if installed.mode == migrate.MIRRORED:
        typer.echo(f"mirrored: schema {database.names.panda} takes copies, which JEDI's watchdog makes")
    for right in needed:
        if not right["held"]:
            typer.echo(f"missing right, {right['who']}: {right['grant']}")
    if needed and all(right["held"] for right in needed):
        typer.echo("the role has every right that the agents need that are on")
    if installed.mode != migrate.STANDALONE:
        was = "" if installed.panda_before in (None, installed.panda_now) else f", it was {installed.panda_before}"
        typer.echo(f"PanDA's schema: {installed.panda_now or 'version unknown'}{was}")
    if installed.mode == migrate.BESIDE:
        process = load_process(configuration.config_file("broker.yaml", folder), folder)
        with database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, database.names)
        for finding in missing_findings(catalogue, process.job_statistics):
            remark(f"missing in PanDA's database: {finding.what}; {finding.remedy}")


def _rights(installed: migrate.UpgradeResult, database: Database, folder: Path | None) -> list[dict[str, Any]]:
    """Return the rights needed alongside PanDA, with the GRANT for each; none standalone.

    These are for reading, for ``config set``, and for the agents that are on and write rows themselves.
    """
    if installed.mode != migrate.BESIDE:
        return []
    agents = configuration.load(configuration.config_file("agents.yaml", folder), registry.NAMES).agents
    idle = agents_via_panda(agents) | only_recording(agents)
    writing = [name for name in WRITERS if agents[name].runs(installed.mode) and name not in idle]
    with database.read_snapshot() as connection:
        role = rights.current_role(connection)
        all_rights = rights.read_rights(connection, database.names, (rights.READING, TUNING, *writing))
    return [
        {
            "who": right.who,
            "privilege": right.privilege,
            "table": right.table,
            "held": right.held,
            "grant": right.grant(role),
        }
        for right in all_rights
    ]
