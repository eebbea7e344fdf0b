"""The work of many cycles and values split up: in this process, over processes, and over a local Dask cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from broker.gdpconfig.catalogue import ValueRefusedError
from broker.whatif.model import evaluate as deciding
from broker.whatif.model.cases import Case, Change
from broker.whatif.model.executor import (
    Answers,
    ClusterUnavailable,
    Comparing,
    _jobs,
    answer,
    answer_on_cluster,
    decide_job,
    gathered,
)
from tests.whatif.stored import JOBS, RULES, TASKS, change

pytestmark = pytest.mark.slow

CHANGES = (change("MIN_WEIGHT_managed=1000000"), change(rules=("lowmemory=off",)), Change((), RULES))


def ignore_progress(count: int) -> None:
    pass


def answer_here(cases: Sequence[Case], changes: Sequence[Change] = CHANGES, processes: int = 1) -> Answers:
    return answer(cases, Comparing(RULES, tuple(changes)), processes, ignore_progress)


@pytest.fixture
def several(cases: dict[str, Case]) -> list[Case]:
    return [cases[JOBS], cases[TASKS]]


def test_progress_counts_all_pairs_of_cycles_and_changes(several: list[Case]) -> None:
    progress: list[int] = []
    answers = answer(several, Comparing(RULES, CHANGES), 1, progress.append)
    assert progress == [3, 6]
    assert [difference.total("cycles") for difference in answers.differences] == [2, 2, 2]
    assert answers.engines == {several[0].engine} and answers.failed == []


def test_totals_do_not_depend_on_the_number_of_cycles_per_job(several: list[Case]) -> None:
    comparing = Comparing(RULES, CHANGES)
    runs = [
        [(job, decide_job(job, comparing)) for job in _jobs([*several, *several], comparing, 1, size)]
        for size in (1, 2, 4)
    ]
    assert [len(run) for run in runs] == [4, 2, 1]
    by_one, by_two, by_four = (gathered(run, comparing, ignore_progress) for run in runs)
    assert by_one == by_two == by_four


def test_without_tasks_the_totals_are_the_same(several: list[Case]) -> None:
    answers = answer(several, Comparing(RULES, CHANGES, by_task=False), 1, ignore_progress)
    assert [difference.tasks for difference in answers.differences] == [{}, {}, {}]
    assert [difference.totals for difference in answers.differences] == [
        difference.totals for difference in answer_here(several).differences
    ]


def test_a_cycle_that_cannot_be_decided_is_named_and_the_others_are_decided(several: list[Case]) -> None:
    broken = dataclasses.replace(several[0].decisions[0], work=b"broken")
    damaged = dataclasses.replace(several[0], id="damaged", decisions=(broken,))
    answers = answer_here([damaged, several[1]])
    assert [difference.total("cycles") for difference in answers.differences] == [1, 1, 1]
    (reason,) = answers.failed
    assert reason.startswith("production_job at 2026-08-01T12:00:00") and "cannot be read" in reason
    assert [difference.total("cycles") for difference in answer_here([]).differences] == [0, 0, 0]


def test_results_are_added_up_in_the_order_of_the_cycles(several: list[Case]) -> None:
    comparing = Comparing(RULES, CHANGES)
    results = [(job, decide_job(job, comparing)) for job in _jobs(several, comparing, 1, 1)]
    answers = gathered(results[::-1], comparing, ignore_progress)
    assert answers == answer_here(several)
    assert list(answers.differences[0].totals) == [JOBS, TASKS]


def test_values_that_contradict_the_tuning_in_force_are_refused(several: list[Case]) -> None:
    with pytest.raises(ValueRefusedError, match="is larger than"):
        answer_here(several, [change("NQUEUED_SAT_CAP=1000000")])


def test_a_local_cluster_of_two_processes_gives_the_same_answers(several: list[Case]) -> None:
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        address = cluster.scheduler_address
        assert answer_on_cluster(several, Comparing(RULES, CHANGES), address, ignore_progress) == answer_here(several)
        with Client(address) as client:  # each worker unpacks a cycle once, whatever the values
            cached = client.run(lambda: list(deciding._cycle_cache))
        assert len(cached) == 2 and {1, 2} >= {len(keys) for keys in cached.values() if keys} != set()


def test_no_cluster_at_an_address(several: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.whatif.model.executor.CONNECT_WITHIN", "200ms")
    with pytest.raises(ClusterUnavailable, match="nobody answers"):
        answer_on_cluster(several, Comparing(RULES, CHANGES), "tcp://127.0.0.1:1", ignore_progress)
