"""Facts of the tasks of a cycle against all nuclei, gathered from the snapshot and the work."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, Texts, codes_of, distinct, texts
from broker.domain.grid import StorageTable
from broker.domain.output_endpoints import OutputEndpoints
from broker.domain.queues import BARE_NONE
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable, RemainingTable, TaskWork
from broker.engine.job.count_facts import share_tags
from broker.engine.task.data_facts import TaskData
from broker.engine.task.nucleus_feasibility import DryRun
from broker.engine.task.steps import FullChains, RemainingWorkReading, TaskSteps
from broker.snapshot.snapshot import Snapshot

#: normalizedExpOutSize: GB written for a day of a core, of the usual power in HS06. Source: ATLAS Production Task
#: Brokerage, space; PanDA production brokerage, storage check.
SHIPPED_STEPS = TaskSteps()
SHIPPED_CHAINS = FullChains()
OUTPUT_GB_A_CORE_DAY, USUAL_CORE_HS06, DAY_S = 0.25, 10.0, 86_400.0


def task_facts(
    work: TaskWork,
    snapshot: Snapshot,
    endpoints: OutputEndpoints,
    data: TaskData,
    initial: Bools,
    dry_run: DryRun,
    steps: TaskSteps = SHIPPED_STEPS,
) -> TaskFacts:
    """All facts of the tasks.

    Args:
        work: the tasks with what belongs to them.
        snapshot: the grid.
        endpoints: where their output would go.
        data: where their input is.
        initial: (T, N) of :func:`initial_nuclei`.
        dry_run: what the job brokerage says.
        steps: of the brokerage.
    """
    tasks, nuclei = work.tasks, snapshot.nuclei
    remaining = as_read(work.remaining, steps.remaining_work_reading)
    everything = remaining_work(remaining, list(nuclei.name), np.ones(len(remaining), dtype=np.bool_))
    expected_gb = everything / USUAL_CORE_HS06 / DAY_S * OUTPUT_GB_A_CORE_DAY
    return TaskFacts(
        now_s=snapshot.now_s,
        initial=initial,
        backlog_files=snapshot.links.total_queued[None, :],
        **_storage_facts(work, snapshot, endpoints, full_chains(tasks, snapshot, steps.full_chains), expected_gb),
        expected_output_gb=expected_gb[None, :],
        able_queues=dry_run.able_queues,
        queues=dry_run.queues[None, :],
        job_check_failed=dry_run.failed[:, None],
        job_codes=dry_run.codes,
        examined=data.examined[:, None],
        total_bytes=data.total_bytes[:, None],
        total_files=data.total_files[:, None],
        disk_bytes=data.disk_bytes,
        disk_files=data.disk_files,
        any_bytes=data.any_bytes,
        any_files=data.any_files,
        bound_to=bound_nuclei(tasks, snapshot, steps.full_chains)[:, None],
        position=np.arange(len(nuclei), dtype=np.int64)[None, :],
        share_work_hs06s=_share_work(tasks, remaining, snapshot, steps.remaining_work_reading),
    )


def as_read(remaining: RemainingTable, reading: RemainingWorkReading) -> RemainingTable:
    """The work that remains as the brokerage reads it."""
    if reading.options.milli_units == "scaled" or not len(remaining.hs06s_as_stored):
        return remaining
    return dataclasses.replace(remaining, hs06s=remaining.hs06s_as_stored)


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

    A nucleus that was set beforehand is the only one. Source: Special Brokerage for ATLAS Full-chain.
    """
    nuclei = snapshot.nuclei
    chain = full_chains(tasks, snapshot, chains)
    initial = nuclei.is_nucleus[None, :] | (chain[:, None] & (nuclei.bare != BARE_NONE)[None, :])
    preset = preset_nuclei(tasks, snapshot)
    only = preset[:, None] == np.arange(len(nuclei))[None, :]
    return np.asarray(np.where((preset >= 0)[:, None], only, initial), dtype=np.bool_)


def preset_nuclei(tasks: AssigningTable, snapshot: Snapshot) -> Ints:
    """(T,): the nucleus that a task has already, -1 for none or one that is not known."""
    return codes_of(tasks.nucleus, list(snapshot.nuclei.name))


