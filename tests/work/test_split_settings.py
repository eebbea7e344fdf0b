from __future__ import annotations

from dataclasses import replace

import pytest

from broker.domain.split_rule import parse_split_rule
from broker.work.split_settings import SplitSettings, smallest_job, split_settings

NORMAL = SplitSettings()
MERGE = SplitSettings(merging=True, max_files=50, max_output_gb=5.0, boundary=3)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (None, NORMAL),
        ("NF=5", replace(NORMAL, files_per_job=5)),
        ("NF=0", NORMAL),
        ("NE=1000,MF=7", replace(NORMAL, events_per_job=1000, max_files=7)),
        ("NG=4,MX=900,MW=2", replace(NORMAL, gb_per_job=4, max_events=900, max_walltime_s=7200.0)),
        ("RL=1", replace(NORMAL, by_lumi=True)),
        ("OL=1", NORMAL),
        ("GB=1", replace(NORMAL, boundary=1)),
        ("GB=3", replace(NORMAL, boundary=3)),
        ("GB=4", NORMAL),
        ("NF=2,EI=1000,DY=300", replace(NORMAL, files_per_job=6, dynamic=True)),
        ("NF=2,EI=300,DY=300", replace(NORMAL, files_per_job=2, dynamic=True)),
        ("NF=2,EI=1000", replace(NORMAL, files_per_job=2)),
        ("ZF=3,ZE=9,ZM=4,ZG=7", NORMAL),
    ],
)
def test_settings_of_normal_jobs(rule: str | None, expected: SplitSettings) -> None:
    assert split_settings(parse_split_rule(rule), merging=False, scout=False) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("NF=5,NE=10,MF=3,NG=4", MERGE),
        ("ZF=3,ZE=9", replace(MERGE, files_per_job=3, events_per_job=9)),
        ("ZM=20,ZG=7", replace(MERGE, max_files=20, max_output_gb=7.0)),
    ],
)
def test_settings_of_merge_jobs(rule: str, expected: SplitSettings) -> None:
    assert split_settings(parse_split_rule(rule), merging=True, scout=False) == expected


@pytest.mark.parametrize(("rule", "files"), [(None, 1), ("NE=100", None), ("NF=4", 4), ("NG=3", 1)])
def test_scouts_without_a_rule_take_one_file(rule: str | None, files: int | None) -> None:
    assert split_settings(parse_split_rule(rule), merging=False, scout=True).files_per_job == files


def test_files_per_job_take_precedence_over_events() -> None:
    settings = split_settings(parse_split_rule("NF=3,NE=100,MX=50"), merging=False, scout=False)
    assert settings.events_limit is None
    assert settings.files_limit == 3
    assert not settings.continuous


@pytest.mark.parametrize(("rule", "limit"), [("NE=100", 100), ("NE=100,MX=50", 50), ("MX=50", 50), ("MF=3", None)])
def test_events_limit(rule: str, limit: int | None) -> None:
    assert split_settings(parse_split_rule(rule), merging=False, scout=False).events_limit == limit


@pytest.mark.parametrize(
    ("rule", "at_once"), [("NF=3", True), ("NF=3,RL=1", False), ("NF=3,GB=1", False), ("NE=3", False)]
)
def test_rules_that_take_files_at_once(rule: str, at_once: bool) -> None:
    assert split_settings(parse_split_rule(rule), merging=False, scout=False).takes_files_at_once is at_once


def test_the_smallest_job_without_a_rule_is_one_file() -> None:
    assert smallest_job(SplitSettings(max_files=7)).files_per_job == 1
    assert smallest_job(SplitSettings(events_per_job=7)).files_per_job is None
    assert smallest_job(SplitSettings(files_per_job=7)).files_per_job == 7
