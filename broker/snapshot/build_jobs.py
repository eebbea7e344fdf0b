"""Raw counts of jobs, pilots, workers and slots to figures by unified queue.

Source: PanDA data model, job statistics, pilot activity and Harvester.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from broker.domain.arrays import Floats, floats, texts
from broker.domain.grid import COUNTED_STATUSES, JobCounts
from broker.domain.queues import SlotTable
from broker.domain.work import DroppedRow
from broker.snapshot.raw import RawSource
from broker.snapshot.readings import BadValueError, not_negative, number, seconds, text

#: A Harvester worker count is used for this long.
WORKER_VALIDITY_S = 3600.0
COUNT_COLUMNS = ("njobs", "ncores", "diskio_jobs", "diskio_per_core")


def resource_work_queues(source: RawSource, dropped_rows: list[DroppedRow]) -> frozenset[int]:
    """The ids of the work queues of function Resource, whose jobs are counted by queue and not by share."""
    special = set()
    for row in source.rows("jedi_work_queue").records():
        if row["queue_function"] != "Resource" or row["status"] == "inactive":
            continue
        try:
            special.add(int(_known(number(row["queue_id"], "queue_id"), "queue_id")))
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("work_queues", str(row["queue_name"])[:80], bad.code, str(bad)))
    return frozenset(special)


def _known(value: float, field: str) -> float:
    if math.isnan(value):
        raise BadValueError("missing", field, None)
    return value


def _usable_counts(source: RawSource, unified: dict[str, int], dropped_rows: list[DroppedRow]) -> list[dict[str, Any]]:
    """The rows of job counts at queues on record, their numbers checked; NULL counts nothing."""
    rows = []
    for row in source.rows("job_counts").records():
        if row["computingsite"] not in unified:
            continue
        try:
            numbers = {key: _zero_if_null(not_negative(row[key], key)) for key in COUNT_COLUMNS}
            text(row["gshare"], "gshare")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("jobs", str(row["computingsite"])[:80], bad.code, str(bad)))
            continue
        rows.append({**row, **numbers})
    return rows


def _zero_if_null(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def build_jobs(
    source: RawSource,
    unified: dict[str, int],
    nuclei: dict[str, int],
    special: frozenset[int],
    dropped_rows: list[DroppedRow],
) -> tuple[JobCounts, Floats]:
    """Job counts, and the average disk IO in kB/s per core of the running jobs of each unified queue."""
    statuses = {status: index for index, status in enumerate(COUNTED_STATUSES)}
    rows = _usable_counts(source, unified, dropped_rows)
    accounting_keys = sorted({row["gshare"] or "" for row in rows} | {f"#{queue}" for queue in special})
    accounting_index = {accounting_key: index for index, accounting_key in enumerate(accounting_keys)}
    keys = sorted({(row["vo"], row["prodsourcelabel"]) for row in rows}, key=str)
    key_index = {key: index for index, key in enumerate(keys)}
    by_accounting_key = np.zeros((len(unified), len(accounting_keys), len(COUNTED_STATUSES)))
    total = np.zeros((len(unified), len(COUNTED_STATUSES)))
    transferring = np.zeros((len(unified), len(nuclei)))
    cores = {status: np.zeros((len(unified), len(keys))) for status in ("running", "starting")}
    diskio = np.zeros((len(unified), 2))
    for row in rows:
        queue, status, njobs = unified[row["computingsite"]], row["jobstatus"], row["njobs"]
        if status in statuses:
            by_accounting_key[queue, accounting_index[row["gshare"] or ""], statuses[status]] += njobs
            total[queue, statuses[status]] += njobs
            if row["workqueue_id"] in special:
                by_accounting_key[queue, accounting_index[f"#{row['workqueue_id']}"], statuses[status]] += njobs
        if status == "transferring" and row["nucleus"] in nuclei:
            transferring[queue, nuclei[row["nucleus"]]] += njobs
        row["unified"] = queue
        if status in cores:
            cores[status][queue, key_index[(row["vo"], row["prodsourcelabel"])]] += row["ncores"]
        if status == "running" and row["diskio_jobs"]:
            diskio[queue] += (row["diskio_per_core"], row["diskio_jobs"])
    with np.errstate(invalid="ignore"):
        average = np.where(diskio[:, 1] > 0, diskio[:, 0] / diskio[:, 1], 0.0)
    counts = JobCounts(
        tuple(accounting_keys),
        by_accounting_key,
        total,
        transferring,
        cores["running"],
        tuple(keys),
        special,
        cores["starting"],
        tuple(sorted(rows, key=_place)),
    )
    return counts, average


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The order of counted rows, whatever the order of reading."""
    texts_of = (
        row[name] or "" for name in ("jobstatus", "gshare", "resource_type", "prodsourcelabel", "vo", "nucleus")
    )
    return row["unified"], row["workqueue_id"] or 0, *texts_of, row["njobs"]


