"""Raw counts of users' jobs, PanDA's metrics and quotas to the figures of the analysis brokerage.

Source: ATLAS Analysis Job Brokerage; PanDA analysis brokerage, classes and counting rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisGrid, OwnerJobs, QuotaLine, UserQueue
from broker.domain.arrays import Floats, Ints
from broker.domain.work import DroppedRow
from broker.snapshot.build_classes import MAX_METRIC_CHARACTERS
from broker.snapshot.raw import RawSource
from broker.snapshot.readings import BadValueError, json_object, name, not_negative, number, seconds, text

#: A row of a metric is used for this many seconds.
METRIC_VALIDITY_S = {"gshare_preference": 900.0, "analy_site_eval": 3600.0, "analy_user_eval": 1200.0}
#: Unused key columns of PanDA's metrics hold this text.
NO_KEY = "NULL"
L1_PREFIX = "L1 "
QUEUED_STATUSES = frozenset({"defined", "assigned", "activated", "starting"})


def build_analysis(
    raw: Mapping[str, RawSource], unified: dict[str, int], now_s: float, dropped_rows: list[DroppedRow]
) -> AnalysisGrid:
    """The figures; rows that are too old or cannot be used are left out."""
    empty = RawSource("", {})
    jobs = _UserJobs(unified)
    for row in raw.get("user_jobs", empty).rows("user_job_counts").records():
        _guarded(jobs.add, row, "user_jobs", str(row["produsername"]), dropped_rows)
    starts = np.zeros(len(unified))
    for row in raw.get("user_jobs", empty).rows("job_starts").records():
        if row["computingsite"] in unified:
            starts[unified[row["computingsite"]]] += not_negative(row["njobs"], "njobs")
    metrics = _Metrics(unified, now_s)
    for row in raw.get("metrics", empty).rows("metrics").records():
        _guarded(metrics.add, row, "metrics", f"{row['metric']} {row['computingsite'] or row['gshare']}", dropped_rows)
    quotas, full = _quotas(raw.get("quota", empty), dropped_rows)
    return AnalysisGrid(
        starts=starts,
        users=jobs.users(),
        users_running=jobs.running,
        present=jobs.present(),
        by_user=jobs.by_user(),
        by_type=_by_type(raw.get("jobs", empty), unified),
        of_user=_owners(jobs.of_user),
        of_group=_owners(jobs.of_group),
        share_usage=metrics.usage,
        share_usage_l1=metrics.usage_l1,
        site_class=metrics.site_class,
        user_slots_left=metrics.slots_left,
        quotas=quotas,
        full_endpoints=full,
    )


def _guarded(add: Any, row: dict[str, Any], source: str, identifier: str, dropped_rows: list[DroppedRow]) -> None:
    try:
        add(row)
    except BadValueError as bad:
        dropped_rows.append(DroppedRow(source, identifier[:80], bad.code, str(bad)))


def _owners(found: Mapping[str, list[float]]) -> dict[str, OwnerJobs]:
    return {owner: OwnerJobs(*stats) for owner, stats in found.items()}


class _UserJobs:
    """Adds up the rows of users' jobs."""

    def __init__(self, unified: dict[str, int]) -> None:
        self._unified = unified
        self._at: dict[tuple[str, str, str], dict[int, list[float]]] = {}
        self._present: dict[tuple[str, str], set[int]] = {}
        self.running: dict[tuple[str, str], Floats] = {}
        self.of_user: dict[str, list[float]] = {}
        self.of_group: dict[str, list[float]] = {}

    def add(self, row: dict[str, Any]) -> None:
        user = text(row["produsername"], "produsername") or ""
        group, share = text(row["workinggroup"], "workinggroup"), text(row["gshare"], "gshare") or ""
        keys = ("running_jobs", "throttled_jobs", "queued_jobs", "running_cores", "queued_cores")
        numbers = {key: not_negative(row[key], key) for key in keys}
        counted = {key: 0.0 if math.isnan(value) else value for key, value in numbers.items()}
        waiting = counted["queued_jobs"] + counted["throttled_jobs"]
        stats = (counted["running_jobs"], waiting, counted["running_cores"], counted["queued_cores"])
        if group:
            _add(self.of_group, group, stats)
        # PanDA looks at the group of a job only once it is active
        if user and (not group or row["is_defined"]):
            _add(self.of_user, user, stats)
        queue = self._unified.get(row["computingsite"])
        if queue is None:
            return
        if user:
            self._present.setdefault((user, share), set()).add(queue)
        if row["is_merge"]:
            return
        label = text(row["prodsourcelabel"], "prodsourcelabel") or ""
        everybody = self.running.setdefault((share, label), np.full(len(self._unified), np.nan))
        everybody[queue] = np.nan_to_num(everybody[queue]) + counted["running_jobs"]
        own = self._at.setdefault((user, share, label), {}).setdefault(queue, [0.0, 0.0])
        own[0] += counted["queued_jobs"]
        own[1] += counted["running_jobs"]

    def users(self) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for (_, share), queues in self._present.items():
            counts = found.setdefault(share, np.zeros(len(self._unified)))
            counts[list(queues)] += 1
        return found

    def present(self) -> dict[tuple[str, str], Ints]:
        return {key: np.array(sorted(queues), dtype=np.int64) for key, queues in self._present.items()}

    def by_user(self) -> dict[tuple[str, str, str], UserQueue]:
        return {key: _user_queue(queues) for key, queues in self._at.items()}


