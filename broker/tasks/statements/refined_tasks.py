"""A refined task as rows: task, parameters, template, datasets and files, all in the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.decisions import RETRY_AFTER
from broker.store.connection.tables import Names
from broker.store.writes.default_share import default_share
from broker.tasks.model.task import InputPlan, OutputPlan, RefinedTask

REGISTERED, ASSIGNING = "registered", "assigning"
_INSERT_TASK = "INSERT INTO {panda}.jedi_tasks (%s) VALUES (%s)"
_INSERT_PARAMETERS = "INSERT INTO {panda}.jedi_taskparams (jeditaskid, taskparams) VALUES (:task, :text)"
_INSERT_TEMPLATE = """
INSERT INTO broker.task_templates (jeditaskid, jobparamstemplate, sn_offset, seed_offset, source_url)
VALUES (:task, :template, :sn_offset, :seed_offset, :source_url)"""
_INSERT_DATASET = """
INSERT INTO {panda}.jedi_datasets (jeditaskid, datasetid, datasetname, containername, type, status, state, masterid, vo,
    streamname, attributes, storagetoken, destination, nfiles, nfilestobeused, nfilesused, nfilesfinished, nfilesfailed,
    nfilesonhold, nevents, neventstobeused, neventsused, creationtime, modificationtime)
VALUES (:task, nextval('{panda}.jedi_datasets_id_seq'), :name, :container, :type, :status, :state, :master, :vo,
    :stream, :attributes, :token, :destination, 0, 0, 0, 0, 0, 0, 0, 0, 0, :now, :now)
RETURNING datasetid"""
_INSERT_OUTPUT = """
INSERT INTO broker.task_outputs (jeditaskid, position, datasetid, type, lfn, scope, serialnr)
VALUES (:task, :position, :dataset, :type, :lfn, :scope, :serial)"""
_INSERT_STATUS = """
INSERT INTO {panda}.tasks_statuslog (jeditaskid, modificationtime, status, attemptnr, reason, modificationhost)
VALUES (:task, :now, :status, 1, :reason, 'gridbroker')"""
_SCOPE_WIDTH = 30


@dataclass(frozen=True)
class DatasetRow:
    """An input dataset that was made: its number, and the plan that it came from, with its own name."""

    datasetid: int
    plan: InputPlan
    container: str | None = None


def insert_task(
    connection: sa.Connection, names: Names, task_id: int, task: RefinedTask, parent: int | None, now: datetime
) -> None:
    """Insert the task as registered: nothing is brokered before :func:`broker.tasks.statements.chains.start`."""
    columns = {name: value for name, value in task.columns.items() if value is not None and name != "status"}
    columns.setdefault("gshare", default_share(connection, names))
    columns["taskname"] = of_task(str(columns["taskname"]), task_id)
    columns |= {"jeditaskid": task_id, "status": REGISTERED, "parent_tid": parent or task_id, "attemptnr": 1}
    columns.setdefault("reqid", task_id if task_id < 2**31 else None)
    columns |= dict.fromkeys(("creationdate", "modificationtime", "statechangetime"), now)
    listed = ", ".join(columns), ", ".join(f":{name}" for name in columns)
    connection.execute(sa.text(names.sql(_INSERT_TASK) % listed), columns)
    parameters = {"task": task_id, "text": json.dumps(_stored(task.parameters))}
    connection.execute(sa.text(names.sql(_INSERT_PARAMETERS)), parameters)
    first = task.outputs[0].offset if task.outputs else 0
    template = {"task": task_id, "template": of_task(task.template, task_id), "sn_offset": first}
    template |= {"seed_offset": task.seed_offset, "source_url": task.parameters.get("sourceURL")}
    connection.execute(sa.text(_INSERT_TEMPLATE), template)
    reason = {"task": task_id, "now": now, "status": REGISTERED, "reason": "submitted"}
    connection.execute(sa.text(names.sql(_INSERT_STATUS)), reason)


def _stored(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters without lists of files: those are stored as rows."""
    items = parameters.get("jobParameters")
    if not isinstance(items, list):
        return dict(parameters)
    stripped = [{key: value for key, value in item.items() if key != "files"} for item in items]
    return {**parameters, "jobParameters": stripped}


def of_task(text: str, task_id: int) -> str:
    """The text with the number of the task in it."""
    return text.replace("${JEDITASKID}", str(task_id)).replace("$JEDITASKID", str(task_id))


def insert_inputs(
    connection: sa.Connection,
    names: Names,
    task_id: int,
    vo: str,
    inputs: Iterable[tuple[InputPlan, str | None]],
    now: datetime,
) -> list[DatasetRow]:
    """Insert the input datasets, each with the container that it was named by; masters come first."""
    rows: list[DatasetRow] = []
    master: int | None = None
    for plan, container in inputs:
        values = {
            "task": task_id, "name": plan.name, "container": container, "now": now, "vo": vo, "stream": plan.stream,
            "type": "pseudo_input" if plan.pseudo else "input", "status": "toupdate", "state": "open",
            "master": None if plan.is_master else master, "attributes": ",".join(plan.attributes) or None,
            "token": None, "destination": None,
        }  # fmt: skip
        datasetid = int(connection.execute(sa.text(names.sql(_INSERT_DATASET)), values).scalar_one())
        master = datasetid if master is None else master
        rows.append(DatasetRow(datasetid, plan, container))
    return rows


def insert_outputs(connection: sa.Connection, names: Names, task_id: int, task: RefinedTask, now: datetime) -> None:
    """Insert the datasets that the jobs write into, and the names of their files."""
    for position, output_plan in enumerate(task.outputs):
        named = replace(output_plan, name=of_task(output_plan.name, task_id))
        values = {
            "task": task_id, "name": named.name, "now": now, "vo": task.columns["vo"], "stream": named.stream,
            "container": None if named.container is None else of_task(named.container, task_id),
            "type": named.type, "status": "defined", "state": "open", "master": None, "token": named.token,
            "attributes": ",".join(named.attributes) or None, "destination": named.destination,
        }  # fmt: skip
        dataset = int(connection.execute(sa.text(names.sql(_INSERT_DATASET)), values).scalar_one())
        output: dict[str, Any] = {"task": task_id, "position": position, "dataset": dataset, "type": output_plan.type}
        output |= {"lfn": of_task(output_plan.filename, task_id), "serial": 1 + output_plan.offset}
        connection.execute(sa.text(_INSERT_OUTPUT), {**output, "scope": output_scope(named, task)})


def output_scope(output: OutputPlan, task: RefinedTask) -> str:
    """The scope of an output: that of its dataset's name, of its user, or the VO.

    >>> output_scope(OutputPlan("log", "user.ada:x", None, "LOG0", "f"), RefinedTask({}, {}, (), (), "", ()))
    'user.ada'
    """
    scope, colon, _ = output.name.partition(":")
    if colon:
        return scope[:_SCOPE_WIDTH]
    fields = output.name.split(".")
    if fields[0] in ("user", "group") and len(fields) > 1:
        return ".".join(fields[:2])[:_SCOPE_WIDTH]
    return fields[0][:_SCOPE_WIDTH]


def start_status(columns: Mapping[str, Any], now: datetime) -> tuple[str, datetime]:
    """The status in which the work of a task begins, and the time of change that makes it due at once."""
    status = str(columns["status"])
    return status, now - 2 * RETRY_AFTER if status == ASSIGNING else now
