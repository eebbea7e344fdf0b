"""Filters of the analysis brokerage with the options of the profile ``panda``, at the limits that these change."""

from __future__ import annotations

from typing import Any

import pytest

from agents.service.configuration import load_profile
from broker.brokerages.profile import rules_of
from broker.rules.contract import Filter
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

RULES: dict[str, Any] = {rule.name: rule for rule in rules_of(load_profile("panda"), "analysis_job").chain}
#: 1,000 events of 100 HS06 s: a queue of one core of 10 HS06 needs 10,000 s.
LONG = {"cpuefficiency": 100.0}
BUSY = {"activated": 21.0, "OVERLOAD_MIN_QUEUE": 20}
CASES: dict[str, list[Case]] = {
    "open_queue": [
        *(kept(queue_status=status) for status in ("online", "standby", "paused", "Online", None)),
        *(rejected(queue_status=status) for status in ("offline", "brokeroff", "test")),
        kept(queue_status="test", named=True),
        rejected(queue_status="offline", named=True),
    ],
    "avoid_vp": [
        rejected(is_vp=True, avoids_vp=True),
        kept(is_vp=True, **BUSY),  # another rule checks the overload of all queues
    ],
    "memory_max": [
        kept(ramcount=2001.0, maxrss_mb=1800.0),  # 1,800.9 MB, truncated
        rejected(ramcount=2002.0, maxrss_mb=1800.0),
        kept(ramcount=2000.0, baseramcount=500.0, maxrss_mb=1800.0),  # no base is added
    ],
    "memory_min": [
        kept(ramcount=2000.0, minrss_mb=1800.0),
        rejected(ramcount=2001.0, minrss_mb=1800.5),  # 1,800.9 MB, truncated
    ],
    "analysis_scratch": [
        kept(maxwdir_mb=1024.0),  # exactly enough
        rejected(maxwdir_mb=1023.0),
    ],
    "output_space": [
        kept(output_usable_gb=200.0),
        rejected(output_usable_gb=199.9),
        kept(output_usable_gb=None),
        rejected(has_output=False, output_usable_gb=None, STORAGE_MIN_FREE_SIZE_OUTPUT=0),
    ],
    "input_space": [
        kept(input_usable_gb=200.0, local_pass=False),
        rejected(input_usable_gb=199.9, local_pass=False),
        rejected(has_input_storage=False, local_pass=False, STORAGE_MIN_FREE_SIZE=0),
    ],
    "shortwalltime": [
        kept(**LONG, maxtime_s=10_000.0),
        rejected(**LONG, maxtime_s=9_999.0),
        kept(**LONG, maxtime_s=0.0),
        # without core power the capacity is zero
        rejected(**LONG, maxtime_s=10_000.0, corepower=None),
    ],
    "too_short": [
        kept(**LONG, mintime_s=10_000.0),
        rejected(**LONG, mintime_s=10_001.0),
        kept(**LONG, mintime_s=0.0),
        kept(cputime=0.0, mintime_s=10_001.0),  # without a need nothing is compared
    ],
    "scout_day": [
        kept(scout=True, **LONG, maxtime_s=86_400.0),
        rejected(scout=True, **LONG, maxtime_s=86_399.0),
        kept(scout=True, **LONG, maxtime_s=43_200.0, corepower=20.0),  # half a day at twice the core power
        kept(scout=True, **LONG, maxtime_s=0.0),
    ],
    "min_walltime": [
        kept(merging=True, **LONG, maxtime_s=3600.0),  # merge jobs are not special
        rejected(walltime_undefined=True, **LONG, maxtime_s=3600.0),
        kept(walltime_undefined=True, **LONG, maxtime_s=86_400.0),
    ],
    "cloud_mismatch": [
        rejected(cloud="WORLD", cloud_of_queue="DE"),
        kept(cloud="DE", cloud_of_queue="DE"),
        kept(cloud=None, cloud_of_queue="DE"),
    ],
    "closed_jobs": [
        kept(jobs_closed=0.0),
        rejected(jobs_closed=1.0),
        kept(jobs_closed=1.0, merging=True),
        kept(jobs_closed=1.0, site_named=True),
    ],
    "idle_overload": [
        rejected(**BUSY, running=0.0),
        kept(**BUSY, running=1.0),
        kept(activated=20.0, OVERLOAD_MIN_QUEUE=20),
        kept(**BUSY, merging=True),
    ],
    "not_wanted": [kept(wanted=True), rejected(wanted=False)],
}


@pytest.mark.parametrize(
    ("rule", "case"),
    [pytest.param(RULES[name], case, id=f"{name}-{case.given}") for name, cases in CASES.items() for case in cases],
)
def test_at_the_limit(rule: Filter[Any], case: Case) -> None:
    check(rule, case)


def test_the_profile_chooses_these_rules() -> None:
    assert "queue_cap" not in RULES
    chosen = {name for name, rule in RULES.items() if rule.chosen and isinstance(rule, Filter)}
    others = {"task_software", "task_platform", "bad_jobs"}  # tested beside their dialect or limit
    assert chosen - set(CASES) == others
