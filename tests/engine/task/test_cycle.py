"""The task brokerage with missing sources or broken rules, and its dry run in the job brokerage."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from broker.brokerages.production_job import brokerage as production_job
from broker.brokerages.production_task import brokerage as production_task
from broker.brokerages.production_task.assign import AssignedTask, assign_tasks
from broker.brokerages.production_task.brokerage import dry_run_filters
from broker.codec.task_work_codec import task_of
from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import FunnelStep, Observation
from broker.engine.shared.chain import NucleusChain
from broker.engine.task.cycle import TaskCycle
from broker.engine.task.nucleus_feasibility import ask_jobs
from broker.gdpconfig import Tuning
from broker.rules.contract import Filter, NucleusLoadWeight, TaskPairs, Weight
from broker.store.connection.database import Database
from broker.store.scenarios.scenario_file import Scenario
from tests.brokerages.production_task.test_assign import cycle_of
from tests.brokerages.small_grid import GB, NOW, TASK, Row, dataset, input_files, replica
from tests.brokerages.task_engine import task_cycle
from tests.brokerages.task_grid import busy, outputs, pseudo_input, task_scenario, waiting


def with_rules(cycle: TaskCycle, chain: NucleusChain, unusable: str | None = None) -> TaskCycle:
    """A cycle of the same tasks with other rules or without a source."""
    snapshot = cycle.snapshot
    if unusable is not None:
        states = tuple(
            dataclasses.replace(state, state="missing") if state.name == unusable else state
            for state in snapshot.states
        )
        snapshot = dataclasses.replace(snapshot, states=states)
    return task_cycle(snapshot, cycle.work, cycle.tuning, chain, production_job.chain(), independent=True)


def only(cycle: TaskCycle) -> AssignedTask:
    (assigned_task,) = assign_tasks(cycle, 1)
    return assigned_task


@pytest.mark.parametrize(
    ("source", "rejected", "note"),
    [
        ("links", {}, "source_missing:links"),
        ("storages", {"ALPHA": "unknown_match", "BETA": "unknown_match"}, "source_missing:storages"),
        ("replicas", {}, "source_missing:replicas"),
    ],
)
def test_missing_sources(database: Database, source: str, rejected: dict[str, str], note: str) -> None:
    cycle = cycle_of(database, task_scenario())
    decision = only(with_rules(cycle, production_task.chain(), source)).decision
    assert decision.rejected == rejected and note in decision.notes


class Broken(Filter[TaskPairs]):
    """A filter that raises."""

    name = code = "broken"
    title = "broken"

    def keep(self, *_: Any) -> Bools:
        raise ArithmeticError("on purpose")

    def observe(self, *_: Any) -> Observation:
        raise ArithmeticError("on purpose")


class BrokenWeight(Weight[TaskPairs]):
    """A weight that raises."""

    name = code = "broken_weight"
    title = "broken"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def factor(self, *_: Any) -> Floats:
        raise self.error


class NoNumber(Weight[TaskPairs]):
    """A weight that is no number for the first nucleus."""

    name = code = "no_number"
    title = "no number"

    def factor(self, pairs: TaskPairs) -> Floats:
        return np.where(pairs.nuclei.name == "ALPHA", np.nan, 1.0)


class Negative(NucleusLoadWeight):
    """A load weight below 0."""

    name = code = "negative"
    title = "negative"

    def factor(self, remaining_work_hs06s: Floats) -> Floats:
        return -np.ones_like(remaining_work_hs06s)


def test_a_broken_filter_rejects_and_is_noted(database: Database) -> None:
    cycle = cycle_of(database, task_scenario())
    shipped = production_task.chain()
    decision = only(with_rules(cycle, dataclasses.replace(shipped, filters=(Broken(), *shipped.filters)))).decision
    assert set(decision.rejected.values()) == {"unknown_broken"} and "rule_fault:broken" in decision.notes
    assert decision.outcome == "pending"


@pytest.mark.parametrize("error", [ArithmeticError("on purpose"), SystemExit(7)])
def test_a_broken_weight_has_no_effect_and_is_noted(database: Database, error: BaseException) -> None:
    cycle = cycle_of(database, task_scenario())
    shipped = production_task.chain()
    decision = only(
        with_rules(cycle, dataclasses.replace(shipped, weights=(*shipped.weights, BrokenWeight(error))))
    ).decision
    assert {candidate.name: candidate.weight for candidate in decision.candidates} == pytest.approx(
        {"ALPHA": 2.0, "BETA": 0.5}
    )
    assert "rule_fault:broken_weight" in decision.notes


def test_a_nucleus_whose_weight_is_no_number_is_rejected(database: Database) -> None:
    cycle = cycle_of(database, task_scenario())
    shipped = production_task.chain()
    decision = only(with_rules(cycle, dataclasses.replace(shipped, weights=(*shipped.weights, NoNumber())))).decision
    assert decision.rejected == {"ALPHA": "weight_unknown"}
    assert [candidate.name for candidate in decision.candidates] == ["BETA"]
    assert decision.funnel == (FunnelStep("weight_unknown", 2, 1),)


def test_without_any_usable_weight_the_task_waits(database: Database) -> None:
    cycle = cycle_of(database, task_scenario())
    chain = dataclasses.replace(production_task.chain(), load_weights=(Negative(),))
    decision = only(with_rules(cycle, chain)).decision
    assert (decision.outcome, decision.reason) == ("pending", "no_candidates")
    assert decision.rejected == {"ALPHA": "weight_unknown", "BETA": "weight_unknown"}


def test_all_weights_zero_takes_the_first_by_name(database: Database) -> None:
    class Nothing(Weight[TaskPairs]):
        name = code = "nothing"
        title = "nothing"

        def factor(self, *_: Any) -> Floats:
            return np.zeros((1, 1))

    cycle = cycle_of(database, task_scenario())
    chain = dataclasses.replace(production_task.chain(), weights=(Nothing(),))
    for seed in range(5):
        (assigned_task,) = assign_tasks(with_rules(cycle, chain), seed)
        assert assigned_task.decision.candidates[0].name == "ALPHA"


def test_a_dry_run_of_all_tasks_equals_one_of_each_task(database: Database) -> None:
    """40 tasks of different memory and cores, together and alone."""
    names = range(TASK, TASK + 40)
    scenario = task_scenario(
        jedi_tasks=[
            waiting(jeditaskid=name, ramcount=250 * (1 + at % 13), corecount=(8, 1, 0)[at % 3])
            for at, name in enumerate(names)
        ],
        jedi_datasets=[
            row for name in names for row in (pseudo_input(jeditaskid=name, datasetid=name), *outputs(name, 10 * name))
        ],
        jedi_dataset_contents=[
            {**row, "jeditaskid": name, "datasetid": name, "fileid": row["fileid"] + 10 * name}
            for name in names
            for row in input_files(2, 0, type="pseudo_input", fsize=None)
        ],
    )
    cycle = cycle_of(database, scenario)
    work, filters = cycle.work, dry_run_filters(production_job.chain())
    initial = cycle.initial
    together = ask_jobs(cycle.snapshot, work.hint, work.tasks.jeditaskid, initial, filters, Tuning.defaults())
    assert 0 < together.able_queues.sum() < initial.sum()
    for row in range(len(work.tasks)):
        task_work = task_of(work, row)
        alone = ask_jobs(
            cycle.snapshot,
            task_work.hint,
            task_work.tasks.jeditaskid,
            initial[[row]],
            filters,
            Tuning.defaults(),
            with_codes=True,
        )
        assert (alone.able_queues[0] == together.able_queues[row]).all()
        assert all(alone.codes[0, at] is not None for at in np.flatnonzero(initial[row] & (alone.able_queues[0] == 0)))


def test_a_dry_run_has_at_most_ten_files_and_no_scouts(database: Database) -> None:
    scenario = task_scenario(
        jedi_tasks=[waiting(splitrule="NF=1,US=2")],
        jedi_datasets=[dataset(30, nevents=100, state="mutable"), *outputs()],
        jedi_dataset_contents=input_files(30, GB),
        dataset_replicas=[replica("ALPHA", 30, 30)],
    )
    hint = cycle_of(database, scenario).work.hint
    assert hint.chunks.n_files.tolist() == [10] and not hint.chunks.scout.any()


def test_a_nucleus_able_to_run_one_chunk_is_able(database: Database) -> None:
    """Half of the files need more memory than any queue has: two chunks, one of which can run."""
    files = input_files(6, 0, type="pseudo_input", fsize=None)
    for row in files[3:]:
        row["ramcount"] = 50_000
    cycle = cycle_of(database, task_scenario(jedi_datasets=[pseudo_input(6), *outputs()], jedi_dataset_contents=files))
    assert len(cycle.work.hint.chunks) == 2
    assert cycle.facts.able_queues[0, :2].tolist() == [1.0, 1.0]


def test_the_expected_output_of_the_work_of_a_nucleus(database: Database) -> None:
    """A quarter of a GB per day of a core of 10 HS06: 6,912,000 HS06 s are 8 days of a core, 2 GB."""
    task, work = busy(101, "ALPHA", 69_120, gshare="Other", currentpriority=1)
    cycle = cycle_of(database, task_scenario(jedi_tasks=[waiting(), task], jedi_datasets=[pseudo_input(), work]))
    assert cycle.facts.expected_output_gb[0].tolist() == pytest.approx([2.0, 0.0])


def test_placed_work_is_forgotten_between_independent_tasks(database: Database) -> None:
    task, work = busy(101, "ALPHA", 10)
    cycle = cycle_of(database, task_scenario(jedi_tasks=[waiting(), task], jedi_datasets=[pseudo_input(), work]))
    before = cycle.remaining_work(0).copy()
    cycle.place(0, 0)
    assert (cycle.remaining_work(0) == before).all()
    assert cycle.snapshot.taken_at == NOW


def with_release(**tables: list[Row]) -> Scenario:
    """A task with a database release, which does not count for the locality."""
    release = dataset(5, datasetid=8500, masterid=8000, datasetname="ddo:ddo.1.release", nevents=0)
    return task_scenario(
        jedi_datasets=[dataset(5, nevents=100), release, *outputs()],
        jedi_dataset_contents=[
            *input_files(5, GB),
            *({**row, "datasetid": 8500} for row in input_files(5, GB)),
        ],
        dataset_replicas=[replica("ALPHA", 5, 5)],
        **tables,
    )


def test_a_failed_dry_run_leaves_no_able_queues(database: Database) -> None:
    """The catalogue knows the release but no complete replica: no job can run without it."""
    metadata = {"scope": "ddo", "name": "ddo.1.release", "did_type": "DATASET", "length": 5, "rule_groupings": ["ALL"]}
    cycle = cycle_of(database, with_release(dataset_metadata=[metadata]))
    assert cycle.dry_run.failed.tolist() == [True] and cycle.dry_run.fault.tolist() == ["no_complete_replica"]
    assert not cycle.dry_run.able_queues.any()
    decision = only(cycle).decision
    assert decision.reason == "job_check_failed" and "job_check:no_complete_replica" in decision.notes


def test_the_dry_run_looks_up_no_files(database: Database) -> None:
    """A secondary dataset unknown to the catalogue does not fail the dry run."""
    cycle = cycle_of(database, with_release())
    assert cycle.dry_run.failed.tolist() == [False] and cycle.dry_run.able_queues[0, :2].tolist() == [1.0, 1.0]
    assert only(cycle).nucleus is not None