def remaining_work(remaining: RemainingTable, nuclei: list[str | None], rows: Bools) -> Floats:
    """(N,): HS06 s that remain at each nucleus, of the rows chosen."""
    nucleus = codes_of(remaining.nucleus, nuclei)
    chosen = rows & (nucleus >= 0)
    sums = np.bincount(nucleus[chosen], weights=np.nan_to_num(remaining.hs06s[chosen]), minlength=len(nuclei))
    return sums.astype(np.float64)


def task_tags(tasks: AssigningTable, snapshot: Snapshot) -> Texts:
    """(T,): the name under which a task's work is counted, with its VO in front."""
    return _accounting_keys(tasks.vo, tasks.gshare, tasks.workqueue_id, snapshot.jobs.resource_work_queues)


def _accounting_keys(vos: Texts, shares: Texts, work_queues: Floats, special: frozenset[int]) -> Texts:
    accounting_keys = share_tags(shares, work_queues, special)
    pairs = zip(vos.tolist(), accounting_keys.tolist(), strict=True)
    return texts(f"{vo or ''}\0{accounting_key}" for vo, accounting_key in pairs)


def _share_work(
    tasks: AssigningTable, remaining: RemainingTable, snapshot: Snapshot, reading: RemainingWorkReading
) -> Floats:
    """(T, N): the work of the task's share at its priority and above; a task without priority is below all."""
    known, code = distinct(task_tags(tasks, snapshot))
    special = snapshot.jobs.resource_work_queues
    accounting_key = codes_of(_accounting_keys(remaining.vo, remaining.gshare, remaining.workqueue_id, special), known)
    priority = np.nan_to_num(tasks.currentpriority, nan=-np.inf)
    theirs = np.nan_to_num(remaining.currentpriority, nan=-np.inf)
    if special and reading.options.without_work_queue == "not_beside_resource_queues":
        accounting_key = np.where(np.isnan(remaining.workqueue_id), -1, accounting_key)
    nucleus, hs06s = codes_of(remaining.nucleus, list(snapshot.nuclei.name)), np.nan_to_num(remaining.hs06s)
    accounting_key[nucleus < 0] = -1
    of_share = [np.flatnonzero(accounting_key == kind) for kind in range(len(known))]
    pairs = list(zip(code.tolist(), priority.tolist(), strict=True))
    place = {pair: index for index, pair in enumerate(dict.fromkeys(pairs))}
    table = np.zeros((len(place), len(snapshot.nuclei)))
    for (kind, least), index in place.items():
        rows = of_share[kind][theirs[of_share[kind]] >= least]
        table[index] = np.bincount(nucleus[rows], weights=hs06s[rows], minlength=table.shape[1])
    return table[[place[pair] for pair in pairs]]


def _storage_facts(
    work: TaskWork, snapshot: Snapshot, endpoints: OutputEndpoints, chains: Bools, expected_gb: Floats
) -> dict[str, Any]:
    """Facts of the storages for the output, worked out once for each distinct set of tokens."""
    tasks, storages = work.tasks, snapshot.storages
    checked = np.where(endpoints.has_secondary[None, :], endpoints.secondary, endpoints.own)
    tokens: list[set[int]] = [set() for _ in range(len(tasks))]
    for task, token in zip(work.outputs.task.tolist(), endpoints.token.tolist(), strict=True):
        if token >= 0:
            tokens[task].add(token)
    keys = [(frozenset(wanted), bool(chain)) for wanted, chain in zip(tokens, chains, strict=True)]
    rows = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    demand = np.floor(expected_gb)
    found = [_places(storages, (checked if chain else endpoints.own)[sorted(wanted)], demand) for wanted, chain in rows]
    at = np.array([rows[key] for key in keys], dtype=np.int64)
    names = (
        *("has_storages", "storages_send", "storages_receive", "usable_gb", "free_gb", "expired_gb", "total_gb"),
        *("left_gb", "tightest_left_gb", "tightest_total_gb"),
    )
    if not found:
        found = [_places(storages, endpoints.own[:0], demand)]
    return {name: np.stack([places[index] for places in found])[at] for index, name in enumerate(names)}


def _places(storages: StorageTable, places: Ints, demand_gb: Floats) -> tuple[AnyArray, ...]:
    """What holds at each nucleus for the endpoints ``places`` (K, N), one for each token; ``demand_gb`` is (N,)."""
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
    """(N,) three times: usable space less what is expected, in whole GB: the least, and that of the tightest storage.

    The third is the size of the tightest one; NaN where no size is known.
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
