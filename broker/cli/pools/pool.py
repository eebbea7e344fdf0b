"""``broker pool``: what the requirements of a job mean, and which queues meet them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from broker.app.pool_files import ReadResources, pool_in, read_job_file, read_resource_file, shipped_declarations
from broker.cli.context import open_store
from broker.cli.output import print_json, print_table, remark
from broker.pools.eligibility import Eligibility, match_pools
from broker.pools.requirement import SubmitPool
from broker.pools.resources import Resources
from broker.store.pools import resource_versions

app = typer.Typer(no_args_is_help=True, help="SubmitPools: requirements of jobs, and the queues that meet them.")

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
    """The identifier of the pool that the requirements in a file make; reads no database."""
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
    """The pool of the requirements in a file, the queues that meet them, and why others do not.

    Without --resources the queues are those that are published in the database.
    """
    job = read_job_file(file)
    wants_published = resources is None and bool(job.requirements)
    found = _published(context) if wants_published else _resource_file(resources)
    pool = pool_in(file, job, vo, found.declarations)
    answer = None if pool is None or found.resources is None else match_pools([pool], found.resources)
    if pool is not None and found.resources is not None:
        _warn(pool, found.resources)
    if as_json:
        print_json(_identity(pool) | _queues(answer))
    else:
        _show(pool, answer)


def _published(context: typer.Context) -> ReadResources:
    with open_store(context) as database, database.begin() as connection:
        version = resource_versions.current(connection)
    if version is None:
        remark("no resources are published: name a file with --resources to see the queues")
        return ReadResources(None, shipped_declarations())
    return ReadResources(version.said.resources, version.said.declarations or shipped_declarations())


def _identity(pool: SubmitPool | None) -> dict[str, object]:
    return {"pool": pool and pool.pool_id, "canonical": pool and pool.canonical}


def _queues(answer: Eligibility | None) -> dict[str, object]:
    """Null where nothing was looked at: no requirement restricts the queues, or none are known."""
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
        [(one.name, one.operator, ", ".join(one.values)) for one in pool.requirements],
    )
    if answer is None:
        return
    reasons = answer.reasons(0)
    rows = [(str(queue), "no" if queue in reasons else "yes", reasons.get(queue, "")) for queue in answer.queues]
    print_table(("queue", "eligible", "reason"), rows)


def _resource_file(file: Path | None) -> ReadResources:
    """The resources in a file, with remarks about what is wrong in it."""
    found = read_resource_file(file)
    for warning in found.warnings:
        remark(warning)
    return found
