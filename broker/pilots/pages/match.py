"""The page that explains matches: nodes for a job, and jobs for a node."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.problems import Problem
from broker.api.state import LARGEST_ID, State, query_context
from broker.matching.specs.documents import DocumentUnreadable, read_yaml
from broker.matching.specs.job_reading import read_job
from broker.matching.specs.node_reading import read_node
from broker.matching.specs.problems import SpecRefused
from broker.pilots.answers.why_job import WhyJob, why_job, why_specs
from broker.pilots.answers.why_node import WhyNode, why_node
from broker.pilots.model.matcher import Pilot
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext
from broker.web.rendering import page_router, show

router = page_router(tag="pilots")
_Text = Annotated[str, Query(max_length=16_384)]
_Name = Annotated[str, Query(max_length=128, pattern=r"^[^\x00]*$")]
SPECS = "requirements:\n  wall_time: 86400\n  cpu: {num_cores: {min: 1, max: 8}}\n  tags: cvmfs:lhcb\n"
NODE = "cpu: {num_cores: 8, ram_mb: 16000}\nwall_time: 172800\ntags: [cvmfs:lhcb]\n"


class MatchSubject(BaseModel):
    """What was asked about: a job, or the node of a pilot.

    Attributes:
        job: the nodes that fit it, or miss by one condition.
        node: the jobs that fit it, or miss by one condition.
    """

    job: WhyJob | None = None
    node: WhyNode | None = None


@router.get("/match")
@allow(READ)
def match_page(
    request: Request,
    api: State,
    pandaid: Annotated[str, Query(max_length=20, pattern=r"^[0-9]*$")] = "",
    specs: _Text = "",
    node: _Text = "",
    site: _Name = "",
    ce: _Name = "",
    queue: _Name = "",
    vo: _Name = "",
) -> Response:
    """Which nodes fit a job by its number or its specs, or which jobs fit a node at a queue; what misses, and why."""
    with query_context(api) as query:
        if pandaid:
            answer = MatchSubject(job=why_job(query, min(int(pandaid), LARGEST_ID)))
        elif specs.strip():
            answer = MatchSubject(job=_of_specs(query, specs, queue or None))
        elif queue:
            answer = MatchSubject(node=_of_node(query, node, Pilot(site, ce, queue, vo or None)))
        else:
            answer = MatchSubject()
    given = {"pandaid": pandaid, "specs": specs or SPECS, "node": node or NODE, "site": site, "ce": ce, "vo": vo}
    return show(request, "pilots/match", answer, title="Jobs and nodes", given={**given, "queue": queue})


def _of_specs(query: QueryContext, text: str, queue: str | None) -> WhyJob:
    try:
        specs = read_job(read_yaml(text))
    except (DocumentUnreadable, SpecRefused) as refused:
        raise Problem(422, "invalid_request", f"specs: {refused}") from refused
    return why_specs(query, specs, queue)


def _of_node(query: QueryContext, text: str, pilot: Pilot) -> WhyNode:
    """The jobs for a pilot; without a text it reports no node."""
    node = None
    if text.strip():
        try:
            document = read_yaml(text)
            node = read_node({"site": pilot.site or "any", **document} if isinstance(document, dict) else document)
        except (DocumentUnreadable, SpecRefused) as refused:
            raise Problem(422, "invalid_request", f"node: {refused}") from refused
    at_node = Pilot(pilot.site, pilot.ce, pilot.queue, pilot.vo, node=node)
    return why_node(Database.raw(query.connection), query.names, at_node, query.now)
