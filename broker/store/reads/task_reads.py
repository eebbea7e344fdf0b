"""Reading the tasks that wait for a nucleus, their output datasets, and the work of the nuclei, in one transaction.

Source: ATLAS Production Task Brokerage; PanDA production brokerage, which tasks and when, and remaining work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from broker.domain.arrays import Ints, floats, texts
from broker.domain.decisions import RETRY_AFTER
from broker.domain.instants import naive
from broker.domain.split_rule import parse_split_rule
from broker.domain.task_work import AssigningTable, OutputTable, RemainingTable
from broker.domain.work import DroppedRow
from broker.snapshot.raw import BadValueError, json_object
from broker.store.connection.panda_columns import PandaColumns
from broker.store.connection.tables import TableCatalogue

#: Statuses of tasks whose work is still to be done at their nucleus.
WORKING_STATUSES = ("ready", "scouting", "running", "pending")
ASSIGNING = "assigning"
#: Cloud of tasks brokered for the whole grid; this brokerage does not handle other clouds.
CLOUD = "WORLD"
#: HS06 s per event if the task does not specify it.
DEFAULT_EVENT_HS06S = 300
OUTPUT_TYPES = ("output", "log")
BAD_PARAMETERS, UNKNOWN_PARENT, NO_READY_INPUT = "bad_task_parameters", "unknown_parent", "no_ready_input"

ASSIGNING_ROWS = PandaColumns(
    "jedi_tasks",
    (
        "jeditaskid",
        "status",
        "vo",
        "cloud",
        "prodsourcelabel",
        "gshare",
        "workqueue_id",
        "nucleus",
        "currentpriority",
        "taskpriority",
        "iointensity",
        "frozentime",
        "modificationtime",
        "splitrule",
        "parent_tid",
        "cputime",
        "cputimeunit",
    ),
)
COUNTED_ROWS = PandaColumns(
    "jedi_datasets",
    (
        "jeditaskid",
        "datasetid",
        "masterid",
        "type",
        "nfiles",
        "nfilesfinished",
        "nfilesfailed",
        "nevents",
        "neventsused",
        "storagetoken",
        "destination",
    ),
)
PARAMETER_ROWS = PandaColumns("jedi_taskparams", ("jeditaskid", "taskparams"))
#: Remaining HS06 s of a dataset, for events that no job has taken yet; 0 if their number is unknown.
_REMAINING = f"""
    greatest(coalesce(d.nevents, 0) - coalesce(d.neventsused, 0), 0)
    * CASE WHEN t.cputime IS NULL THEN {DEFAULT_EVENT_HS06S}
           WHEN t.cputimeunit LIKE 'mHS06%' THEN t.cputime / 1000.0 ELSE t.cputime END
"""
#: The same without converting CPU times in units of a thousandth.
_AS_STORED = f"""
    greatest(coalesce(d.nevents, 0) - coalesce(d.neventsused, 0), 0) * coalesce(t.cputime, {DEFAULT_EVENT_HS06S})
"""
#: The datasets whose events are counted.
_COUNTED = """
    d.masterid IS NULL AND d.type IN ('input', 'pseudo_input')
    AND d.nfiles - coalesce(d.nfilesfinished, 0) - coalesce(d.nfilesfailed, 0) > 0