def _add(totals: dict[str, list[float]], owner: str, stats: tuple[float, ...]) -> None:
    own = totals.setdefault(owner, [0.0] * len(stats))
    for index, value in enumerate(stats):
        own[index] += value


def _user_queue(queues: Mapping[int, list[float]]) -> UserQueue:
    stats = np.array(list(queues.values()), dtype=np.float64).reshape(-1, 2)
    return UserQueue(np.array(list(queues), dtype=np.int64), stats[:, 0], stats[:, 1])


def _by_type(source: RawSource, unified: dict[str, int]) -> dict[tuple[str, str], Floats]:
    """By share and resource type the queued and running jobs (2, U); rows that cannot be counted are told elsewhere."""
    found: dict[tuple[str, str], Floats] = {}
    for row in source.rows("job_counts").records():
        queue, njobs, status = unified.get(row["computingsite"]), row["njobs"], row["jobstatus"]
        place = 1 if status == "running" else 0 if status in QUEUED_STATUSES else -1
        if queue is None or place < 0 or not isinstance(njobs, int | float) or not njobs >= 0:
            continue
        key = (row["gshare"] or "", row["resource_type"] or "")
        if key not in found:
            found[key] = np.zeros((2, len(unified)))
        found[key][place, queue] += njobs
    return found


class _Metrics:
    """Takes what is fresh of PanDA's metrics."""

    def __init__(self, unified: dict[str, int], now_s: float) -> None:
        self._unified, self._now_s = unified, now_s
        self.usage: dict[str, float] = {}
        self.usage_l1: dict[str, float] = {}
        self.site_class = np.full(len(unified), np.nan)
        self.slots_left: dict[str, float] = {}

    def add(self, row: dict[str, Any]) -> None:
        limit_s = METRIC_VALIDITY_S.get(row["metric"])
        # NaN compares false: a row without a time is as good as too old
        if limit_s is None or not self._now_s - seconds(row["timestamp"], "timestamp") <= limit_s:
            return
        document = json_object(row["value_json"], "value_json", MAX_METRIC_CHARACTERS)
        if row["metric"] == "gshare_preference":
            self._add_usage(row["gshare"], document)
        elif row["metric"] == "analy_site_eval":
            queue = self._unified.get(row["computingsite"])
            if queue is not None:
                self.site_class[queue] = number(document.get("class"), "class")
        else:
            self._add_users(document)

    def _add_usage(self, share: Any, document: dict[str, Any]) -> None:
        known = name(share, "gshare")
        top = known.startswith(L1_PREFIX)
        key = "eqiv_usage_perc" if top else "usage_perc"
        value = not_negative(document.get(key), key)
        if not math.isnan(value):
            (self.usage_l1 if top else self.usage)[known.removeprefix(L1_PREFIX) if top else known] = value

    def _add_users(self, document: dict[str, Any]) -> None:
        for user, entry in document.items():
            left = number(entry.get("rem_slots_A"), "rem_slots_A") if isinstance(entry, dict) else math.nan
            if not math.isnan(left):
                self.slots_left[user] = left


def _quotas(
    source: RawSource, dropped_rows: list[DroppedRow]
) -> tuple[dict[str, tuple[QuotaLine, ...]], dict[str, frozenset[str]]]:
    lines: dict[str, tuple[QuotaLine, ...]] = {}
    for account, line in _lines(source, "rucio_account_usage", "rse_expression", dropped_rows):
        lines[account] = (*lines.get(account, ()), line)
    full: dict[str, frozenset[str]] = {}
    for account, line in _lines(source, "rucio_local_usage", "rse", dropped_rows):
        if line.used_bytes >= line.limit_bytes > 0:
            full[account] = full.get(account, frozenset()) | {line.place}
    return lines, full


def _lines(
    source: RawSource, table: str, place: str, dropped_rows: list[DroppedRow]
) -> Iterator[tuple[str, QuotaLine]]:
    for row in source.rows(table).records():
        try:
            account, where = name(row["account"], "account"), name(row[place], place)
            used, limit = number(row["bytes"], "bytes"), number(row["bytes_limit"], "bytes_limit")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("quota", str(row["account"])[:80], bad.code, str(bad)))
            continue
        yield account, QuotaLine(where, 0.0 if math.isnan(used) else used, 0.0 if math.isnan(limit) else limit)