def build_pilots(source: RawSource, unified: dict[str, int], dropped_rows: list[DroppedRow]) -> tuple[Floats, Floats]:
    """Pilots of the last 3 hours (0 without a row) and last start of a job (NaN if never seen), by unified queue."""
    n_pilots = np.zeros(len(unified))
    laststart = np.full(len(unified), np.nan)
    for row in source.rows("sitedata").records():
        queue = unified.get(row["site"])
        flag = "analysis" if str(row["site"]).startswith("ANALY_") else "production"
        if queue is None or row["flag"] != flag or row["hours"] != 3:
            continue
        try:
            seen = sum(_zero_if_null(not_negative(row[key], key)) for key in ("getjob", "updatejob"))
            n_pilots[queue], laststart[queue] = seen, seconds(row["laststart"], "laststart")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("pilots", str(row["site"])[:80], bad.code, str(bad)))
    return n_pilots, laststart


def build_workers(source: RawSource, unified: dict[str, int], now_s: float, dropped_rows: list[DroppedRow]) -> Floats:
    """Running and submitted batch workers by unified queue, from rows of the last 60 minutes."""
    workers = np.zeros(len(unified))
    for row in source.rows("harvester_worker_stats").records():
        queue = unified.get(row["computingsite"])
        if queue is None or row["status"] not in ("running", "submitted"):
            continue
        try:
            stamp = _known(seconds(row["lastupdate"], "lastupdate"), "lastupdate")
            count = not_negative(row["n_workers"], "n_workers")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("workers", str(row["computingsite"])[:80], bad.code, str(bad)))
            continue
        if stamp > now_s - WORKER_VALIDITY_S and not math.isnan(count):
            workers[queue] += count
    return workers


def build_slots(source: RawSource, unified: dict[str, int], now_s: float, dropped_rows: list[DroppedRow]) -> SlotTable:
    """Published numbers of slots that have not expired; a negative number is no number."""
    rows: list[tuple[int, str | None, str | None, float]] = []
    for row in source.rows("harvester_slots").records():
        queue = unified.get(row["pandaqueuename"])
        if queue is None:
            continue
        try:
            numslots, expiry = number(row["numslots"], "numslots"), seconds(row["expirationtime"], "expirationtime")
            share, kind = text(row["gshare"], "gshare"), text(row["resourcetype"], "resourcetype")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("slots", str(row["pandaqueuename"])[:80], bad.code, str(bad)))
            continue
        if numslots >= 0 and (math.isnan(expiry) or expiry > now_s):
            rows.append((queue, share, kind, numslots))
    rows.sort(key=str)
    return SlotTable(
        unified=np.array([row[0] for row in rows], dtype=np.int64),
        gshare=texts(row[1] for row in rows),
        resource_type=texts(row[2] for row in rows),
        numslots=floats(row[3] for row in rows),
    )


def build_cpu_levels(
    source: RawSource, unified: dict[str, int], dropped_rows: list[DroppedRow]
) -> tuple[dict[str, float], ...]:
    """Percentage of each unified queue's logical CPUs by architecture level, summed over the sites of the queue."""
    levels: tuple[dict[str, float], ...] = tuple({} for _ in unified)
    for row in source.rows("mv_worker_node_summary").records():
        queue, level = unified.get(row["panda_queue"]), row["cpu_architecture_level"]
        if queue is None or not level:
            continue
        try:
            percent = not_negative(row["pct_within_pq"], "pct_within_pq")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("worker_nodes", str(row["panda_queue"])[:80], bad.code, str(bad)))
            continue
        if not math.isnan(percent):
            levels[queue][level] = min(100.0, levels[queue].get(level, 0.0) + percent)
    return levels
