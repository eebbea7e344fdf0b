"""Facts of the tasks of a cycle against all nuclei, gathered from the snapshot and the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, RowsByKind, codes_of
from broker.domain.grid import OutputEndpoints, StorageTable
from broker.domain.queues import BARE_NONE
from broker.domain.task_work import AssigningTable, TaskFacts, TaskWork
from broker.engine.task.data_facts import TaskData, all_work
from broker.engine.task.nucleus_feasibility import DryRun
from broker.engine.task.steps import FullChains, TaskSteps
from broker.snapshot.snapshot import Snapshot

SHIPPED_STEPS = TaskSteps()
SHIPPED_CHAINS = FullChains()
#: normalizedExpOutSize: GB written per core and day, for a core of the usual power in HS06. Source: ATLAS Production
#: Task Brokerage, space; PanDA production brokerage, storage check.
OUTPUT_GB_A_CORE_DAY, USUAL_CORE_HS06, DAY_S = 0.25, 10.0, 86_400.0


@dataclass(frozen=True)
class TaskGrounds:
    """Values of T tasks from which their facts are assembled.

    Attributes:
        columns: (C,) the nuclei that some task may have, of N.
        data: where their input is, at ``columns``.
        initial: (T, N) of :func:`initial_nuclei`.
        dry_run: the result of the job brokerage.
        share_work: (T, N) HS06 s that remain of the task's share at its priority and above.
    """

    columns: Ints
    data: TaskData
    initial: Bools
    dry_run: DryRun
    share_work: Floats


def task_facts(
    work: TaskWork, snapshot: Snapshot, endpoints: OutputEndpoints, given: TaskGrounds, steps: TaskSteps = SHIPPED_STEPS
) -> TaskFacts:
    """All facts of the tasks at the nuclei of ``given.columns``.

    Args:
        work: the tasks with their inputs and outputs.
        snapshot: the grid.
        endpoints: where their output would go.
        given: the values from which the facts are assembled.
        steps: the steps of the brokerage.
    """
    tasks, columns, data, dry_run = work.tasks, given.columns, given.data, given.dry_run
    everything = all_work(tasks, work.remaining, snapshot, steps.remaining_work_reading).at_columns(columns)
    expected_gb = everything.of_table(everything.table / USUAL_CORE_HS06 / DAY_S * OUTPUT_GB_A_CORE_DAY)
    chains = full_chains(tasks, snapshot, steps.full_chains)
    return TaskFacts(
        now_s=snapshot.now_s,
        initial=given.initial[:, columns],
        backlog_files=snapshot.links.total_queued[None, columns],
        **_storage_facts(work, snapshot, endpoints, chains, expected_gb, columns),
        expected_output_gb=expected_gb.table if len(expected_gb.table) == 1 else expected_gb.every,
        **dry_run_facts(dry_run, columns),
        examined=data.examined[:, None],
        total_bytes=data.total_bytes[:, None],
        total_files=data.total_files[:, None],
        disk_bytes=data.disk_bytes,
        disk_files=data.disk_files,
        any_bytes=data.any_bytes,
        any_files=data.any_files,
        bound_to=bound_nuclei(tasks, snapshot, steps.full_chains)[:, None],
        position=columns[None, :],
        share_work_hs06s=given.share_work[:, columns],
    )


def dry_run_facts(dry_run: DryRun, columns: Ints) -> dict[str, Any]:
    """The facts from the job brokerage's dry run of the tasks at the nuclei ``columns``."""
    return {
        "able_queues": dry_run.able_queues[:, columns],
        "queues": dry_run.queues[None, columns],
        "job_check_failed": dry_run.failed[:, None],
        "job_codes": dry_run.codes[:, columns] if dry_run.codes.shape[1] > 1 else dry_run.codes,
    }


def bound_nuclei(tasks: AssigningTable, snapshot: Snapshot, chains: FullChains) -> Ints:
    """(T,): the nucleus of the parent of a full-chain task if it is a bare one, else -1.

    Source: Special Brokerage for ATLAS Full-chain.
    """
    nuclei = snapshot.nuclei
    parent = codes_of(tasks.parent_nucleus, list(nuclei.name))
    is_bare = np.append(nuclei.bare != BARE_NONE, False)[parent]  # -1 is the last one
    follows = (tasks.full_chain > 0) & is_bare
    if chains.options.parent == "of_full_chain":
        follows &= tasks.parent_full_chain > 0
    return np.where(follows, parent, -1)


def full_chains(tasks: AssigningTable, snapshot: Snapshot, chains: FullChains) -> Bools:
    """(T,): tasks of full chains; a ``capable`` one without a parent on a bare nucleus is like any other task.

    Source: Special Brokerage for ATLAS Full-chain.
    """
    if chains.options.capable == "always":
        return np.asarray(tasks.full_chain > 0)
    return np.asarray(np.isin(tasks.full_chain, (1, 2)) | (bound_nuclei(tasks, snapshot, chains) >= 0))


