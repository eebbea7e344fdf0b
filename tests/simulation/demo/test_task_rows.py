from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from broker.simulation.model.demo.clock import Clock
from broker.simulation.model.demo.facts import DemoFacts
from broker.simulation.model.demo.task_rows import quick_jobs, split_rule, task_rows

NOW = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("jobs", "quick", "expected"), [(900, False, 900), (900, True, 90), (29, True, 2), (10, True, 2)]
)
def test_a_quick_run_has_a_tenth_of_the_jobs_and_at_least_two(jobs: int, quick: bool, expected: int) -> None:
    assert quick_jobs(jobs, quick) == expected


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("Pythia8_ttbar", "NF=1"),
        ("Pythia8_scout", "NF=1,US=2"),
        ("ttbar_FullSim_23e", "NE=1000"),
        ("merge_HITS_A", "ZF=10,MO=1"),
        ("TRUTH3_ntuples", "NG=5"),
        ("DAOD_HIGG_llqq", "NF=4,IL=1,IW=1"),
        ("DAOD_JETM_copy", "NF=4"),
    ],
)
def test_split_rule(demo_facts: DemoFacts, name: str, rule: str) -> None:
    task = next(task for task in demo_facts.tasks if task.name == name)
    assert split_rule(task) == rule


@pytest.mark.parametrize(
    ("name", "cputime", "unit"),
    [
        ("Pythia8_ttbar", 4200, "mHS06sPerEvent"),
        ("Sherpa_Zjets", 12, "HS06sPerEvent"),
        ("ttbar_FullSim_23e", 610, "HS06sPerEvent"),
        ("recon_no_estimate", None, None),
    ],
)
def test_cpu_time_below_ten_is_in_milli_units(
    demo_facts: DemoFacts, name: str, cputime: int | None, unit: str | None
) -> None:
    rows: list[dict[str, Any]] = task_rows(demo_facts, Clock(NOW))
    row = next(row for row, task in zip(rows, demo_facts.tasks, strict=True) if task.name == name)
    assert (row["cputime"], row["cputimeunit"]) == (cputime, unit)
