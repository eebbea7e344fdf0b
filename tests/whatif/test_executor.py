"""The work of many cycles and values split up: here, over processes, and over a local Dask cluster."""

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


def silent(done: int) -> None:
    pass


def here(cases: Sequence[Case], changes: Sequence[Change] = CHANGES, processes: int = 1) -> Answers:
    return answer(cases, Comparing(RULES, tuple(changes)), processes, silent)


@pytest.fixture
def several(cases: dict[str, Case]) -> list[Case]:
    return [cases[JOBS], cases[TASKS]]


def test_progress_ends_at_all_pairs(several: list[Case]) -> None:
    told: list[int] = []
    found = answer(several, Comparing(RULES, CHANGES), 1, told.append)
    assert told == [3, 6]
    assert [one.total("cycles") for one in found.differences] == [2, 2, 2]
    assert found.engines == {several[0].engine} and found.failed == []


def test_cycles_of_one_run_are_added_up_as_those_of_several(several: list[Case]) -> None:
    what = Comparing(RULES, CHANGES)
    runs = [[(job, decide_job(job, what)) for job in _jobs([*several, *several], what, 1, size)] for size in (1, 2, 4)]
    assert [len(run) for run in runs] == [4, 2, 1]
    one, two, four = (gathered(run, what, silent) for run in runs)
    assert one == two == four


def test_without_tasks_the_totals_are_the_same(several: list[Case]) -> None:
    found = answer(several, Comparing(RULES, CHANGES, by_task=False), 1, silent)
    assert [one.tasks for one in found.differences] == [{}, {}, {}]
    assert [one.totals for one in found.differences] == [one.totals for one in here(several).differences]


def test_a_cycle_that_cannot_be_decided_is_named_and_the_others_are_decided(several: list[Case]) -> None:
    broken = dataclasses.replace(several[0].decisions[0], work=b"broken")
    damaged = dataclasses.replace(several[0], id="damaged", decisions=(broken,))
    found = here([damaged, several[1]])
    assert [one.total("cycles") for one in found.differences] == [1, 1, 1]
    (why,) = found.failed
    assert why.startswith("production_job at 2026-08-01T12:00:00") and "cannot be read" in why
    assert [one.total("cycles") for one in here([]).differences] == [0, 0, 0]


def test_results_are_added_up_in_the_order_of_the_cycles(several: list[Case]) -> None:
    what = Comparing(RULES, CHANGES)
    done = [(job, decide_job(job, what)) for job in _jobs(several, what, 1, 1)]
    found = gathered(done[::-1], what, silent)
    assert found == here(several)
    assert list(found.differences[0].totals) == [JOBS, TASKS]


def test_values_that_contradict_those_in_force_end_it(several: list[Case]) -> None:
    with pytest.raises(ValueRefusedError, match="is larger than"):
        here(several, [change("NQUEUED_SAT_CAP=1000000")])


def test_a_local_cluster_of_two_processes_finds_the_same(several: list[Case]) -> None:
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        address = cluster.scheduler_address
        assert answer_on_cluster(several, Comparing(RULES, CHANGES), address, silent) == here(several)
        with Client(address) as client:  # what each of the two has unpacked: a cycle once, whatever the values
            kept = client.run(lambda: list(deciding._kept))
        assert len(kept) == 2 and {1, 2} >= {len(keys) for keys in kept.values() if keys} != set()


def test_no_cluster_at_an_address(several: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.whatif.model.executor.CONNECT_WITHIN", "200ms")
    with pytest.raises(ClusterUnavailable, match="nobody answers"):
        answer_on_cluster(several, Comparing(RULES, CHANGES), "tcp://127.0.0.1:1", silent)
