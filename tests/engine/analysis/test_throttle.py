"""The throttle stage, condition by condition, on both sides of each boundary."""

from __future__ import annotations

import numpy as np
import pytest

from broker.domain.analysis import CLASS_A, CLASS_B, CLASS_C, CLASS_S, AnalysisGrid, OwnerJobs, QuotaLine
from broker.engine.analysis.steps import Throttles
from broker.engine.analysis.throttle import KEYS, Requester, Throttle, by_quota, requesters, throttle_of
from broker.gdpconfig import Tuning
from tests.engine.small_work import chunk_table

CAPS = {
    "CAP_RUNNING_USER_JOBS": 100,
    "CAP_RUNNING_USER_CORES": 400,
    "CAP_RUNNING_GROUP_JOBS": 1000,
    "CAP_RUNNING_GROUP_CORES": 4000,
}
ODD = "Zoë O'Neill /CN=x:\t\"%_*;--"


def requester(**changes: object) -> Requester:
    values: dict[str, object] = {
        "user": ODD,
        "group": None,
        "share": "User Analysis",
        "merging": False,
        "task_class": None,
    }
    return Requester(**(values | changes))  # type: ignore[arg-type]


def condition_for(
    grid: AnalysisGrid, applicant: Requester, usable: bool = True, closed: bool = True, **keys: object
) -> str | None:
    tuning = Tuning.defaults().with_values({**CAPS, **keys}).only(KEYS)  # type: ignore[dict-item]
    throttle = throttle_of(applicant, grid, tuning, usable, closed)
    return None if throttle is None else throttle.condition


@pytest.mark.parametrize(
    ("jobs", "condition"),
    [
        (OwnerJobs(running_jobs=100), None),
        (OwnerJobs(running_jobs=101), "running_jobs"),
        (OwnerJobs(queued_jobs=200), None),
        (OwnerJobs(queued_jobs=201), "queued_jobs"),
        (OwnerJobs(running_cores=400), None),
        (OwnerJobs(running_cores=401), "running_cores"),
        (OwnerJobs(queued_cores=800), None),
        (OwnerJobs(queued_cores=801), "queued_cores"),
        (OwnerJobs(1e6, 1e6, 1e6, 1e6), "running_jobs"),
    ],
)
def test_caps_of_users(jobs: OwnerJobs, condition: str | None) -> None:
    grid = AnalysisGrid(of_user={ODD: jobs})
    assert condition_for(grid, requester()) == condition
    assert condition_for(grid, requester(user="someone else")) is None
    assert condition_for(grid, requester(merging=True)) is None
    assert condition_for(grid, requester(group="phys-higgs")) is None
    assert throttle_of(requester(), grid, Tuning.defaults().only(KEYS), True, True) is None


def test_groups_have_separate_caps() -> None:
    grid = AnalysisGrid(of_group={"phys-higgs": OwnerJobs(running_jobs=1001)})
    assert condition_for(grid, requester(group="phys-higgs")) == "running_jobs"
    assert condition_for(grid, requester()) is None


@pytest.mark.parametrize(
    ("task_class", "usage", "throttled"),
    [
        (CLASS_C, 0.90, False),
        (CLASS_C, 0.901, True),
        (CLASS_B, 0.95, False),
        (CLASS_B, 0.951, True),
        (CLASS_S, 99.0, False),
        (None, 99.0, False),
        # 250 of 1,000 slots are left: 750 run at hi, the limit is 133.3 %
        (CLASS_A, 1.333, False),
        (CLASS_A, 1.334, True),
    ],
)
def test_usage_of_the_share(task_class: float | None, usage: float, throttled: bool) -> None:
    grid = AnalysisGrid(share_usage={"User Analysis": usage}, user_slots_left={ODD: 250})
    assert (condition_for(grid, requester(task_class=task_class)) == "share_usage") is throttled
    assert (condition_for(grid, requester(task_class=task_class, merging=True)) == "share_usage") is throttled
    assert condition_for(grid, requester(task_class=task_class, share="Express Analysis")) is None


def test_class_a_without_slots_at_hi_has_no_limit_and_an_unknown_user_the_limit_for_half() -> None:
    nothing_runs = AnalysisGrid(share_usage={"User Analysis": 1e9}, user_slots_left={ODD: 1000})
    assert condition_for(nothing_runs, requester(task_class=CLASS_A)) is None
    unknown = AnalysisGrid(share_usage={"User Analysis": 2.0})
    assert condition_for(unknown, requester(task_class=CLASS_A)) is None
    assert (
        condition_for(AnalysisGrid(share_usage={"User Analysis": 2.01}), requester(task_class=CLASS_A)) == "share_usage"
    )


def test_the_top_level_share_counts_only_when_configured() -> None:
    grid = AnalysisGrid(share_usage={"User Analysis": 1.0}, share_usage_l1={"User Analysis": 0.5})
    assert condition_for(grid, requester(task_class=CLASS_C)) == "share_usage"
    assert condition_for(grid, requester(task_class=CLASS_C), USE_L1_SHARE_USAGE=True) is None


@pytest.mark.parametrize(
    ("lines", "condition", "merging_condition"),
    [
        ([], None, None),
        ([(90, 100)], None, None),
        ([(91, 100)], "near_global_quota", None),
        ([(100, 100)], "near_global_quota", None),
        ([(101, 100)], "global_quota", "global_quota"),
        ([(101, 0), (101, -1)], None, None),
        # a nearly exhausted quota does not hide an exhausted one
        ([(91, 100), (101, 100)], "global_quota", "global_quota"),
    ],
)
def test_quota(lines: list[tuple[float, float]], condition: str | None, merging_condition: str | None) -> None:
    quota = tuple(QuotaLine("*", used, limit) for used, limit in lines)
    for merging, expected in ((False, condition), (True, merging_condition)):
        throttle = by_quota(quota, merging)
        assert (None if throttle is None else throttle.condition) == expected
    assert condition_for(AnalysisGrid(quotas={ODD: quota}), requester()) == condition


def test_an_unusable_source_of_quotas_throttles_unless_configured_to_stay_open() -> None:
    assert condition_for(AnalysisGrid(), requester(), usable=False) == "quota_unknown"
    assert condition_for(AnalysisGrid(), requester(), usable=False, closed=False) is None


def test_a_note_round_trips() -> None:
    throttle = Throttle("running_jobs", 12001.0, 10000.0, "jobs", "CAP_RUNNING_USER_JOBS")
    assert Throttle.read(throttle.note) == throttle
    assert Throttle.read("source_stale:jobs") is None


@pytest.mark.parametrize(
    ("label", "reading", "owner"),
    [("user", "of_nobody", ODD), ("panda", "of_user", ODD), ("panda", "of_nobody", ""), (None, "of_nobody", ODD)],
)
def test_the_owner_of_jobs_for_tasks_with_label_panda(label: str | None, reading: str, owner: str) -> None:
    chunks = chunk_table(1, prodsourcelabel=[label], username=[ODD])
    (applicant,) = requesters(chunks, np.array([np.nan]), Throttles().configured({"panda_label": reading}))
    assert (applicant.user, applicant.owner) == (ODD, owner)
    condition = "running_jobs" if owner == ODD else None
    assert condition_for(AnalysisGrid(of_user={ODD: OwnerJobs(running_jobs=101)}), applicant) == condition
