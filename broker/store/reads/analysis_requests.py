"""Reads of what the analysis brokerage needs of a cycle's tasks besides their input: requests, class, earlier jobs.

:func:`with_requested_places` adds the cloud and site named in the parameters of tasks, for brokerages that use them:
``cloud`` counts where the task has none, ``PandaSite`` in any case.

Source: PanDA analysis brokerage, candidates, task class and failure counts; PanDA JEDI, GenJobBroker.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import sqlalchemy as sa

from broker.domain.analysis import AnalysisWork
from broker.domain.arrays import Ints, floats, texts
from broker.domain.estimates import is_event_service
from broker.domain.instants import naive
from broker.domain.split_rule import SplitRule, parse_split_rule
from broker.domain.work import DroppedRow, WorkTable
from broker.snapshot.raw import BadValueError, json_object, number, text
from broker.store.connection.panda_columns import PandaColumns
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.task_reads import PARAMETER_ROWS
from broker.work.assemble import CycleWork

#: How long an evaluation of a task is valid.
EVALUATION_VALID = timedelta(minutes=15)

_COUNT_ENDED_JOBS = """
SELECT jeditaskid, computingsite,
       count(*) FILTER (WHERE jobstatus = 'finished'),
       count(*) FILTER (WHERE jobstatus = 'failed' AND piloterrorcode <> 0),
       count(*) FILTER (WHERE jobstatus = 'closed' AND jobsubstatus = 'toreassign' AND relocationflag <> 3)
