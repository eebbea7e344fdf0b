"""The arguments of a job of a refined task: the template of the task with the job's files and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from broker.store.connection.tables import Names
from broker.tasks.model.expansion import JobValues, expand_what_is_there
from broker.tasks.model.placeholders import Template, parse_template
from broker.tasks.statements.job_templates import read_streams, read_template


def job_parameters(connection: sa.Connection, names: Names, job: Mapping[Any, Any]) -> str | None:
    """The arguments of a job; None if its task has no template.

    A job that was refused here would be offered to every pilot again, and keep the jobs behind it from all of them.
    """
    template = read_template(connection, names, job)
    if template is None:
        return None
    values = job_values(job, template, read_streams(connection, names, job))
    return expand_what_is_there(_parsed(template["jobparamstemplate"]), values)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Template:
    return parse_template("jobparamstemplate", text)


def job_values(job: Mapping[Any, Any], template: Mapping[Any, Any], files: Sequence[Mapping[Any, Any]]) -> JobValues:
    """The values of a job, from the rows of its template and files."""
    streams: dict[str, list[str]] = {}
    containers: dict[str, str] = {}
    outputs: dict[str, str] = {}
    for file in files:
        if file["type"] in ("output", "log"):
            outputs[file["stream"]] = file["lfn"]
        else:
            streams.setdefault(file["stream"], []).append(file["lfn"])
            containers[file["stream"]] = file["containername"] or file["datasetname"]
    number = int(template["number"])
    numbers = {
        "SN": number + template["sn_offset"],
        "RNDMSEED": number + template["seed_offset"],
        "ATTEMPTNR": job.get("attemptnr") or 0,
        "PANDAID": job["pandaid"],
        **_events([file for file in files if file["is_master"] and file["type"] in ("input", "pseudo_input")]),
    }
    sequence = streams.get("SEQNUMBER", [])
    if len(sequence) == 1 and sequence[0].isdigit():
        numbers["SEQNUMBER"] = int(sequence[0])
    return JobValues(streams, containers, outputs, numbers, {"SURL": template["source_url"] or ""})


def _events(master: Sequence[Mapping[Any, Any]]) -> dict[str, int]:
    """The first event, the events left out in the first file, and the events of a job; -1 if that is unknown."""
    if not master:
        return {"FIRSTEVENT": 0, "SKIPEVENTS": 0, "MAXEVENTS": -1}
    first = min(master, key=lambda file: (file["firstevent"] or 0, file["startevent"] or 0))
    ranges = [file["startevent"] is not None and file["endevent"] is not None for file in master]
    counts = [
        file["endevent"] - file["startevent"] + 1 if ranged else file["nevents"]
        for file, ranged in zip(master, ranges, strict=True)
    ]
    return {
        "FIRSTEVENT": (first["firstevent"] or 0) + (first["startevent"] or 0),
        "SKIPEVENTS": first["startevent"] or 0,
        "MAXEVENTS": -1 if None in counts else sum(counts),
    }
