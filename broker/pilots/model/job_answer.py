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
        dataset: that it belongs to.
        scope: of its name.
        guid: of an input.
        fsize: bytes; None when not known.
        checksum: with the letters of its kind.
        endpoint: that it is read from, or written to.
        destination: block that output is registered in.
        token: of the storage that input comes from.
        may_be_missing: output that a job need not write.
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
    """The object for the pilot.

    Args:
        job: columns of the job.
        files: of the job, in the order of their records.
        parameters: of the payload, with placeholders.
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
        **_inputs([one for one in files if one.type == "input"]),
        **_outputs([one for one in files if one.type in ("output", "log")]),
    }
    if answer["maxWalltime"] == "NULL":
        del answer["maxWalltime"]
    if "debug" in special:
        answer["debug"] = "True"
    if job.get("container_name"):
        answer["container_name"] = job["container_name"]
    missing = ",".join(one.lfn for one in files if one.may_be_missing and one.type in ("output", "log"))
    return answer | ({"allowNoOutput": missing} if missing else {})


def filled(parameters: str, pandaid: int, files: Sequence[JobFile]) -> str:
    """Parameters with the names of the files, and the number of the job, in place of their placeholders."""
    outputs = [one.lfn for one in files if one.type == "output"]

    def value(match: re.Match[str]) -> str:
        if match[2] is not None:
            number = int(match[2])
            return outputs[number] if number < len(outputs) else match[0]
        if match[1] == "IN":
            return ",".join(dict.fromkeys(one.lfn for one in files if one.type == "input"))
        return str(pandaid)

    return _PLACEHOLDER.sub(value, parameters)


def _inputs(files: Sequence[JobFile]) -> dict[str, str]:
    """The lists of the input: a file that is read in several parts stands in them once."""
    once = list({one.lfn: one for one in files}.values())
    return {
        "inFiles": _listed([one.lfn for one in once]),
        "GUID": _listed([one.guid for one in once]),
        "fsize": _listed(["" if one.fsize is None else str(one.fsize) for one in once]),
        "checksum": _listed([one.checksum for one in once]),
        "scopeIn": _listed([one.scope for one in once]),
        "realDatasetsIn": _listed([one.dataset for one in once]),
        "prodDBlocks": _listed([one.dataset for one in once]),
        "ddmEndPointIn": _listed([one.endpoint for one in once]),
        "prodDBlockToken": _listed([one.token for one in once]),
        "dispatchDblock": _listed(["" for _ in once]),
        "dispatchDBlockToken": _listed([one.token for one in once]),
    }


def _outputs(files: Sequence[JobFile]) -> dict[str, str]:
    """The lists of output and log; the scopes are those of the output only."""
    log = next((one for one in files if one.type == "log"), None)
    return {
        "outFiles": _listed([one.lfn for one in files]),
        "realDatasets": _listed([one.dataset for one in files]),
        "ddmEndPointOut": _listed([one.endpoint for one in files]),
        "destinationDblock": _listed([one.destination or one.dataset for one in files]),
        "destinationDBlockToken": _listed([one.token for one in files]),
        "fileDestinationSE": _listed([one.endpoint for one in files]),
        "scopeOut": _listed([one.scope for one in files if one.type == "output"]),
        "scopeLog": "" if log is None else log.scope,
        "logFile": "" if log is None else log.lfn,
        "logGUID": "" if log is None else log.guid,
    }


def _listed(values: Sequence[str]) -> str:
    """A list between commas; what is empty stands in it as NULL, so that all lists are equally long."""
    return ",".join(value or "NULL" for value in values)
