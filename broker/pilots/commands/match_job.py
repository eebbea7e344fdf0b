"""``broker match-job``: one job for a pilot, as the matcher gives it, or the reason why there is none."""

from __future__ import annotations

import secrets
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from broker.cli.context import SCENARIO_IF_LOADED, at_option, moment_of, open_store
from broker.cli.elsewhere import Arguments, Documents, RemoteDocuments
from broker.cli.output import print_json, print_table, remark
from broker.matching.specs.spec import OWN
from broker.pilots.answers.matched_job import MatchedJob, matched_job
from broker.pilots.answers.places import check_place
from broker.pilots.answers.why_node import why_node
from broker.pilots.model.matcher import Pilot, host_of
from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.matches import Match
from broker.pilots.statements.presented_nodes import note_pilot
from broker.pools.answers.spec_files import read_node_file
from broker.store.connection.database import Database

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient


def match_job(
    context: typer.Context,
    site: Annotated[str, typer.Option("--site", help="Where the pilot runs.")],
    ce: Annotated[str, typer.Option("--ce", help="CE of its queue.")],
    queue: Annotated[str, typer.Option("--queue", help="Its queue.")],
    vo: Annotated[str | None, typer.Option("--vo", help="Only jobs of this VO.")] = None,
    platform: Annotated[list[str] | None, typer.Option("--platform", help="A platform it runs; repeatable.")] = None,
    cpu_time: Annotated[
        int | None, typer.Option("--cpu-time", min=0, help="Normalised CPU seconds that it has left.")
    ] = None,
    resource_type: Annotated[str | None, typer.Option("--resource-type", help="Resource type of its slot.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only jobs of this owner.")] = None,
    owner_group: Annotated[str | None, typer.Option("--owner-group", help="Only jobs of this working group.")] = None,
    node: Annotated[
        Path | None,
        typer.Option("--node", metavar="FILE", help="Its node, YAML or JSON; by default, jobs that require none."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Name of its node, which may be held.")] = None,
    at: Annotated[str | None, at_option("Instant of the request", without=SCENARIO_IF_LOADED)] = None,
    why: Annotated[
        bool,
        typer.Option("--why", help="Take no job; show what fits, what misses by one condition, which limits hold."),
    ] = False,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the draw [drawn].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object.")] = False,
) -> None:
    """Give one activated job to a pilot: its status becomes sent. If there is none, show which field did not fit.

    The pools of the pilot are looked up by its queue.
    """
    pilot = Pilot(
        site, ce, queue, vo, tuple(platform or ()), cpu_time, resource_type, owner, owner_group,
        None if node is None else read_node_file(node, OWN), host_of(host),
    )  # fmt: skip
    generator = np.random.default_rng(secrets.randbits(31) if seed is None else seed)
    with open_store(context) as database:
        with database.begin() as connection:
            check_place(connection, database.names, site, ce, queue)
        moment = moment_of(at, database, of_scenario=True)
        if why:
            return _explain(database, pilot, moment, as_json=as_json)
        with database.autocommit() as connection:
            note_pilot(Database.raw(connection), pilot, moment)
            matcher = Matcher(Database.raw(connection), database.names, generator)
            answer = matched_job(outcome := matcher.match(pilot, moment), node=pilot.node)
            pools = sorted(matcher.pools_of(pilot, moment))
            if not isinstance(outcome, Match):
                answer = answer.model_copy(update={"rejected": matcher.explain(pilot, moment).rejected})
    _show(answer, {**dict(answer), "pools": pools} if as_json else None)


def _explain(database: Database, pilot: Pilot, moment: datetime, *, as_json: bool) -> None:
    with database.begin() as connection:
        why = why_node(Database.raw(connection), database.names, pilot, moment)
    if as_json:
        print_json(why)
        return
    tiers = [
        ("none" if one.tier is None else one.tier, ", ".join(one.types), one.task_queues, one.jobs, one.held)
        for one in why.fits
    ]
    print_table(("tier", "types", "task queues", "jobs", "held by a limit"), tiers, title=f"Fits at {why.panda_queue}")
    near = [(one.field, one.task_queues, one.jobs) for one in why.near]
    print_table(("misses by", "task queues", "jobs"), near, title="Misses by one condition")
    limits = [(one.job_type, one.site, one.running, one.most, one.free) for one in why.limits]
    print_table(("type", "site", "running", "most", "free"), limits, title="Limits")
    if why.held is not None:
        until = why.held.held_until.isoformat(timespec="seconds")
        remark(f"{why.held.jobs:,} of the jobs wait for another node than {why.held.node}, the first until {until}")


def _show(job: MatchedJob, document: dict[str, Any] | None) -> None:
    if document is not None:
        print_json(document)
        return
    if job.pandaid is None:
        until = "" if job.held_until is None else f" than {job.node} until {job.held_until.isoformat()}"
        remark(f"no job for the pilot: {job.reason}{until}")
        print_table(("does not fit", "task queues"), list(job.rejected.items()))
        return
    print_table(("job", "task", "PanDA queue", "pool"), [(job.pandaid, job.jeditaskid, job.panda_queue, job.pool)])
    if (share := job.allotted) is not None:
        columns = ("cores", "memory (MB)", "memory limit (MB)", "GPUs", "scratch (MB)")
        print_table(columns, [(share.cores, share.ram_mb, share.ram_limit_mb, share.gpus, share.scratch_mb)])


def _ask(client: BrokerClient, given: Arguments) -> Documents:
    names = {"vo": "vo", "cpu_time": "cpu_time_s", "resource_type": "resource_type", "owner": "owner"}
    fields = {field: given[argument] for argument, field in names.items() if given[argument] is not None}
    fields |= {"owner_group": given["owner_group"]} if given["owner_group"] else {}
    fields["platforms"] = list(given["platform"] or ())
    return [client.match_job(given["site"], given["ce"], given["queue"], **fields)]


ELSEWHERE = RemoteDocuments(_ask)