def initial_nuclei(tasks: AssigningTable, snapshot: Snapshot, chains: FullChains = SHIPPED_CHAINS) -> Bools:
    """(T, N): all nuclei; for full chains also satellites that serve as a bare one.

    A preset nucleus is the only one. Source: Special Brokerage for ATLAS Full-chain.
    """
    nuclei = snapshot.nuclei
    chain = full_chains(tasks, snapshot, chains)
    initial = nuclei.is_nucleus[None, :] | (chain[:, None] & (nuclei.bare != BARE_NONE)[None, :])
    preset = preset_nuclei(tasks, snapshot)
    only = preset[:, None] == np.arange(len(nuclei))[None, :]
    return np.asarray(np.where((preset >= 0)[:, None], only, initial), dtype=np.bool_)


def preset_nuclei(tasks: AssigningTable, snapshot: Snapshot) -> Ints:
    """(T,): the nucleus that a task has already, -1 for none or an unknown one."""
    return codes_of(tasks.nucleus, list(snapshot.nuclei.name))


def _storage_facts(
    work: TaskWork,
    snapshot: Snapshot,
    endpoints: OutputEndpoints,
    chains: Bools,
    expected_gb: RowsByKind,
    columns: Ints,
) -> dict[str, Any]:
    """Facts of the output storages, computed once for each distinct set of tokens and expected output."""
    tasks, storages, own = work.tasks, snapshot.storages, endpoints.own[:, columns]
    checked = np.where(endpoints.has_secondary[None, columns], endpoints.secondary[:, columns], own)
    tokens: list[set[int]] = [set() for _ in range(len(tasks))]
    for task, token in zip(work.outputs.task.tolist(), endpoints.token.tolist(), strict=True):
        if token >= 0:
            tokens[task].add(token)
    kinds = expected_gb.kinds.tolist()
    keys = [(frozenset(wanted), bool(chain), kind) for wanted, chain, kind in zip(tokens, chains, kinds, strict=True)]
    rows = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    demand = np.floor(expected_gb.table)
    facts = [
        _places(storages, (checked if chain else own)[sorted(wanted)], demand[kind]) for wanted, chain, kind in rows
    ]
    at = np.array([rows[key] for key in keys], dtype=np.int64)
    names = (
        *("has_storages", "storages_send", "storages_receive", "usable_gb", "free_gb", "expired_gb", "total_gb"),
        *("left_gb", "tightest_left_gb", "tightest_total_gb"),
    )
    if not facts:
        facts = [_places(storages, own[:0], demand[0])]
    return {name: np.stack([places[index] for places in facts])[at] for index, name in enumerate(names)}


def _places(storages: StorageTable, places: Ints, demand_gb: Floats) -> tuple[AnyArray, ...]:
    """Facts by nucleus of the endpoints ``places`` (K, N), one per token; ``demand_gb`` is (N,)."""
    known = places >= 0

    def column(values: Floats) -> Floats:
        return np.append(values, np.nan)[places]  # -1 is the last one

    free, total = column(storages.space_free_gb), column(storages.space_total_gb)
    expired = np.nan_to_num(column(storages.space_expired_gb))
    usable = np.where(known, free + expired, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction = np.where(total > 0, usable / total, np.inf)
    tightest = fraction.argmin(axis=0) if len(places) else np.zeros(places.shape[1], dtype=np.int64)

    def of_tightest(values: Floats) -> Floats:
        return (
            np.take_along_axis(values, tightest[None, :], axis=0)[0] if len(places) else np.full(len(tightest), np.nan)
        )

    return (
        np.asarray(known.all(axis=0)),
        (~known | np.append(storages.read_wan, True)[places]).all(axis=0),
        (~known | np.append(storages.write_wan, True)[places]).all(axis=0),
        usable.min(axis=0, initial=np.inf),
        of_tightest(free),
        of_tightest(expired),
        of_tightest(total),
        *_left(storages, places, demand_gb),
    )


def _left(storages: StorageTable, places: Ints, demand_gb: Floats) -> tuple[Floats, Floats, Floats]:
    """(N,) three times: usable space less expected output in whole GB, the least and that of the tightest storage.

    The third is the size of the tightest storage; NaN where no size is known.
    """
    if not len(places):
        nothing = np.full(places.shape[1], np.nan)
        return np.full(places.shape[1], np.inf), nothing, nothing
    feasible = np.where(places >= 0, np.append(storages.space_usable_gb, 0.0)[places], np.inf) - demand_gb[None, :]
    total = np.append(storages.space_total_gb, np.nan)[places]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(total > 0, feasible / total, np.inf)
    tightest = part.argmin(axis=0)[None, :]
    known = np.isfinite(np.take_along_axis(part, tightest, axis=0)[0])

    def at(values: Floats) -> Floats:
        return np.where(known, np.take_along_axis(values, tightest, axis=0)[0], np.nan)

    return feasible.min(axis=0), at(feasible), at(total)
