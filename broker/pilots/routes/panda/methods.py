"""The methods of PanDA's API v1 for pilots and Harvester: success, message and data, whatever happens.

Source: PanDA server, API v1 of pilots and Harvester.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.pilots.answers import jobs, pilot_demand as commands, workers as pilot_workers
from broker.pilots.model import job_report, job_request
from broker.pilots.model.codes import DATABASE_ERROR, INVALID, OK, WORKER_STATES
from broker.pilots.model.values import not_negative, optional, text
from broker.pilots.model.worker_reports import MOST_WORKERS, WorkerRefused, read_gpus, read_node
from broker.pilots.routes.panda import arguments as accepted
from broker.pilots.routes.panda.access import NO_ROLE, OTHER_QUEUE, Identity
from broker.pilots.routes.panda.arguments import Arguments, fault_of
from broker.pilots.routes.panda.service import MOST_REPORTS, UNAVAILABLE, PilotService, no_match_message

Values = Mapping[str, Any]
MOST_IDS = 1000
MOST_COMMANDS = 1000
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Call:
    """One call.

    Attributes:
        service: service behind the routes.
        who: identity of the caller.
        host: host that the call comes from.
        values: its arguments, checked.
    """

    service: PilotService
    who: Identity
    host: str | None
    values: Values


@dataclass(frozen=True)
class Method:
    """A method: what it does, the arguments it accepts, and whether it needs the role of pilots."""

    run: Callable[[Call], dict[str, Any]]
    arguments: Arguments
    needs_role: bool = True


def answer(success: bool, message: str = "", data: Any = None) -> dict[str, Any]:
    """The form of all answers."""
    return {"success": success, "message": message, "data": data}


def run(method: Method, call: Call) -> dict[str, Any]:
    """Check a call and carry it out."""
    fault = fault_of(method.arguments, call.values)
    if fault:
        return answer(False, f"Argument error: {fault}")
    if method.needs_role and not call.who.has_role:
        return answer(False, "production or pilot role required")
    try:
        return method.run(call)
    except WorkerRefused as refused:
        return answer(False, f"Argument error: {refused}")
    except UNAVAILABLE as error:
        _log.warning("a call of a pilot failed", extra={"fields": {"error": str(error)}})
        return answer(False, "Database error")


def acquire_jobs(call: Call) -> dict[str, Any]:
    """Reserve jobs for a pilot."""
    request = job_request.read_arguments(call.values)
    if not call.who.may_speak_for(request.queue):
        return answer(False, OTHER_QUEUE)
    if not call.who.has_role:
        if request.label != "user":
            return answer(False, NO_ROLE)
        request = call.service.own_jobs_only(request, call.who)
    architecture = call.values.get("target_architecture")
    if architecture and not _is_object(architecture):
        return answer(False, "target_architecture must be a JSON object")
    acquired = jobs.acquire(call.service.database, call.service.views, request, call.service.generator())
    if not acquired.jobs:
        return answer(False, no_match_message(acquired.missed) or "No jobs in PanDA")
    return answer(True, data={"StatusCode": OK, "jobs": list(acquired.jobs)})


def update_job(call: Call) -> dict[str, Any]:
    """Report the state of a job."""
    report = job_report.read_arguments(call.values)
    if not job_report.is_known(report.state):
        return answer(False, f"Invalid job status: {report.state}", {"StatusCode": INVALID})
    try:
        change = jobs.update(call.service.database, report, call.who.may_speak_for)
    except UNAVAILABLE as error:
        _log.warning("a report was not kept", extra={"fields": {"pandaid": report.pandaid, "error": str(error)}})
        return answer(True, "Database error", {"StatusCode": DATABASE_ERROR})
    if change.reason == "other_queue":
        return answer(False, OTHER_QUEUE)
    return answer(True, data={"StatusCode": OK, "command": change.command})


def update_jobs_bulk(call: Call) -> dict[str, Any]:
    """Report the states of several jobs."""
    method = METHODS["pilot/update_job"]
    answers = []
    if len(call.values["job_list"]) > MOST_REPORTS:
        return answer(False, f"Argument error: 'job_list' has more than {MOST_REPORTS} reports", [])
    for report in call.values["job_list"]:
        if not isinstance(report, dict):
            return answer(False, "failed with TypeError: a job is an object", [])
        answers.append(run(method, Call(call.service, call.who, call.host, report)))
    return answer(True, data=answers)


def update_worker_status(call: Call) -> dict[str, Any]:
    """Report that a pilot started or finished."""
    status = call.values["status"]
    if status not in WORKER_STATES:
        return answer(False, f"Invalid worker state. The worker state has to be in {WORKER_STATES}")
    worker = optional(call.values["worker_id"], not_negative)
    if worker is None:
        return answer(False, "Argument error: 'worker_id' is to be a number")
    harvester, node = text(50)(call.values["harvester_id"]), optional(call.values.get("node_id"), text(80))
    pilot_workers.pilot_status(call.service.database, harvester, worker, status, node)
    return answer(True)


def get_job_status(call: Call) -> dict[str, Any]:
    """Get the status and attempt number of jobs."""
    job_ids = [optional(value, not_negative) for value in call.values["job_ids"]]
    if not job_ids or None in job_ids or len(job_ids) > MOST_IDS:
        return answer(False, f"Argument error: 'job_ids' is to be 1 to {MOST_IDS} numbers")
    known = jobs.statuses(call.service.database, job_ids)
    rows = [(job_id, *known.get(job_id, ("not found", 0))) for job_id in job_ids]
    return answer(True, data=[dict(zip(("job_id", "status", "attempt_number"), row, strict=True)) for row in rows])


def update_worker_node(call: Call) -> dict[str, Any]:
    """Report the hardware of a node."""
    pilot_workers.node(call.service.database, read_node(call.values))
    return answer(True)


def update_worker_node_gpu(call: Call) -> dict[str, Any]:
    """Report the GPUs of a node."""
    pilot_workers.gpus(call.service.database, read_gpus(call.values))
    return answer(True)


def report_worker_statistics(call: Call) -> dict[str, Any]:
    """Report the number of workers at a queue, by label, resource type and status."""
    statistics = call.values["statistics"]
    if isinstance(statistics, str):
        try:
            statistics = json.loads(statistics)
        except (ValueError, RecursionError):
            return answer(False, "Argument error: 'statistics' is no JSON")
    queue = call.values["panda_queue"]
    if not call.who.may_speak_for(queue):
        return answer(False, OTHER_QUEUE)
    fault = pilot_workers.worker_statistics(call.service.database, call.values["harvester_id"], queue, statistics)
    return answer(not fault, fault and f"Argument error: {fault}")


def update_workers(call: Call) -> dict[str, Any]:
    """Report the workers of a Harvester instance, with what it knows of each."""
    workers = call.values["workers"]
    if len(workers) > MOST_WORKERS:
        return answer(False, f"Argument error: more than {MOST_WORKERS} workers")
    harvester = text(50)(call.values["harvester_id"])
    return answer(True, data=pilot_workers.update_workers(call.service.database, harvester, workers))


def heartbeat(call: Call) -> dict[str, Any]:
    """Report that a Harvester instance is alive."""
    harvester = text(50)(call.values["harvester_id"])
    pilot_workers.heartbeat(call.service.database, harvester, call.who.name, call.host, call.values.get("data") or {})
    return answer(True)


def acquire_commands(call: Call) -> dict[str, Any]:
    """Take the oldest untaken commands of a Harvester instance."""
    most = call.values["n_commands"]
    if not 0 < most <= MOST_COMMANDS:
        return answer(False, f"Argument error: 'n_commands' is to be 1 to {MOST_COMMANDS}")
    harvester = text(50)(call.values["harvester_id"])
    return answer(True, data=commands.take_commands(call.service.database, harvester, most))


def acknowledge_commands(call: Call) -> dict[str, Any]:
    """Acknowledge commands that were carried out."""
    command_ids = [optional(value, not_negative) for value in call.values["command_ids"]]
    if None in command_ids or len(command_ids) > MOST_COMMANDS:
        return answer(False, f"Argument error: 'command_ids' is to be at most {MOST_COMMANDS} numbers")
    commands.acknowledge(call.service.database, command_ids)
    return answer(True)


METHODS: Mapping[str, Method] = {
    "pilot/acquire_jobs": Method(acquire_jobs, accepted.ACQUIRE_JOBS, needs_role=False),
    "pilot/update_job": Method(update_job, accepted.UPDATE_JOB),
    "pilot/update_jobs_bulk": Method(update_jobs_bulk, accepted.UPDATE_JOBS_BULK),
    "pilot/update_worker_status": Method(update_worker_status, accepted.UPDATE_WORKER_STATUS),
    "pilot/get_job_status": Method(get_job_status, {"job_ids!": "list", "timeout": "any"}, needs_role=False),
    "pilot/update_worker_node": Method(update_worker_node, accepted.UPDATE_WORKER_NODE),
    "pilot/update_worker_node_gpu": Method(update_worker_node_gpu, accepted.UPDATE_WORKER_NODE_GPU),
    "harvester/report_worker_statistics": Method(report_worker_statistics, accepted.REPORT_WORKER_STATISTICS),
    "harvester/update_workers": Method(update_workers, accepted.UPDATE_WORKERS),
    "harvester/heartbeat": Method(heartbeat, accepted.HEARTBEAT),
    "harvester/acquire_commands": Method(acquire_commands, accepted.ACQUIRE_COMMANDS),
    "harvester/acknowledge_commands": Method(acknowledge_commands, accepted.ACKNOWLEDGE_COMMANDS),
}
READING = ("pilot/get_job_status",)
"""Methods that are called by GET."""


def _is_object(value: Any) -> bool:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return False
    return isinstance(value, dict)
