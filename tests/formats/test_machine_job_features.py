from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.formats.model.feature_keys import KEYS, Unreadable, keys_of, names_of
from broker.formats.model.machine_job_features import (
    Derived,
    Features,
    PackageOfWork,
    QueueStats,
    announced,
    derive,
    fits,
    parse,
)
from tests.formats.contract_cases import cases, contents

DOCUMENT = cases("machine_job_features")
NOW: int = DOCUMENT["now"]
NOTHING = {
    **{field.name: None for field in dataclasses.fields(Derived)},
    "state": "run",
}


def read_case(case: dict[str, Any]) -> Features:
    site = DOCUMENT["complete_site"] if case.get("site") == "complete" else {}
    return parse(contents(case["machine"]), contents({**site, **(case["job"] or {})}))


@pytest.mark.parametrize("case", DOCUMENT["cases"], ids=lambda case: case["what"])
def test_values_derived_from_the_keys(case: dict[str, Any]) -> None:
    queue = case.get("queue", {})
    stats = QueueStats(queue.get("corepower"), queue.get("coreCount"))
    derived = dataclasses.asdict(derive(read_case(case), NOW, stats, case.get("process_start")))
    assert list(derived.pop("problems")) == case.get("problems", [])
    assert derived == {name: case["gives"].get(name, NOTHING[name]) for name in derived}


def test_each_of_the_fifteen_keys_is_a_field() -> None:
    assert len(KEYS) == 15
    assert [key.name for key in KEYS] == [field.name for field in dataclasses.fields(Features)][:-1]
    assert len(keys_of("machinefeatures")) == 4
    assert {key.name for key in KEYS if key.dynamic} == {"shutdowntime", "shutdowntime_job"}
    assert "allocated_CPU" in names_of("jobfeatures")


def test_a_file_without_a_value_has_a_problem() -> None:
    features = parse({"hs06": Unreadable("link")}, {"job_id": Unreadable("too-long")}, ("jobfeatures:missing",))
    assert features.problems == ("hs06:link", "job_id:too-long", "jobfeatures:missing")
    assert features.hs06 is None


def test_a_cpu_limit_below_one_second_per_core_is_over_at_once() -> None:
    features = parse({}, contents({"cpu_limit_secs": "7", "allocated_cpu": "8", "jobstart_secs": str(NOW)}))
    assert derive(features, NOW).state == "over"


@pytest.mark.parametrize(
    ("machine", "job", "first"),
    [("1700007200", "1700000600", 1700000600), ("1700000600", None, 1700000600), (None, None, None)],
)
def test_the_earliest_announcement_counts(machine: str | None, job: str | None, first: int | None) -> None:
    features = parse(contents({"shutdowntime": machine}), contents({"shutdowntime_job": job}))
    assert announced(features, NOW) == first


@pytest.mark.parametrize("case", cases("package_fit")["cases"], ids=lambda case: case["what"])
def test_a_package_fits_into_the_guaranteed_time(case: dict[str, Any]) -> None:
    work = PackageOfWork(
        case["hs06sec"], case["cores"], case["corepower"], case["cpu_efficiency_pct"], case["base_walltime_s"]
    )
    assert work.expected_walltime_s == case["expected_walltime_s"]
    assert fits(work, case["guaranteed_s"]) is case["fits"]


ANY_TEXT = st.binary(max_size=40) | st.integers(-5, 10**20).map(lambda number: str(number).encode())
ANY_FILES = st.dictionaries(st.sampled_from([*(key.name for key in KEYS), "log_cores", "allocated_CPU"]), ANY_TEXT)


@given(machine=ANY_FILES, job=ANY_FILES, now=st.integers(0, 2**33), corepower=st.none() | st.floats(0, 200))
def test_nothing_raises_and_time_never_runs_backwards(
    machine: dict[str, bytes], job: dict[str, bytes], now: int, corepower: float | None
) -> None:
    derived = derive(parse(machine, job), now, QueueStats(corepower, 8))
    assert derived.remaining_s is None or derived.remaining_s >= 0
    if derived.guaranteed_s is not None and derived.remaining_s is not None:
        assert derived.guaranteed_s <= derived.remaining_s
    assert derived.corepower is None or 2 <= derived.corepower <= 100
    assert (derived.state == "over") == (derived.deadline is not None and derived.deadline <= now)
    assert all(problem.count(":") == 1 for problem in derived.problems)
