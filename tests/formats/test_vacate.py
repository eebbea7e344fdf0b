from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.formats.model.vacate import Need, RunningJob, choose
from tests.formats.contract_cases import cases

RANKINGS = cases("job_status")["rankings"]


def need_of(case: dict[str, Any], now: int | None) -> Need:
    return Need(case["cores_needed"], case["mode"], case["window_s"], case.get("ends_by", "limit"), now)


@pytest.mark.parametrize("case", RANKINGS, ids=lambda case: case["what"])
def test_which_jobs_are_vacated(case: dict[str, Any]) -> None:
    jobs = [RunningJob(**values) for values in case["jobs"]]
    instants = [case["now"]] if "now" in case else [None, 1_700_000_000]
    for now in instants:
        choice = choose(jobs, need_of(case, now))
        document = dataclasses.asdict(choice)
        assert {name: _listed(document[name]) for name in case["result"]} == case["result"], now
        assert {reason.id for reason in choice.reasons} == {job.id for job in jobs}
        assert [reason.id for reason in choice.reasons if reason.action == "vacate"] == list(choice.victims)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def test_the_reasons_are_reported() -> None:
    jobs = [RunningJob("a", "u", 8, 0, 4000, priority=9), RunningJob("b", "u", 8, 0, 4400, priority=1)]
    choice = choose(jobs, Need(8, now=10_000))
    assert choice.reasons[0].why == "less important to its user than a, which loses hardly less; kill_waste 4400"
    assert choice.reasons[1].action == "keep"


JOBS = st.lists(
    st.builds(
        RunningJob,
        id=st.uuids().map(str),
        user=st.sampled_from("xyz"),
        cores=st.integers(1, 8),
        jobstart=st.integers(0, 1000),
        kill_waste=st.none() | st.integers(0, 10_000),
        priority=st.none() | st.integers(-5, 5),
    ),
    max_size=6,
    unique_by=lambda job: job.id,
)


@pytest.mark.slow
@given(jobs=JOBS, cores=st.integers(0, 40), data=st.data())
def test_the_order_of_the_jobs_does_not_matter_and_no_job_is_vacated_in_vain(
    jobs: list[RunningJob], cores: int, data: st.DataObject
) -> None:
    need = Need(cores, now=2000)
    choice = choose(jobs, need)
    assert choose(data.draw(st.permutations(jobs)), need).victims == choice.victims
    by_id = {job.id: job for job in jobs}
    freed_cores = [by_id[victim].cores for victim in choice.victims]
    assert choice.cores_freed == sum(freed_cores)
    assert choice.enough == (choice.cores_freed >= cores)
    assert not freed_cores or sum(freed_cores[:-1]) < cores
    assert choice.enough or len(choice.victims) == len(jobs)


@pytest.mark.slow
@given(jobs=JOBS.filter(lambda jobs: len(jobs) > 1), lie=st.integers(10_000, 10**9))
def test_an_overstated_loss_counts_at_most_since_the_start_of_the_job(jobs: list[RunningJob], lie: int) -> None:
    honest = dataclasses.replace(jobs[0], kill_waste=None)
    liar = dataclasses.replace(jobs[0], kill_waste=lie + jobs[0].cores * 2000)
    need = Need(1, now=2000)
    assert choose([liar, *jobs[1:]], need).victims == choose([honest, *jobs[1:]], need).victims


@pytest.mark.parametrize(
    "need", [Need(9, now=2000), Need(9), Need(9, "drain", 10), Need(9, "drain", 10, "estimate")], ids=str
)
def test_a_negative_loss_counts_as_none(need: Need) -> None:
    common = {"user": "u", "cores": 8, "jobstart": 1000, "priority": 1}
    job_over_time = RunningJob("over", kill_waste=-4, draining_waste=5, remaining_time_max=-1, **common)
    job_with_gain = RunningJob("gained", kill_waste=-1, draining_waste=-1, remaining_time_max=5, **common)
    choice = choose([job_over_time, job_with_gain], need)
    assert choice.victims == ("gained", "over")
    assert [reason.cost for reason in choice.reasons] == [0, 0]


def choose_one_by_one(jobs: list[RunningJob], cores: int) -> list[str]:
    """The rule as specified: each choice searches all remaining jobs."""
    remaining = list(jobs)
    victims: list[str] = []
    freed_cores = 0
    while freed_cores < cores and remaining:

        def per_core(job: RunningJob) -> float:
            return (job.kill_waste or 0) / job.cores

        def loss(job: RunningJob) -> tuple[float, int, str]:
            return per_core(job), job.kill_waste or 0, job.id

        cheapest = min(remaining, key=loss)
        limit = per_core(cheapest) * 1.25
        alike = [job for job in remaining if job.user == cheapest.user and per_core(job) <= limit]
        job = min(alike, key=lambda candidate: (candidate.priority or 0, *loss(candidate)))
        remaining.remove(job)
        victims.append(job.id)
        freed_cores += job.cores
    return victims


@given(
    jobs=st.lists(
        st.builds(
            RunningJob,
            id=st.uuids().map(str),
            user=st.sampled_from("xyz"),
            cores=st.integers(1, 4),
            kill_waste=st.integers(0, 40),
            priority=st.none() | st.integers(-2, 2),
        ),
        max_size=14,
        unique_by=lambda job: job.id,
    ),
    cores=st.integers(0, 60),
)
def test_jobs_are_chosen_by_the_rule(jobs: list[RunningJob], cores: int) -> None:
    assert list(choose(jobs, Need(cores)).victims) == choose_one_by_one(jobs, cores)


@pytest.mark.parametrize("waste", [10**18 - 1, 10**18, 10**400, -(10**400)])
def test_an_excessive_loss_counts_as_the_largest_possible(waste: int) -> None:
    jobs = [RunningJob("huge", "u", 1, kill_waste=waste), RunningJob("small", "v", 1, kill_waste=5)]
    choice = choose(jobs, Need(1))
    assert choice.victims == (("small",) if waste > 0 else ("huge",))
    costs = {reason.id: reason.cost for reason in choice.reasons}
    assert costs == {"huge": 10**18 - 1 if waste > 0 else 0, "small": 5}
    why = next(reason.why for reason in choice.reasons if reason.id == "huge")
    assert ("of which 999999999999999999 counts" in why) == (waste >= 10**18)


@pytest.mark.slow
def test_a_site_of_20_000_jobs_is_ranked_within_2_s_of_cpu_time() -> None:
    jobs = [
        RunningJob(
            str(number), f"u{number % 50}", 1 + number % 8, kill_waste=number * 7919 % 99_991, priority=number % 10
        )
        for number in range(20_000)
    ]
    start = time.process_time()
    choice = choose(jobs, Need(80_000))
    assert time.process_time() - start < 2.0
    assert choice.enough
