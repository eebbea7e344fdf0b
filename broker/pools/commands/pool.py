"""``broker pool``: what the requirements of a job mean, which queues meet them, and the pools on record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agents.pools.submit_pool_refresh import read_file
from broker.cli.context import at_option, moment_of, open_store
from broker.cli.output import print_json, print_table, remark
from broker.errors import WRONG_USAGE, BrokerError, NotFound
from broker.matching.specs.spec import JobSpecs
from broker.pools.answers.pool import pool_answer
from broker.pools.answers.pool_files import (
    ReadResources,
    pool_in,
    read_job_file,
    read_resource_file,
    shipped_declarations,
    specs_in,
)
from broker.pools.commands.pool_match import match_files
from broker.pools.model.eligibility import Eligibility, match_pools
from broker.pools.model.requirement import SubmitPool
from broker.pools.model.resources import Resources
from broker.pools.statements import resource_versions
from broker.pools.statements.pool_reads import all_pools, get_submit_pools_for_queue
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext

app = typer.Typer(no_args_is_help=True, help="SubmitPools: requirements of jobs, and the queues that meet them.")

app.command("match")(match_files)

JobFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="JDL, CFG, or a JSON object of requirements: by its name, else by content."),
]
Vo = Annotated[str, typer.Option("--vo", help="Virtual organisation; part of the pool's identity.")]
ResourceOption = Annotated[
    Path | None,
    typer.Option("--resources", metavar="FILE", help="Sites, CEs and queues in JSON, YAML or CFG, with declarations."),
]


@app.command("hash")
def show_hash(
    file: JobFile,
    vo: Vo,
    resources: ResourceOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object with the canonical text.")] = False,
) -> None:
    """Show the identifier of the pool for the requirements in a file; reads no database."""
    job = read_job_file(file)
    pool = pool_in(file, job, vo, _resource_file(resources).declarations)
    if as_json:
        print_json(_identity(pool))
    elif pool is None:
        remark("no requirements: no pool")
    else:
        print(pool.pool_id)


@app.command("check")
def check(
    context: typer.Context,
    file: JobFile,
    vo: Vo,
    resources: ResourceOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object.")] = False,
) -> None:
    """Show the pool for the requirements in a file, the queues that meet them, and why others do not.

    Without --resources, the queues published in the database are used.
    """
    job = read_job_file(file)
    wants_published = resources is None and bool(job.requirements)
    resource_data = _published(context) if wants_published else _resource_file(resources)
    pool = pool_in(file, job, vo, resource_data.declarations)
    specs = specs_in(file, job, vo)
    answer = None if pool is None or resource_data.resources is None else match_pools([pool], resource_data.resources)
    if pool is not None and resource_data.resources is not None:
        _warn(pool, resource_data.resources)
    if as_json:
        print_json(_identity(pool) | _of_node(specs) | _queues(answer))
    else:
        _show(pool, answer)
        if specs is not None:
            print(specs.words)


def _published(context: typer.Context) -> ReadResources:
    with open_store(context) as database, database.begin() as connection:
        version = resource_versions.current(connection)
    if version is None:
        remark("no resources are published: name a file with --resources to see the queues")
        return ReadResources(None, shipped_declarations())
    return ReadResources(version.content.resources, version.content.declarations or shipped_declarations())


def _identity(pool: SubmitPool | None) -> dict[str, object]:
    return {"pool": pool and pool.pool_id, "canonical": pool and pool.canonical}


def _of_node(specs: JobSpecs | None) -> dict[str, object]:
    """The requirements on a node; empty if there are none."""
    return {} if specs is None else {"node": {"specs": specs.spec_id, "canonical": specs.canonical}}


def _queues(answer: Eligibility | None) -> dict[str, object]:
    """The eligible and rejected queues; null if none were evaluated: no requirements, or no known queues."""
    if answer is None:
        return {"eligible": None, "rejected": {}}
    rejected = {str(queue): reason for queue, reason in answer.reasons(0).items()}
    return {"eligible": [str(queue) for queue in answer.eligible_queues(0)], "rejected": rejected}


def _warn(pool: SubmitPool, resources: Resources) -> None:
    known = resources.parameter_names
    for requirement in pool.requirements:
        if requirement.name not in known:
            similar = [name for name in known if name.lower() == requirement.name.lower()]
            hint = f"; did you mean {similar[0]}?" if similar else ""
            remark(f"no resource defines {requirement.name}{hint}")


def _show(pool: SubmitPool | None, answer: Eligibility | None) -> None:
    if pool is None:
        print("no requirements: no pool, every queue is eligible")
        return
    print(f"pool {pool.pool_id}")
    print_table(
        ("requirement", "operator", "values"),
        [(requirement.name, requirement.operator, ", ".join(requirement.values)) for requirement in pool.requirements],
    )
    if answer is None:
        return
    reasons = answer.reasons(0)
    rows = [(str(queue), "no" if queue in reasons else "yes", reasons.get(queue, "")) for queue in answer.queues]
    print_table(("queue", "eligible", "reason"), rows)


def _resource_file(file: Path | None) -> ReadResources:
    """The resources in a file; what is wrong in it is printed as remarks."""
    resource_data = read_resource_file(file)
    for warning in resource_data.warnings:
        remark(warning)
    return resource_data


AsJson = Annotated[bool, typer.Option("--json", help="JSON objects on stdout.")]
PoolId = Annotated[str, typer.Argument(metavar="POOL", help="Identifier of the pool.")]
SiteName = Annotated[str | None, typer.Option("--site", help="Only pools that are mapped to this queue: its site,")]
CeName = Annotated[str | None, typer.Option("--ce", help="its CE,")]
QueueName = Annotated[str | None, typer.Option("--queue", help="and its name.")]


class HalfAQueue(BrokerError):
    """A queue is named by site, CE and queue together; one of them is missing."""

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
    """List pools on record: who uses them, and how many queues meet them."""
    with open_store(context) as database, database.read_snapshot() as connection:
        pools = [pool for pool in all_pools(connection) if vo is None or pool.vo == vo.lower()]
        if site is not None and ce is not None and queue is not None:
            mapped = set(get_submit_pools_for_queue(connection, site, ce, queue, vo))
            pools = [pool for pool in pools if pool.pool_id in mapped]
        elif (site, ce, queue) != (None, None, None):
            raise HalfAQueue("a queue has a site, a CE and a name", "broker pool list", "give --site, --ce and --queue")
    if as_json:
        for pool in pools:
            print_json(pool)
        return
    columns = ("pool", "vo", "queues", "waiting jobs", "tasks", "last used", "refreshed")
    print_table(
        columns,
        [
            (row.pool_id, row.vo, row.queue_count, row.waiting_jobs, row.tasks, row.last_used_at, row.refreshed_at)
            for row in pools
        ],
    )


@app.command("show")
def show(context: typer.Context, pool_id: PoolId, as_json: AsJson = False) -> None:
    """Show a pool: its requirements, the queues that meet them by the resources in force, and why others do not."""
    with open_store(context) as database, database.read_snapshot() as connection:
        query = QueryContext(connection, database.names, moment_of(None, database))
        pool = pool_answer(query, pool_id)
    if pool.unknown_because is not None:
        remark(f"why other queues are not eligible is unknown: {pool.unknown_because}")
    if as_json:
        print_json(pool)
        return
    for name, value in pool.model_dump(exclude={"now", "queues", "rejected", "unknown_because"}).items():
        print(f"{name:13} {value}")
    rejected = pool.rejected or {}
    rows = [(queue.name, "yes", "") for queue in pool.queues] + [
        (name, "no", reason) for name, reason in rejected.items()
    ]
    print_table(("queue", "eligible", "reason"), sorted(rows))


@app.command("queues")
def queues(context: typer.Context, pool_id: PoolId, as_json: AsJson = False) -> None:
    """List the queues mapped to a pool, since when, and the PanDA queue of each."""
    with open_store(context) as database, database.read_snapshot() as connection:
        pool = pool_answer(QueryContext(connection, database.names, moment_of(None, database)), pool_id)
    if as_json:
        for queue in pool.queues:
            print_json(queue)
        return
    rows = [(queue.name, queue.panda_queue, queue.first_seen_at, queue.confirmed_at) for queue in pool.queues]
    print_table(("queue", "panda queue", "first seen", "confirmed"), rows)


@app.command("resources")
def resources(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="JSON, YAML or CFG to publish; without it, show what is in force."),
    ] = None,
    at: Annotated[str | None, at_option("Time of the publication")] = None,
    as_json: AsJson = False,
) -> None:
    """Publish the sites, CEs and queues that pools are evaluated on, or show which are in force."""
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
        "queues": len(version.content.resources.queues),
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
