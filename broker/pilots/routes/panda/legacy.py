"""The older methods, ``/server/panda/...``: forms in, bare objects out. A refusal is a body: pilots ignore the status.

Source: PanDA server, job dispatcher; how the pilot reads the answers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from broker.pilots.answers import jobs as pilot_jobs, workers
from broker.pilots.model import job_report, job_request
from broker.pilots.model.codes import (
    DATABASE_ERROR,
    INVALID,
    NO_COMMAND,
    NO_JOBS,
    NOT_PERMITTED,
    OK,
    WORKER_STATES,
    WRONG_ROLE,
)
from broker.pilots.model.values import not_negative, optional, text
from broker.pilots.routes.panda.access import NO_IDENTITY, NO_ROLE, OTHER_QUEUE, Identity
from broker.pilots.routes.panda.bodies import BodyRefused, read_fields
from broker.pilots.routes.panda.service import MOST_REPORTS, UNAVAILABLE, PilotService, no_match_message

PREFIX = "/server/panda"
MOST_IDS = 1000
_log = logging.getLogger(__name__)

Fields = Mapping[str, Any]
Method = Callable[[PilotService, Identity, Fields], Any]


def get_job(service: PilotService, who: Identity, fields: Fields) -> dict[str, Any]:
    """Reserve a job, or several if ``nJobs`` is given."""
    try:
        request = job_request.read_form(fields)
    except job_request.RequestRefused as refused:
        return _refusal(INVALID, str(refused))
    if not who.may_speak_for(request.queue):
        return _refusal(NOT_PERMITTED, OTHER_QUEUE)
    if not who.has_role:
        if request.label not in ("user",):
            return _refusal(WRONG_ROLE, NO_ROLE)
        request = service.own_jobs_only(request, who)
    try:
        acquired = pilot_jobs.acquire(service.database, service.views, request, service.generator())
    except UNAVAILABLE as error:
        _log.warning("no answer for a pilot", extra={"fields": {"queue": request.queue, "error": str(error)}})
        return _refusal(DATABASE_ERROR, "database error")
    if not acquired.jobs:
        return _refusal(NO_JOBS, no_match_message(acquired.missed) or "no jobs in PanDA")
    return {"StatusCode": OK, "jobs": list(acquired.jobs)} if request.in_bulk else acquired.jobs[0]


def update_job(service: PilotService, who: Identity, fields: Fields) -> dict[str, Any]:
    """Report the state of a job.

    Raises:
        DatabaseUnavailable: the pilot takes any JSON for success; without JSON it reports again.
    """
    if not who.has_role:
        return _refusal(WRONG_ROLE, NO_ROLE)
    try:
        report = job_report.read_form(fields)
    except job_report.ReportRefused as refused:
        return _refusal(INVALID, str(refused))
    if not job_report.is_known(report.state):
        return {"StatusCode": OK, "command": NO_COMMAND}
    change = pilot_jobs.update(service.database, report, who.may_speak_for)
    if change.reason == "other_queue":
        return _refusal(NOT_PERMITTED, OTHER_QUEUE)
    return {"StatusCode": OK, "command": pilot_jobs.legacy_command(change)}


def update_jobs_in_bulk(service: PilotService, who: Identity, fields: Fields) -> list[Any]:
    """Report the states of several jobs, a JSON list in ``jobList``; returns whether it was understood, and answers.

    Raises:
        DatabaseUnavailable: those before were applied.
    """
    jobs = _listed(fields.get("jobList"))
    if jobs is None:
        return [False, "jobList is no list of objects"]
    if len(jobs) > MOST_REPORTS:
        return [False, f"jobList has more than {MOST_REPORTS} reports; send them in parts"]
    return [True, [update_job(service, who, one) for one in jobs]]


def update_worker_pilot_status(service: PilotService, who: Identity, fields: Fields) -> dict[str, Any]:
    """Report that a pilot started or finished.

    Raises:
        DatabaseUnavailable: there was no answer.
    """
    if not who.has_role:
        return _refusal(WRONG_ROLE, NO_ROLE)
    worker = optional(fields.get("workerID"), not_negative)
    harvester = optional(fields.get("harvesterID"), text(50))
    status = fields.get("status")
    if worker is None or harvester is None or status not in WORKER_STATES:
        return _refusal(INVALID, f"workerID, harvesterID and status ({' or '.join(WORKER_STATES)}) are wanted")
    node = optional(fields.get("node_id") or fields.get("node"), text(80))
    workers.pilot_status(service.database, harvester, worker, status, node)
    return {"StatusCode": OK}


def get_status(service: PilotService, who: Identity, fields: Fields) -> dict[str, Any]:
    """Get the status and attempt number of jobs; ``ids`` is comma-separated.

    Raises:
        DatabaseUnavailable: there was no answer.
    """
    written = [part for part in str(fields.get("ids", "")).split(",") if part.strip()][:MOST_IDS]
    job_ids = [optional(part.strip(), not_negative) for part in written]
    if not job_ids:
        return _refusal(INVALID, "ids is missing")
    known = pilot_jobs.statuses(service.database, [job_id for job_id in job_ids if job_id is not None])
    states = [known.get(job_id, ("notfound", 0)) if job_id is not None else ("notfound", 0) for job_id in job_ids]
    return {
        "StatusCode": OK,
        "status": ",".join(status for status, _ in states),
        "attemptNr": ",".join(str(attempt) for _, attempt in states),
    }


_REPORT = ("jobId!", "state!", "attemptNr", "siteName", "xml", "metaData", "stdout", "pilotLog")

METHODS: Mapping[str, tuple[Method, tuple[str, ...]]] = {
    "getJob": (get_job, ("siteName!", "prodSourceLabel", "mem", "diskSpace", "node", "computingElement", "nJobs")),
    "updateJob": (
        update_job,
        (*_REPORT, *(one.form for one in job_report.FIELDS)),
    ),
    "updateJobsInBulk": (update_jobs_in_bulk, ("jobList!", "harvester_id")),
    "updateWorkerPilotStatus": (update_worker_pilot_status, ("workerID!", "harvesterID!", "status!", "node_id")),
    "getStatus": (get_status, ("ids!",)),
}
"""Each method, and the fields of its form; a trailing ``!`` marks a required one."""


def router(service: PilotService) -> APIRouter:
    """The routes of the older methods."""
    routes = APIRouter(prefix=PREFIX, tags=["dispatcher"])
    for name, (method, fields) in METHODS.items():
        routes.add_api_route(
            f"/{name}",
            _endpoint(service, method),
            methods=["POST"],
            summary=(method.__doc__ or "").splitlines()[0],
            operation_id=name,
            openapi_extra={"requestBody": _form(fields)},
            response_class=JSONResponse,
        )
    for methods in (["GET", "PUT", "DELETE", "PATCH"], ["POST"]):
        routes.add_api_route("/{method:path}", _forbidden, methods=methods, include_in_schema=False)
    return routes


def _endpoint(service: PilotService, method: Method) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        who = await service.identify(request)
        if who is None:
            return answer(request, _refusal(NOT_PERMITTED, NO_IDENTITY))
        try:
            fields = await read_fields(request)
        except BodyRefused as refused:
            return PlainTextResponse(f"ERROR : {refused}", refused.status)
        try:
            content = await service.lane.run(lambda: method(service, who, fields))
        except UNAVAILABLE as error:
            _log.warning("a report was not kept", extra={"fields": {"error": str(error)}})
            return PlainTextResponse("ERROR : database error, report it again", 503)
        return answer(request, content)

    return endpoint


def answer(request: Request, content: Any) -> Response:
    """JSON for clients that accept it; else URL-encoded text."""
    if "application/json" in request.headers.get("accept", "") or not isinstance(content, dict):
        return JSONResponse(content)
    return PlainTextResponse(urlencode({key: "NULL" if value is None else value for key, value in content.items()}))


async def _forbidden(method: str) -> Response:
    return PlainTextResponse(f"ERROR : method {method[:80]} is forbidden", 403)


def _refusal(code: int, what: str) -> dict[str, Any]:
    return {"StatusCode": code, "errorDialog": what}


def _listed(value: Any) -> list[dict[str, Any]] | None:
    try:
        content = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, list) and all(isinstance(item, dict) for item in content) else None


def _form(fields: tuple[str, ...]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": [name.rstrip("!") for name in fields if name.endswith("!")],
        "properties": {name.rstrip("!"): {"type": "string"} for name in fields},
    }
    return {"content": {"application/x-www-form-urlencoded": {"schema": schema}}, "required": True}