"""


@dataclass(frozen=True)
class TaskSelection:
    """The tasks to read.

    Attributes:
        vo: virtual organisation.
        now: the instant of the cycle (aware).
        labels: values of ``prodsourcelabel`` to include or, with ``labels_excluded``, to exclude.
        labels_excluded: whether ``labels`` are excluded; a task without a label is then included.
        task_ids: only these tasks; None for all.
        most: largest number of tasks, the first in order.
        due_only: only tasks that were not tried recently; False if all are tried in each cycle, and for tasks that JEDI
            has just claimed, because the claim is recorded as a try.
    """

    vo: str
    now: datetime
    labels: tuple[str, ...] = ()
    labels_excluded: bool = True
    task_ids: tuple[int, ...] | None = None
    most: int = 10_000
    due_only: bool = True


@dataclass(frozen=True)
class AssigningRead:
    """The tasks, which of them consider only the locality of their master datasets, and the dropped rows."""

    tasks: AssigningTable
    master_only: frozenset[int]  # positions in the table
    dropped_rows: tuple[DroppedRow, ...]


def read_assigning(connection: sa.Connection, catalogue: TableCatalogue, selection: TaskSelection) -> AssigningRead:
    """The tasks of the selection in brokerage order: priority descending (without one last), then task id.

    A task is due if it has no nucleus, or an output without a destination, and was not tried recently.
    """
    source = catalogue.needed(ASSIGNING_ROWS)
    datasets = catalogue.needed(COUNTED_ROWS)
    parameters = catalogue.needed(PARAMETER_ROWS)
    query = f"""
        SELECT t.jeditaskid, t.vo, t.prodsourcelabel, t.gshare, t.workqueue_id, t.nucleus, t.currentpriority,
               t.taskpriority, t.iointensity, extract(epoch FROM t.frozentime)::float8 AS frozentime_s, t.splitrule,
               t.parent_tid, p.jeditaskid AS parent, p.nucleus AS parent_nucleus, p.splitrule AS parent_splitrule,
               j.taskparams,
               coalesce((SELECT sum({_REMAINING})::float8 FROM {datasets} AS d
                         WHERE d.jeditaskid = t.jeditaskid AND {_COUNTED}), 0) AS remaining_hs06s
        FROM {source} AS t
        LEFT JOIN {source} AS p ON p.jeditaskid = t.parent_tid AND p.jeditaskid <> t.jeditaskid
        LEFT JOIN {parameters} AS j ON j.jeditaskid = t.jeditaskid
        WHERE t.status = '{ASSIGNING}' AND t.cloud = '{CLOUD}' AND t.vo = :vo
          AND coalesce(t.prodsourcelabel = ANY(:labels), false) <> :excluded
          AND (CAST(:ids AS bigint[]) IS NULL OR t.jeditaskid = ANY(:ids))
          AND (t.modificationtime IS NULL OR t.modificationtime < :due OR NOT :due_only)
          AND (t.nucleus IS NULL OR EXISTS (
              SELECT FROM {datasets} AS d
              WHERE d.jeditaskid = t.jeditaskid AND d.type = ANY(:outputs) AND d.destination IS NULL))
        ORDER BY t.currentpriority DESC NULLS LAST, t.jeditaskid
        LIMIT :most
    """  # noqa: S608 - names of columns and constants
    values = {
        "vo": selection.vo,
        "labels": list(selection.labels),
        "excluded": selection.labels_excluded,
        "ids": None if selection.task_ids is None else list(selection.task_ids),
        "due": due_before(selection.now),
        "due_only": selection.due_only,
        "outputs": list(OUTPUT_TYPES),
        "most": selection.most,
    }
    return _assigning([dict(row._mapping) for row in connection.execute(sa.text(query), values)])


def due_before(now: datetime) -> datetime:
    """The time (naive UTC, as in the table) before which a task must have been modified to be due."""
    return naive(now) - RETRY_AFTER


def _assigning(rows: list[dict[str, Any]]) -> AssigningRead:
    dropped_rows: list[DroppedRow] = []
    rules = [parse_split_rule(row["splitrule"]) for row in rows]
    master_only = [_master_only(row, dropped_rows) for row in rows]
    for row, rule in zip(rows, rules, strict=True):
        if rule.malformed:
            pieces = ", ".join(rule.malformed)
            dropped_rows.append(DroppedRow("jedi_tasks.splitrule", str(row["jeditaskid"]), "split_rule", pieces))

    def numbers(name: str) -> Any:
        return floats(row[name] for row in rows)

    def words(name: str) -> Any:
        return texts(row[name] for row in rows)

    full_chain = [rule.value("FU") for rule in rules]
    faults = [_fault(*arguments) for arguments in zip(rows, full_chain, master_only, strict=True)]
    table = AssigningTable(
        jeditaskid=np.array([row["jeditaskid"] for row in rows], dtype=np.int64),
        vo=words("vo"),
        prodsourcelabel=words("prodsourcelabel"),
        gshare=words("gshare"),
        workqueue_id=numbers("workqueue_id"),
        nucleus=words("nucleus"),
        currentpriority=numbers("currentpriority"),
        taskpriority=numbers("taskpriority"),
        iointensity=numbers("iointensity"),
        frozentime_s=numbers("frozentime_s"),
        t1weight=floats(rule.value("TW") for rule in rules),
        input_prestaging=np.array([rule.value("IS") != 0 for rule in rules], dtype=np.bool_),
        full_chain=np.array([code if code in (1, 2, 3) else 0 for code in full_chain], dtype=np.int64),
        parent_nucleus=words("parent_nucleus"),
        remaining_hs06s=numbers("remaining_hs06s"),
        fault=texts(faults),
        parent_full_chain=np.array([_chain(row["parent_splitrule"]) for row in rows], dtype=np.int64),
        parent_missing=np.array([_parent_missing(row) for row in rows], dtype=np.bool_),
    )
    return AssigningRead(table, frozenset(index for index, only in enumerate(master_only) if only), tuple(dropped_rows))


def _master_only(row: dict[str, Any], dropped_rows: list[DroppedRow]) -> bool | None:
    """The value of ``taskBrokerOnMaster``; None if the parameters cannot be read, False if there are none."""
    if row["taskparams"] is None:
        return False
    try:
        return json_object(row["taskparams"], "taskparams").get("taskBrokerOnMaster") is True
    except BadValueError as bad:
        dropped_rows.append(DroppedRow("jedi_taskparams", str(row["jeditaskid"]), bad.code, str(bad)))
        return None


def _chain(split_rule: str | None) -> int:
    code = parse_split_rule(split_rule).value("FU")
    return int(code) if code in (1, 2, 3) else 0


def _parent_missing(row: dict[str, Any]) -> bool:
    if row["parent_tid"] == row["jeditaskid"]:
        return False
    return row["parent"] is None or (row["parent_nucleus"] is None and _chain(row["parent_splitrule"]) > 0)


def _fault(row: dict[str, Any], full_chain: int, master_only: bool | None) -> str:
    if master_only is None:
        return BAD_PARAMETERS
    has_parent = row["parent_tid"] is not None and row["parent_tid"] != row["jeditaskid"]
    return UNKNOWN_PARENT if full_chain and has_parent and row["parent"] is None else ""


def read_outputs(connection: sa.Connection, catalogue: TableCatalogue, jeditaskid: Ints) -> OutputTable:
    """The output and log datasets of the tasks, ordered by task and dataset id."""
    source = catalogue.needed(COUNTED_ROWS)
    query = f"""
        SELECT t.position - 1, d.datasetid, d.storagetoken
        FROM unnest(CAST(:ids AS bigint[])) WITH ORDINALITY AS t (jeditaskid, position)
        JOIN {source} AS d ON d.jeditaskid = t.jeditaskid
        WHERE d.type = ANY(:types) ORDER BY t.position, d.datasetid
    """  # noqa: S608 - names of columns
    rows = connection.execute(sa.text(query), {"ids": jeditaskid.tolist(), "types": list(OUTPUT_TYPES)}).all()
    return OutputTable(_integers(rows, 0), _integers(rows, 1), texts(row[2] for row in rows))


def read_remaining(connection: sa.Connection, catalogue: TableCatalogue) -> RemainingTable:
    """The remaining work of each nucleus, by VO, label, share, work queue and priority; units as in the table."""
    tasks = catalogue.needed(ASSIGNING_ROWS)
    datasets = catalogue.needed(COUNTED_ROWS)
    query = f"""
        SELECT t.nucleus, t.vo, t.gshare, t.workqueue_id, t.currentpriority, t.prodsourcelabel,
               sum({_REMAINING})::float8, sum({_AS_STORED})::float8
        FROM {tasks} AS t JOIN {datasets} AS d ON d.jeditaskid = t.jeditaskid
        WHERE t.status = ANY(:statuses) AND t.cloud = '{CLOUD}' AND t.nucleus IS NOT NULL AND {_COUNTED}
        GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
    """  # noqa: S608 - names of columns and constants
    rows = connection.execute(sa.text(query), {"statuses": list(WORKING_STATUSES)}).all()
    return RemainingTable(
        texts(row[0] for row in rows),
        texts(row[1] for row in rows),
        texts(row[2] for row in rows),
        floats(row[3] for row in rows),
        floats(row[4] for row in rows),
        floats(row[6] for row in rows),
        floats(row[7] for row in rows),
        texts(row[5] for row in rows),
    )


def _integers(rows: Sequence[Sequence[Any]], column: int) -> Ints:
    return np.array([row[column] for row in rows], dtype=np.int64)
