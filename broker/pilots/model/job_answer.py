"""A job as its pilot reads it. Source: PanDA server, protocol of the job dispatcher (appendJob)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.pilots.model.codes import OK

_PLACEHOLDER = re.compile(r"\$\{(IN|OUTPUT(\d+)|SN|PANDAID)\}")

#: Key of the answer and column of the job, copied as they are.
_COPIED = {
    "PandaID": "pandaid",
    "prodSourceLabel": "prodsourcelabel",
    "swRelease": "atlasrelease",
    "homepackage": "homepackage",
    "transformation": "transformation",
    "jobName": "jobname",
    "jobDefinitionID": "jobdefinitionid",
    "cloud": "cloud",
    "jobsetID": "jobsetid",
    "reqID": "reqid",
    "nucleus": "nucleus",
    "maxWalltime": "maxwalltime",
    "resource_type": "resource_type",
    "processingType": "processingtype",
    "transferType": "transfertype",
    "sourceSite": "sourcesite",
    "currentPriority": "currentpriority",
    "prodUserID": "produserid",
    "maxCpuCount": "maxcpucount",
    "minRamCount": "minramcount",
    "maxDiskCount": "maxdiskcount",
    "cmtConfig": "cmtconfig",
    "destinationSE": "destinationse",
}


@dataclass(frozen=True)
class JobFile:
    """A file of a job; texts are empty where there is nothing.

    Attributes:
        lfn: its name.
        type: input, pseudo_input, output or log.
        dataset: dataset that it belongs to.
        scope: scope of its name.
        guid: GUID of an input.
        fsize: bytes; None when not known.
        checksum: with the letters of its kind.
        endpoint: endpoint that it is read from, or written to.
        destination: block that output is registered in.
        token: token of the storage that input comes from.
        may_be_missing: whether it is output that a job need not write.
    """

    lfn: str
    type: str
    dataset: str = ""
    scope: str = ""
    guid: str = ""
    fsize: int | None = None
    checksum: str = ""
    endpoint: str = ""
    destination: str = ""
    token: str = ""
    may_be_missing: bool = False


def job_answer(job: Mapping[str, Any], files: Sequence[JobFile], parameters: str) -> dict[str, Any]:
    """Build the object for the pilot.

    Args:
        job: columns of the job.
        files: files of the job, in the order of their records.
        parameters: parameters of the payload, with placeholders.
    """
    copied = {key: job.get(column) for key, column in _COPIED.items()}
    special = (job.get("specialhandling") or "").split(",")
    answer: dict[str, Any] = {
        "StatusCode": OK,
        **{key: "NULL" if value is None else value for key, value in copied.items()},
        # without a task a pilot asks for jobs of the task "None" next
        "taskID": job["jeditaskid"] if job.get("lockedby") == "jedi" else job.get("taskid") or 0,
        "attemptNr": job.get("attemptnr") or 0,
        "coreCount": job.get("corecount") or 1,
        "jobPars": filled(parameters, int(job["pandaid"]), files),
        **_inputs([file for file in files if file.type == "input"]),
        **_outputs([file for file in files if file.type in ("output", "log")]),
    }
    if answer["maxWalltime"] == "NULL":
        del answer["maxWalltime"]
    if "debug" in special:
        answer["debug"] = "True"
    if job.get("container_name"):
        answer["container_name"] = job["container_name"]
    missing = ",".join(file.lfn for file in files if file.may_be_missing and file.type in ("output", "log"))
    return answer | ({"allowNoOutput": missing} if missing else {})


def filled(parameters: str, pandaid: int, files: Sequence[JobFile]) -> str:
    """Parameters with the names of the files, and the number of the job, in place of their placeholders."""
    outputs = [file.lfn for file in files if file.type == "output"]

    def value(match: re.Match[str]) -> str:
        if match[2] is not None:
            number = int(match[2])
            return outputs[number] if number < len(outputs) else match[0]
        if match[1] == "IN":
            return ",".join(dict.fromkeys(file.lfn for file in files if file.type == "input"))
        return str(pandaid)

    return _PLACEHOLDER.sub(value, parameters)


def _inputs(files: Sequence[JobFile]) -> dict[str, str]:
    """The lists of the input: a file that is read in several parts appears in them once."""
    once = list({file.lfn: file for file in files}.values())
    return {
        "inFiles": _listed([file.lfn for file in once]),
        "GUID": _listed([file.guid for file in once]),
        "fsize": _listed(["" if file.fsize is None else str(file.fsize) for file in once]),
        "checksum": _listed([file.checksum for file in once]),
        "scopeIn": _listed([file.scope for file in once]),
        "realDatasetsIn": _listed([file.dataset for file in once]),
        "prodDBlocks": _listed([file.dataset for file in once]),
        "ddmEndPointIn": _listed([file.endpoint for file in once]),
        "prodDBlockToken": _listed([file.token for file in once]),
        "dispatchDblock": _listed(["" for _ in once]),
        "dispatchDBlockToken": _listed([file.token for file in once]),
    }


def _outputs(files: Sequence[JobFile]) -> dict[str, str]:
    """The lists of output and log; the scopes are those of the output only."""
    log = next((file for file in files if file.type == "log"), None)
    return {
        "outFiles": _listed([file.lfn for file in files]),
        "realDatasets": _listed([file.dataset for file in files]),
        "ddmEndPointOut": _listed([file.endpoint for file in files]),
        "destinationDblock": _listed([file.destination or file.dataset for file in files]),
        "destinationDBlockToken": _listed([file.token for file in files]),
        "fileDestinationSE": _listed([file.endpoint for file in files]),
        "scopeOut": _listed([file.scope for file in files if file.type == "output"]),
        "scopeLog": "" if log is None else log.scope,
        "logFile": "" if log is None else log.lfn,
        "logGUID": "" if log is None else log.guid,
    }


def _listed(values: Sequence[str]) -> str:
    """A comma-separated list; empty values appear in it as NULL, so that all lists are equally long."""
    return ",".join(value or "NULL" for value in values)