FROM {source} AS j
WHERE jeditaskid = ANY(:ids) AND computingsite IS NOT NULL AND modificationtime > :since
GROUP BY 1, 2 ORDER BY 1, 2
"""
FAILURE_COLUMNS = (
    "jeditaskid", "computingsite", "jobstatus", "jobsubstatus", "piloterrorcode", "relocationflag", "modificationtime",
)  # fmt: skip


USES_ROWS = PandaColumns("jedi_tasks", ("jeditaskid", "transuses"))
CLASS_ROWS = PandaColumns("task_evaluation", ("jeditaskid", "metric", "value_json", "timestamp"))
ENDED_ROWS = PandaColumns("jobsarchived4", FAILURE_COLUMNS)


def load_analysis_work(
    connection: sa.Connection, catalogue: TableCatalogue, chunks: WorkTable, now: datetime, done_job_hours: float
) -> tuple[AnalysisWork, tuple[DroppedRow, ...]]:
    """The columns of analysis in addition to those of the chunks, and the dropped rows.

    Args:
        connection: connection of the caller's read-only transaction.
        catalogue: the tables of the database.
        chunks: chunks of the cycle.
        now: the instant of the cycle.
        done_job_hours: how many hours back failed and closed jobs count (TW_DONE_JOB_STAT).
    """
    dropped_rows: list[DroppedRow] = []
    tasks = sorted(set(chunks.jeditaskid.tolist()))
    analysis_request = _analysis_request(connection, catalogue, tasks, dropped_rows)
    classes = _classes(connection, catalogue, tasks, now, dropped_rows)
    failures = _failures(connection, catalogue, tasks, now - timedelta(hours=done_job_hours))
    owner = chunks.jeditaskid.tolist()
    rules = {text: parse_split_rule(text) for text in set(chunks.splitrule.tolist())}
    of_chunk = [rules[text] for text in chunks.splitrule.tolist()]
    none: Mapping[str, str | None] = {}
    work = AnalysisWork(
        transuses=texts(analysis_request.get(task, none).get("transuses") for task in owner),
        included_sites=texts(analysis_request.get(task, none).get("includedSite") for task in owner),
        excluded_sites=texts(analysis_request.get(task, none).get("excludedSite") for task in owner),
        avoid_vp=_present(of_chunk, "AV"),
        allow_incomplete=_present(of_chunk, "AI"),
        gb_per_job=np.array([max(rule.value("NG", 0), 0) for rule in of_chunk], dtype=np.float64),
        task_class=floats(classes.get(task) for task in owner),
        bad_jobs=texts(failures.get(task) for task in owner),
        jobs_estimate=np.ones(len(owner)),
        sites_per_job=_sites_per_job(of_chunk, chunks),
    )
    return work, tuple(dropped_rows)


def _sites_per_job(rules: list[SplitRule], chunks: WorkTable) -> Ints:
    """The number of queues at which each job is to run: NS for event-service tasks, else 1."""
    cloned = np.array([max(rule.value("NS", 1), 1) for rule in rules], dtype=np.int64)
    return np.where(is_event_service(chunks.eventservice), cloned, 1).astype(np.int64)


def _present(rules: list[SplitRule], token: str) -> Any:
    return np.array([rule.has(token) for rule in rules], dtype=np.bool_)


def _analysis_request(
    connection: sa.Connection, catalogue: TableCatalogue, tasks: list[int], dropped_rows: list[DroppedRow]
) -> dict[int, dict[str, str | None]]:
    """``transuses`` and the lists of queues that the user included and excluded, by task."""
    source = catalogue.needed(USES_ROWS)
    parameters = catalogue.needed(PARAMETER_ROWS)
    query = (
        f"SELECT t.jeditaskid, t.transuses, p.taskparams FROM {source} AS t "  # noqa: S608 - names of columns
        f"LEFT JOIN {parameters} AS p ON p.jeditaskid = t.jeditaskid WHERE t.jeditaskid = ANY(:ids)"
    )
    requests: dict[int, dict[str, str | None]] = {}
    for task, uses, document in connection.execute(sa.text(query), {"ids": tasks}):
        requests[task] = {"transuses": uses}
        if document is None or ("includedSite" not in document and "excludedSite" not in document):
            continue
        try:
            parsed = json_object(document, "taskparams")
            requests[task] |= {key: _listed(parsed.get(key), key) for key in ("includedSite", "excludedSite")}
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("jedi_taskparams", str(task), bad.code, str(bad)))
    return requests


def _listed(value: Any, key: str) -> str | None:
    """A list of names, or a text with commas, as one text; None if it is empty."""
    if value is None or isinstance(value, str):
        return value or None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadValueError("wrong_type", key, type(value).__name__)
    return ",".join(value) or None


def _classes(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    tasks: list[int],
    now: datetime,
    dropped_rows: list[DroppedRow],
) -> dict[int, float]:
    source = catalogue.needed(CLASS_ROWS)
    query = (
        f"SELECT jeditaskid, value_json FROM {source} AS e "  # noqa: S608 - names of columns
        "WHERE metric = 'analy_task_eval' AND jeditaskid = ANY(:ids) AND timestamp >= :since"
    )
    since = naive(now - EVALUATION_VALID)
    classes: dict[int, float] = {}
    for task, document in connection.execute(sa.text(query), {"ids": tasks, "since": since}):
        try:
            value = number(json_object(document, "value_json").get("class"), "class")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("task_evaluation", str(task), bad.code, str(bad)))
            continue
        if not math.isnan(value):
            classes[task] = value
    return classes


def _failures(
    connection: sa.Connection, catalogue: TableCatalogue, tasks: list[int], since: datetime
) -> dict[int, str]:
    query = sa.text(_COUNT_ENDED_JOBS.format(source=catalogue.needed(ENDED_ROWS)))
    values = {"ids": tasks, "since": naive(since)}
    failures: dict[int, dict[str, list[int]]] = {}
    for task, queue, finished, failed, closed in connection.execute(query, values):
        if finished or failed or closed:
            failures.setdefault(task, {})[queue] = [finished, failed, closed]
    return {task: json.dumps(queues, sort_keys=True) for task, queues in failures.items()}


CLOUD, PANDA_SITE = "cloud", "PandaSite"


def with_requested_places(connection: sa.Connection, catalogue: TableCatalogue, work: CycleWork) -> CycleWork:
    """The work with the cloud and the site that the parameters of each task name.

    Args:
        connection: connection of the caller's read-only transaction.
        catalogue: the tables of the database.
        work: the work of a cycle.
    """
    chunks = work.work.chunks
    tasks = chunks.jeditaskid.tolist()
    dropped_rows: list[DroppedRow] = []
    requests = _read(connection, catalogue, sorted(set(tasks)), dropped_rows)
    none: Mapping[str, str | None] = {}
    # an empty text is a cloud of that name, not a missing one
    clouds = [
        cloud or requests.get(task, none).get(CLOUD, cloud)
        for task, cloud in zip(tasks, chunks.cloud.tolist(), strict=True)
    ]
    sites = [requests.get(task, none).get(PANDA_SITE) or None for task in tasks]
    placed = dataclasses.replace(chunks, cloud=texts(clouds), panda_site=texts(sites))
    whole = dataclasses.replace(work.work, chunks=placed, dropped_rows=(*work.work.dropped_rows, *dropped_rows))
    return dataclasses.replace(work, work=whole)


def _read(
    connection: sa.Connection, catalogue: TableCatalogue, tasks: Iterable[int], dropped_rows: list[DroppedRow]
) -> dict[int, dict[str, str | None]]:
    source = catalogue.needed(PARAMETER_ROWS)
    query = f"SELECT jeditaskid, taskparams FROM {source} AS p WHERE jeditaskid = ANY(:ids)"  # noqa: S608 - a name
    requests: dict[int, dict[str, str | None]] = {}
    for task, document in connection.execute(sa.text(query), {"ids": list(tasks)}):
        if document is None or not (CLOUD in document or PANDA_SITE in document):
            continue
        try:
            parameters: dict[str, Any] = json_object(document, "taskparams")
            requests[task] = {key: text(parameters[key], key) for key in (CLOUD, PANDA_SITE) if key in parameters}
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("jedi_taskparams", str(task), bad.code, str(bad)))
    return requests
