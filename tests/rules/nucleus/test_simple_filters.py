"""Filters of one comparison on both sides of each boundary: state, backlog, storages, space, jobs."""

from __future__ import annotations

from typing import Any

import pytest

from broker.rules.contract import Filter
from broker.rules.production_task.filters.destination_blacklist import DestinationBlacklist
from broker.rules.production_task.filters.job import Job
from broker.rules.production_task.filters.match import Match
from broker.rules.production_task.filters.source_blacklist import SourceBlacklist
from broker.rules.production_task.filters.space import Space
from broker.rules.production_task.filters.status import Status
from broker.rules.production_task.filters.transfer_backlog import TransferBacklog
from tests.rules.nucleus.nucleus_builders import check, observed, passes

TB = 1024.0
OPEN_AT_0 = TransferBacklog().configured({"cap_of_zero": "closes_with_files"})
CASES: list[tuple[Filter, bool, dict[str, Any]]] = [
    (Status(), True, {}),
    (Status(), False, {"state": "INACTIVE"}),
    (Status(), False, {"state": "active"}),
    (Status(), False, {"state": None}),
    (TransferBacklog(), True, {"backlog_files": 2000}),
    (TransferBacklog(), False, {"backlog_files": 2001}),
    (TransferBacklog(), True, {"backlog_files": None}),
    (TransferBacklog(), True, {"backlog_files": 2001, "t1weight": -1}),
    (TransferBacklog(), True, {"backlog_files": 2001, "t1weight": -7}),
    (TransferBacklog(), False, {"backlog_files": 2001, "t1weight": 3}),
    (TransferBacklog(), False, {"backlog_files": 11, "NQUEUED_NUC_CAP": 10}),
    (TransferBacklog(), True, {"backlog_files": None, "NQUEUED_NUC_CAP": 1}),
    (TransferBacklog(), False, {"backlog_files": 0, "NQUEUED_NUC_CAP": 0}),
    (TransferBacklog(), False, {"backlog_files": None, "NQUEUED_NUC_CAP": 0}),
    (TransferBacklog(), True, {"backlog_files": None, "NQUEUED_NUC_CAP": 0, "t1weight": -1}),
    (OPEN_AT_0, True, {"backlog_files": 0, "NQUEUED_NUC_CAP": 0}),
    (OPEN_AT_0, True, {"backlog_files": None, "NQUEUED_NUC_CAP": 0}),
    (OPEN_AT_0, False, {"backlog_files": 1, "NQUEUED_NUC_CAP": 0}),
    (Match(), True, {}),
    (Match(), False, {"has_storages": False}),
    (SourceBlacklist(), True, {}),
    (SourceBlacklist(), False, {"storages_send": False}),
    (SourceBlacklist(), True, {"storages_receive": False}),
    (DestinationBlacklist(), True, {}),
    (DestinationBlacklist(), False, {"storages_receive": False}),
    (DestinationBlacklist(), True, {"storages_send": False}),
    (Space(), False, {"usable_gb": 100 * TB}),
    (Space(), True, {"usable_gb": 100 * TB + 1}),
    (Space(), False, {"usable_gb": 100 * TB + 1, "expected_output_gb": 1.0}),
    (Space(), True, {"usable_gb": 100 * TB + 1, "expected_output_gb": 0.5}),
    (Space(), False, {"usable_gb": None}),
    (Space(), True, {"usable_gb": float("inf")}),
    (Space(), True, {"usable_gb": 21 * TB, "DISK_THRESHOLD_Simulation": 20}),
    (Space(), False, {"usable_gb": 21 * TB, "DISK_THRESHOLD_Other": 20}),
    (Space(), True, {"usable_gb": 21 * TB, "DISK_THRESHOLD": 20, "gshare": None}),
    (Space(), False, {"usable_gb": 21 * TB, "DISK_THRESHOLD": 20, "DISK_THRESHOLD_Simulation": 30}),
    (Job(), True, {"able_queues": 1}),
    (Job(), False, {"able_queues": 0}),
]


@pytest.mark.parametrize(("rule", "keep", "columns"), CASES, ids=lambda value: str(getattr(value, "name", value)))
def test_filter(rule: Filter[Any], keep: bool, columns: dict[str, Any]) -> None:
    check(rule, keep, columns)


def test_a_failed_job_check_does_not_pass() -> None:
    assert not passes(Job(), {"able_queues": 3, "job_check_failed": True}).item()


def test_the_explanations_carry_the_figures() -> None:
    space = observed(Space(), {"usable_gb": 150 * TB, "expected_output_gb": 100.0})
    assert (space.value, space.limit, space.unit, space.key) == (150 * TB - 100, 100 * TB, "GB", "DISK_THRESHOLD")
    assert space.inputs == {"usable_gb": 150 * TB, "expected_output_gb": 100.0, "gshare": "Simulation"}
    job = observed(Job(), {"able_queues": 0, "queues": 4, "job_codes": "lowmemory 4"})
    assert (job.value, job.inputs) == (0.0, {"queues": 4.0, "rejected": "lowmemory 4"})
