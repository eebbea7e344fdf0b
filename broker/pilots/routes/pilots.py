"""The HTTP API of pilots: a job, or why there is none; reports of their machines and jobs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from broker.access.policies import PILOT, Identity, Role, may_ask_for
from broker.api.direct_routes import DirectRoute
from broker.api.guarded_route import V1, allow, guarded_router
from broker.api.presenting import answer
from broker.api.problems import Problem
from broker.api.state import LARGEST_ID, State, Who, identity_of, state_of
from broker.matching.specs.node import Node
from broker.matching.specs.presented import read_presented
from broker.matching.specs.problems import SpecRefused
from broker.pilots.answers import reports
from broker.pilots.answers.matched_job import MatchedJob, matched_job
from broker.pilots.answers.reports import Kept
from broker.pilots.model.matcher import Pilot, host_of
from broker.pilots.routes.matchers import matchers_of

router = guarded_router(tag="pilots")

Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00]*$")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PresentedPilot(_Body):
    """The properties that a pilot presents.

    Attributes:
        site: site of the pilot, together with ``ce`` and ``queue``.
        ce: CE of its queue.
        queue: queue of the CE.
        vo: only jobs of this VO.
        platforms: platforms that it can run.
        cpu_time_s: normalised CPU seconds left.
        resource_type: resource type of its slot.
        owner: only jobs of this owner.
        owner_group: only jobs of this working group.
        node: its node: system, cpu, gpu, io, wall_time, tags ... of ``matchspec/1``, with free resources. Without it,
            only jobs that request nothing of a node.
        host: name of its node; pilots of a node at which jobs of several tasks fail get no jobs for a while.
    """

    site: Name
    ce: Name
    queue: Name
    vo: Name | None = None
    platforms: list[Name] = Field(default_factory=list, max_length=100)
    cpu_time_s: int | None = Field(default=None, ge=0, le=2**31)
    resource_type: Name | None = None
    owner: Name | None = None
    owner_group: Name | None = None
    node: dict[str, Any] | None = None
    host: Name | None = None

    def as_matched(self) -> Pilot:
        """The pilot as the matcher takes it; the site of its node is its own.

        Raises:
            Problem: 422, with field and value of the node.
        """
        return Pilot(
            self.site, self.ce, self.queue, self.vo, tuple(self.platforms), self.cpu_time_s, self.resource_type,
            self.owner, self.owner_group, None if self.node is None else _node(self.site, self.node),
            host_of(self.host),
        )  # fmt: skip


class AskingPilot(PresentedPilot):
    """A pilot that requests a job.

    Attributes:
        pilot: name of the pilot, for ``request_number``.
        request_number: number of this request: the same number returns the same job. Without it, each request is new.
    """

    pilot: Name | None = None
    request_number: int | None = Field(default=None, ge=0, le=LARGEST_ID)


class FeatureReport(_Body):
    """Machine/Job Features read by a pilot: key texts by name, as in the files of the two folders.

    Attributes:
        queue: queue of the pilot.
        reporter: name of the pilot.
        machinefeatures: keys of the machine.
        jobfeatures: keys of the job.
        scratch_shared: whether the scratch limit is a whole disk shared by all jobs.
    """

    queue: Name
    reporter: Name
    machinefeatures: dict[Name, Annotated[str, Field(max_length=1000)]] = Field(default_factory=dict, max_length=100)
    jobfeatures: dict[Name, Annotated[str, Field(max_length=1000)]] = Field(default_factory=dict, max_length=100)
    scratch_shared: bool = False


class StatusReport(_Body):
    """A job's report about itself (job-to-machine): key texts by name.

    Attributes:
        pandaid: PanDA ID of the job.
        record: keys of the record.
        allocated_cpu: cores that the job has.
    """

    pandaid: int = Field(ge=1, le=LARGEST_ID)
    record: dict[Name, Annotated[str, Field(max_length=1000)]] = Field(max_length=100)
    allocated_cpu: int | None = Field(default=None, ge=1, le=100_000)


@router.post("/jobs:match", response_model=MatchedJob)
@allow(PILOT)
async def match_job(request: Request, api: State, who: Who, body: AskingPilot) -> Response:
    """Give one activated job to a pilot, exactly once, or return which field did not fit."""
    _refuse_other_queues(who, body.queue)
    if (body.pilot is None) != (body.request_number is None):
        raise Problem(422, "invalid_request", "pilot and request_number go together")
    pilot = body.as_matched()
    numbered = None if body.pilot is None or body.request_number is None else (body.pilot, body.request_number)
    outcome, repeated = await matchers_of(api).match(pilot, numbered)
    return answer(request, matched_job(outcome, repeated, pilot.node))


async def _match_plainly(request: Request) -> Response:
    """Match like :func:`match_job`, from a body of plain JSON."""
    try:
        body = AskingPilot.model_validate_json(await request.body())
    except ValidationError as error:
        raise RequestValidationError([{**item, "loc": ("body", *item["loc"])} for item in error.errors()]) from None
    return await match_job(request, state_of(request), identity_of(request), body)


DIRECT = {
    ("POST", f"{V1}/jobs:match"): DirectRoute(f"{V1}/jobs:match", PILOT, "body_bytes", _match_plainly),
}
"""Routes that every pilot of the grid calls."""


@router.post("/features", response_model=Kept)
@allow(PILOT)
def report_features(request: Request, api: State, who: Who, body: FeatureReport) -> Response:
    """Report the Machine/Job Features read by a pilot."""
    _refuse_other_queues(who, body.queue)
    texts = (body.machinefeatures, body.jobfeatures)
    report = reports.feature_report(body.queue, body.reporter, texts, body.scratch_shared, api.now())
    return answer(request, reports.keep_features(api.database, report))


@router.post("/job-status", response_model=Kept)
@allow(PILOT)
def report_status(request: Request, api: State, who: Who, body: StatusReport) -> Response:
    """Store a job's report about itself."""
    status = reports.job_status(body.record)
    queue = reports.queue_of_job(api.database, body.pandaid)
    if queue is None:
        raise Problem(404, "no_such_job", f"there is no job {body.pandaid}")
    _refuse_other_queues(who, queue)
    kept = reports.keep_status(api.database, body.pandaid, status, body.allocated_cpu, api.now())
    return answer(request, kept)


def _node(site: str, written: dict[str, Any]) -> Node:
    """The node that a pilot presents; its site is that of the pilot.

    Raises:
        Problem: 422, with field and value.
    """
    try:
        return read_presented(site, written)
    except SpecRefused as refused:
        raise Problem(422, "invalid_request", f"node: {refused}") from refused


def _refuse_other_queues(who: Identity | None, queue: str) -> None:
    """Refuse a pilot any queue that its role does not cover.

    Raises:
        Problem: it names another queue.
    """
    if who is None or not may_ask_for(who, Role.PILOT, f"/{queue}"):
        raise Problem(403, "forbidden", "this needs another role")
