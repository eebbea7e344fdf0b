"""The commands of ``broker pool`` that look into the database: pools on record, their queues, and the resources."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from agents.pools.submit_pool_refresh import read_file
from broker.cli.context import open_store
from broker.cli.output import print_json, print_table, remark
from broker.cli.pools.pool import app
from broker.cli.time_arguments import at_option, moment_of
from broker.errors import WRONG_USAGE, BrokerError, NotFound, did_you_mean
from broker.pools.eligibility import match_pools
from broker.pools.problems import RequirementRefused
from broker.pools.requirement import parse_canonical
from broker.store.connection.database import Database
from broker.store.pools import resource_versions
from broker.store.pools.pool_reads import PoolRow, all_pools, get_submit_pools_for_queue, one_pool, queues_of_pool
from broker.store.pools.resource_versions import ResourceVersion

AsJson = Annotated[bool, typer.Option("--json", help="JSON objects on stdout.")]
PoolId = Annotated[str, typer.Argument(metavar="POOL", help="Identifier of the pool.")]
SiteName = Annotated[str | None, typer.Option("--site", help="Only pools that are mapped to this queue: its site,")]
CeName = Annotated[str | None, typer.Option("--ce", help="its CE,")]
QueueName = Annotated[str | None, typer.Option("--queue", help="and its name.")]


class NoSuchPool(NotFound):
    """There is no pool of that identifier."""


class HalfAQueue(BrokerError):
    """A queue is named by site, CE and queue together."""

    exit_status = WRONG_USAGE


@app.command("list")
def list_pools(
    context: typer.Context,
    site: SiteName = None,
    ce: CeName = None,
    queue: QueueName = None,
    vo: Annotated[str | None, typer.Option("--vo", help="Only pools of this VO.")] = None,
    as_json: AsJson = False,
) -> None:
    """Pools on record: who uses them, and how many queues meet them."""
    with open_store(context) as database, database.read_snapshot() as connection:
        pools = [pool for pool in all_pools(connection) if vo is None or pool.vo == vo.lower()]
        if site is not None and ce is not None and queue is not None:
            mapped = set(get_submit_pools_for_queue(connection, site, ce, queue, vo))
            pools = [pool for pool in pools if pool.pool_id in mapped]
        elif (site, ce, queue) != (None, None, None):
            raise HalfAQueue("a queue has a site, a CE and a name", "broker pool list", "give --site, --ce and --queue")
    if as_json:
        for pool in pools:
            print_json(_row(pool))
        return
    columns = ("pool", "vo", "queues", "waiting jobs", "tasks", "last used", "refreshed")
    print_table(
        columns,
        [
            (one.pool_id, one.vo, one.queue_count, one.waiting_jobs, one.tasks, one.last_used_at, one.refreshed_at)
            for one in pools
        ],
    )


@app.command("show")
def show(context: typer.Context, pool_id: PoolId, as_json: AsJson = False) -> None:
    """One pool: its requirements, the queues that meet them by the resources in force, and why the others do not."""
    with open_store(context) as database, database.read_snapshot() as connection:
        row = _known(connection, pool_id)
        mapped = queues_of_pool(connection, pool_id)
        version = resource_versions.current(connection)
    reasons = {} if version is None else _reasons(row, version)
    if as_json:
        print_json(_row(row) | {"queues": [one.name for one in mapped], "rejected": reasons})
        return
    for name, value in _row(row).items():
        print(f"{name:13} {value}")
    rows = [(one.name, "yes", "") for one in mapped] + [(name, "no", reason) for name, reason in reasons.items()]
    print_table(("queue", "eligible", "reason"), sorted(rows))


@app.command("queues")
def queues(context: typer.Context, pool_id: PoolId, as_json: AsJson = False) -> None:
    """The queues that are mapped to a pool, since when, and the PanDA queue of each."""
    with open_store(context) as database, database.read_snapshot() as connection:
        _known(connection, pool_id)
        found = queues_of_pool(connection, pool_id)
    rows: list[dict[str, Any]] = [
        {
            "queue": one.name,
            "panda_queue": one.panda_queue,
            "first_seen_at": one.first_seen_at,
            "confirmed_at": one.confirmed_at,
        }
        for one in found
    ]
    if as_json:
        for row in rows:
            print_json(row)
    else:
        print_table(("queue", "panda queue", "first seen", "confirmed"), [tuple(row.values()) for row in rows])


@app.command("resources")
def resources(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="JSON, YAML or CFG to publish; without it: what is in force.")
    ] = None,
    at: Annotated[str | None, at_option("Time of the publication")] = None,
    as_json: AsJson = False,
) -> None:
    """Publish the sites, CEs and queues that pools are evaluated on, or tell which are in force."""
    with open_store(context) as database:
        changed = file is not None and _publish(database, file, at)
        with database.read_snapshot() as connection:
            version = resource_versions.current(connection)
    if version is None:
        raise NotFound("no resources were ever published", "broker.resource_versions", "broker pool resources FILE")
    for finding in version.findings:
        remark(f"left out: {finding}")
    output = {
        "version": version.id,
        "published_at": version.published_at,
        "origin": version.text.origin,
        "queues": len(version.said.resources.queues),
        "changed": changed,
    }
    if as_json:
        print_json(output)
    else:
        print_table(tuple(output), [tuple(output.values())])


def _publish(database: Database, file: Path, at: str | None) -> bool:
    text, moment = read_file(file), moment_of(at, database)
    with database.begin() as connection:
        return resource_versions.publish(connection, text, moment)


def _known(connection: sa.Connection, pool_id: str) -> PoolRow:
    row = one_pool(connection, pool_id)
    if row is None:
        remedy = did_you_mean(pool_id, [one.pool_id for one in all_pools(connection)], "broker pool list shows all")
        raise NoSuchPool(f"there is no pool {pool_id[:80]}", "broker.submit_pools", remedy)
    return row


def _row(row: PoolRow) -> dict[str, Any]:
    return {
        "pool": row.pool_id,
        "vo": row.vo,
        "canonical": row.canonical,
        "created_at": row.created_at,
        "last_used_at": row.last_used_at,
        "refreshed_at": row.refreshed_at,
        "queue_count": row.queue_count,
        "waiting_jobs": row.waiting_jobs,
        "tasks": row.tasks,
    }


def _reasons(row: PoolRow, version: ResourceVersion) -> dict[str, str]:
    try:
        found = match_pools([parse_canonical(row.canonical)], version.said.resources)
    except RequirementRefused as error:
        remark(f"the definition of {row.pool_id} cannot be read, so nobody knows why a queue is not eligible: {error}")
        return {}
    return {str(queue): reason for queue, reason in found.reasons(0).items()}
