"""Which nuclei could run the jobs of tasks: the filters of the job brokerage, applied to all tasks at once.

No nucleus is known yet, so rules that depend on one are left out, as are weights and places of single files.
Source: PanDA production brokerage, job check.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, IdentityCache, Ints, Texts, as_column, taken, texts
from broker.domain.queues import QueueTable
from broker.domain.work import Work
from broker.engine.job.count_facts import accounting_keys_of, counts_by_status
from broker.engine.job.data_facts import InputLimits, gather_data
from broker.engine.job.facts import CycleFacts, GridFacts, candidate_row, grid_facts, job_facts
from broker.engine.job.input_faults import INPUT_FAULTS
from broker.engine.job.steps import InitialList, JobSteps
from broker.engine.shared.evaluate import UNDECLARED, AnyFilter, evaluate, prepare, reason_codes
from broker.engine.shared.filter_cache import Evaluation, RuleFault
from broker.gdpconfig import Tuning
from broker.rules.contract import JobPairs
from broker.snapshot.snapshot import Snapshot

#: The gdpconfig keys that say which replicas are complete enough.
STEP_KEYS = ("MAX_MISSING_INPUT_FILES", "MIN_INPUT_COMPLETENESS", "IO_INTENSITY_CUTOFF")
SHIPPED_STEPS = JobSteps()
BLOCK_CELLS = 256 * 1024
LEAST_BLOCK = 64
_queues_of_nuclei = IdentityCache[dict[bytes, QueueTable]]()


@dataclass(frozen=True)
class DryRun:
    """Result of the job brokerage's dry run of T tasks at N nuclei.

    ``failed`` marks tasks without a result, with the reason in ``fault``. ``codes`` says how many of the nucleus's
    queues were rejected with which code; it is (1, 1) with None unless requested.
    """

    able_queues: Floats  # (T, N)
    queues: Floats  # (N,)
    failed: Bools  # (T,)
    fault: Texts  # (T,)
    codes: Texts
    rule_faults: tuple[RuleFault, ...]


def ask_jobs(
    snapshot: Snapshot,
    hint: Work,
    jeditaskid: Ints,
    wanted: Bools,
    filters: Sequence[AnyFilter],
    tuning: Tuning,
    steps: JobSteps = SHIPPED_STEPS,
    *,
    with_codes: bool = False,
) -> DryRun:
    """Ask the filters of the job brokerage which queues of the nuclei could run the tasks.

    Args:
        snapshot: the grid.
        hint: the first input of the tasks as chunks; a nucleus is able if it can run one chunk of the task.
        jeditaskid: (T,) the tasks.
        wanted: (T, N) the nuclei to check for each task.
        filters: of the job brokerage, without those that need a nucleus or read single files.
        tuning: of the VO of the tasks.
        steps: of the job brokerage.
        with_codes: count the codes of rejected queues; slow for many tasks.
    """
    grid = grid_facts(_at_nuclei(steps.snapshot_reading.read(snapshot), wanted, steps.initial_list))
    nucleus = grid.queues.nucleus
    position = {task: row for row, task in enumerate(jeditaskid.tolist())}
    task = np.array([position[jeditask] for jeditask in hint.chunks.jeditaskid.tolist()], dtype=np.int64)
    query = _DryRunQuery(grid, hint, task, wanted, filters, tuning, steps)
    feasible, reason = query.answers()
    fault = query.fault
    vetoes = steps.veto.reasons(hint.chunks, wanted[task][:, nucleus], grid.snapshot)
    names = [veto or INPUT_FAULTS[at] for veto, at in zip(vetoes, fault.tolist(), strict=True)]
    fault = np.array([bool(name) for name in names], dtype=np.int64)
    feasible[fault > 0] = False
    able = _able_queues(feasible, task, nucleus, wanted.shape)
    lost = np.bincount(task, weights=fault > 0, minlength=len(able)) == np.bincount(task, minlength=len(able))
    of_task = texts([""] * len(able))
    of_task[task[::-1]] = names[::-1]
    codes = _codes(reason, task, nucleus, reason_codes(filters), able.shape) if with_codes else texts([None])[:, None]
    return DryRun(
        able,
        np.bincount(nucleus, minlength=wanted.shape[1]).astype(np.float64),
        lost,
        np.where(lost, of_task, ""),
        codes,
        tuple(query.rule_faults),
    )


def _able_queues(feasible: Bools, task: Ints, nucleus: Ints, shape: tuple[int, ...]) -> Floats:
    """(T, N): how many queues of each nucleus remain, for the chunk of the task with most of them there.

    Args:
        feasible: (K, Q) the queues that remain for each chunk.
        task: (K,) of each chunk.
        nucleus: (Q,) of each queue.
        shape: (T, N).
    """
    able = np.zeros(shape)
    if not feasible.size:
        return able
    order = np.argsort(nucleus, kind="stable")
    known, first = np.unique(nucleus[order], return_index=True)
    counts = np.add.reduceat(feasible[:, order], first, axis=1, dtype=np.int32)
    most = np.zeros((shape[0], len(known)), dtype=np.int32)
    if len(np.unique(task)) == len(task):
        most[task] = counts
    else:
        np.maximum.at(most, task, counts)
    able[:, known] = most
    return able


def _at_nuclei(snapshot: Snapshot, wanted: Bools, initial: InitialList) -> Snapshot:
    """The snapshot with only the production queues of nuclei that some task wants."""
    queues = snapshot.queues
    usable = initial.everybody(snapshot) & (queues.nucleus >= 0)
    wanted_by_some = np.append(np.asarray(wanted.any(axis=0), dtype=np.bool_), False)
    usable &= wanted_by_some[queues.nucleus]  # -1 is the last one
    # the same table for as long as queues stay as they are, since other caches are keyed by its columns
    tables, key = _queues_of_nuclei.of((queues,), dict), usable.tobytes()
    table = tables.get(key)
    if table is None:
        table = taken(queues, np.flatnonzero(usable))
        tables.clear()
        tables[key] = table
    return dataclasses.replace(snapshot, queues=table)


class _DryRunQuery:
    """The dry run, prepared to be evaluated block by block."""

    def __init__(
        self,
        grid: GridFacts,
        hint: Work,
        task: Ints,
        wanted: Bools,
        filters: Sequence[AnyFilter],
        tuning: Tuning,
        job_steps: JobSteps,
    ) -> None:
        self._job_steps = job_steps
        self._grid, self._work, self._filters = grid, hint, filters
        self._wanted, self._task = wanted, task
        self._views, faults = prepare(
            filters, grid.snapshot, hint, {rule.name: tuning.only(rule.keys) for rule in filters}
        )
        steps = tuning.only(STEP_KEYS)
        limits = InputLimits(*(steps.number(key) for key in STEP_KEYS))
        self._data = gather_data(hint, grid.snapshot, limits, files_wanted=False)
        self.fault = self._data.fault
        self.rule_faults: list[RuleFault] = list(faults)

    def answers(self) -> tuple[Bools, AnyArray]:
        """(K, Q): the queues that remain for each chunk, and the index of the rule that rejected the others."""
        chunks, queues = len(self._work.chunks), len(self._grid.queues)
        size, cycle = max(LEAST_BLOCK, BLOCK_CELLS // max(1, queues)), self._cycle_facts()
        evaluations = [self._judged(slice(start, min(start + size, chunks)), cycle) for start in range(0, chunks, size)]
        self.rule_faults.extend(fault for block in evaluations for fault in block.faults)
        feasible = [np.zeros((0, queues), dtype=np.bool_), *(block.feasible for block in evaluations)]
        reason = [np.zeros((0, queues), dtype=np.int8), *(block.reason for block in evaluations)]
        return np.concatenate(feasible), np.concatenate(reason)

    def _judged(self, rows: slice, cycle: CycleFacts) -> Evaluation:
        snapshot = self._grid.snapshot
        counts = counts_by_status(snapshot, cycle.accounting_key[rows])
        facts = job_facts(self._work.chunks, rows, cycle, counts, self._grid, self._data, self._job_steps, 0.0)
        tasks = as_column(taken(self._work.chunks, rows))
        unusable = frozenset(state.name for state in snapshot.states if not state.usable)
        queues, positions = candidate_row(snapshot.queues), np.arange(len(snapshot.queues))
        pairs = JobPairs(tasks, queues, facts, UNDECLARED, np.arange(rows.start, rows.stop), positions)
        return evaluate(self._filters, pairs, self._views, unusable)

    def _cycle_facts(self) -> CycleFacts:
        chunks = self._work.chunks
        no_chunks = np.zeros(len(chunks), dtype=np.bool_)
        return CycleFacts(
            initial=self._wanted[self._task][:, self._grid.queues.nucleus],
            one_preassigned=no_chunks,
            listed=no_chunks,
            refused_names=[()] * len(chunks),
            accounting_key=accounting_keys_of(chunks, self._grid.snapshot.jobs.resource_work_queues),
            nucleus=np.full(len(chunks), -1, dtype=np.int64),
            hint=True,
        )


def _codes(reason: AnyArray, task: Ints, nucleus: Ints, codes: tuple[str, ...], shape: tuple[int, ...]) -> Texts:
    """(T, N): how many queues of the nucleus were rejected with which code, for the first chunk of each task."""
    reported = np.full(shape, None, dtype=np.object_)
    for chunk in range(len(task))[::-1]:
        for column in np.unique(nucleus):
            counts = Counter(codes[index] for index in reason[chunk, nucleus == column] if index >= 0)
            reported[task[chunk], column] = ", ".join(f"{code} {count}" for code, count in counts.most_common()) or None
    return reported
