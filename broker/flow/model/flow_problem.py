"""The linear program of a cycle from the engine's facts: feasible queues, jobs, room, links and shares.

The figures are those of the rules, so that the program breaks no limit that a rule enforces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from broker.brokerages.job.chunk_jobs import QueueLimits
from broker.domain.arrays import Floats, Ints, distinct, texts
from broker.domain.estimates import DEFAULT_COREPOWER_HS06
from broker.domain.queue_capacity import QueueSums
from broker.domain.work import WorkTable
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.flow.model.problem import FlowChunks, FlowCosts, FlowPairs, FlowProblem, FlowQueues
from broker.gdpconfig import Tuning
from broker.gdpconfig.catalogue import Value
from broker.rules.production_job.cuts.cap import Cap
from broker.rules.production_job.filters.link_full import CAP, LinkFull
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.global_share_targets import SHARE_TARGETS
from broker.snapshot.sources.queue_capacity import QUEUE_CAPACITY, LearnedCapacity
from broker.work.assemble import CycleWork
from broker.work.cut_jobs import core_count
from broker.work.job_model import CutLimits

BYTE_PRICE, UNPLACED_HOURS, SHARE_PRICE = "FLOW_BYTE_PRICE", "FLOW_UNPLACED_HOURS", "FLOW_SHARE_PRICE"
LINK_WINDOW, INPUT_RATE, JOB_HOURS = "FLOW_LINK_WINDOW", "FLOW_INPUT_RATE", "FLOW_JOB_HOURS"
TIME_LIMIT = "FLOW_TIME_LIMIT"
CAPACITY, CAPACITY_PRIOR = "LEARNED_CAPACITY", "LEARNED_CAPACITY_PRIOR"
#: The gdpconfig keys of the program.
FLOW_KEYS = (
    BYTE_PRICE,
    UNPLACED_HOURS,
    SHARE_PRICE,
    LINK_WINDOW,
    INPUT_RATE,
    JOB_HOURS,
    TIME_LIMIT,
    CAPACITY,
    CAPACITY_PRIOR,
)
_READ = (*FLOW_KEYS, CAP)
URGENT = "\turgent"
#: Positions on the last axis of the job counts: running jobs, and the waiting ones before them.
_RUNNING, _WAITING = 4, slice(0, 4)


Requirements = tuple[int, float, float, float]
"""The jobs of one chunk: their number, and per job the cores, CPU work (HS06 s) and input (GB)."""


@dataclass(frozen=True)
class CycleProgram:
    """A program with the meaning of its indices.

    Attributes:
        problem: the program of the cycle.
        row: (K,) position of each chunk in the work of the cycle.
        candidate: (P,) position of each pair in the snapshot's queue table.
        shares: (S,) names of the shares; those of express chunks end with ``URGENT``.
    """

    problem: FlowProblem
    row: Ints
    candidate: Ints
    shares: tuple[str, ...]


@dataclass(frozen=True)
class _AtQueues:
    """Costs and limits of one chunk at its feasible queues, (N,) each.

    ``room``: jobs that may still wait there; ``rate_gb_s``: rate of reading input; ``output_files``: files until the
    cap of the link to the nucleus, infinite without one.
    """

    candidate: Ints
    missing: Floats
    rate_gb_s: Floats
    room: Floats
    output_files: Floats
    output_from: Ints


def program_of(
    cycle: JobCycle,
    results: Sequence[ChunkResult],
    work: CycleWork,
    candidates: Sequence[Ints] | None = None,
    prices: Mapping[str, Value] | None = None,
) -> CycleProgram:
    """The program over the chunks that have any candidate.

    Args:
        cycle: the cycle, in which every chunk meets the grid of the snapshot.
        results: the results of its chunks.
        work: the chunks with their files.
        candidates: sorted candidates of each result; by default those it has chosen.
        prices: values of :data:`FLOW_KEYS` that override the tuning.
    """
    snapshot, chunks = cycle.snapshot, work.work.chunks
    by_result = [np.sort(one.chosen) for one in results] if candidates is None else candidates
    placeable = [(one, at) for one, at in zip(results, by_result, strict=True) if len(at)]
    included = [one for one, _ in placeable]
    limits, tuned = QueueLimits(chunks, snapshot.queues), _Tuned(cycle, prices or {})
    at_queues = [_at_queues(cycle, one, at, tuned(one.row)) for one, at in placeable]
    requirements = [
        _requirements(cycle, one.row, _usual(one, at), work, limits, tuned(one.row)) for one, at in placeable
    ]
    row = np.array([one.row for one in included], dtype=np.int64)
    share, names = _shares(included)
    chunk = np.repeat(np.arange(len(included)), [len(one.candidate) for one in at_queues]).astype(np.int64)
    candidate = _joined([one.candidate for one in at_queues], np.int64)
    unified = snapshot.queues.unified[candidate]
    output, output_files = _outputs(cycle, included, at_queues)
    tuning = tuned(None)
    room = _room(at_queues, chunk, unified, share, len(names), len(snapshot.unified))
    problem = FlowProblem(
        chunks=_chunks(chunks, row, requirements, share),
        queues=learned_queues(_queues(snapshot, room), snapshot, tuning),
        pairs=FlowPairs(
            chunk=chunk,
            queue=unified.astype(np.int64),
            missing=_joined([one.missing for one in at_queues], np.float64),
            rate_gb_s=_joined([one.rate_gb_s for one in at_queues], np.float64),
            output=output,
        ),
        link_gb=_site_input_gb(snapshot, tuning.number(LINK_WINDOW)),
        output_jobs=output_files,
        share_debt_hs06=share_debts(snapshot, names),
        costs=_costs(tuning, [tuned(int(one)) for one in row]),
    )
    return CycleProgram(problem, row, candidate, tuple(names))


def _chunks(chunks: WorkTable, row: Ints, requirements: Sequence[Requirements], share: Ints) -> FlowChunks:
    jobs, cores, work_hs06s, input_gb = np.array(requirements, dtype=np.float64).reshape(-1, 4).T
    return FlowChunks(
        key=chunks.jeditaskid[row],
        jobs=jobs.astype(np.int64),
        cores=cores,
        work_hs06s=work_hs06s,
        input_gb=input_gb,
        share=share,
        priority=np.nan_to_num(chunks.currentpriority[row]),
    )


class _Tuned:
    """The tuning of a chunk, or the common one, overridden by the given prices; most chunks share one tuning."""

    def __init__(self, cycle: JobCycle, prices: Mapping[str, Value]) -> None:
        self._cycle, self._prices = cycle, prices
        self._known: list[tuple[Tuning, Tuning]] = []

    def __call__(self, row: int | None) -> Tuning:
        tuning = self._cycle.tuning if row is None else self._cycle.tuning_of(row)
        for original, overridden in self._known:
            if original is tuning:
                return overridden
        overridden = (tuning.with_values(self._prices) if self._prices else tuning).only(_READ)
        self._known.append((tuning, overridden))
        return overridden


def _joined(parts: Sequence[np.ndarray], dtype: type[np.generic]) -> np.ndarray:
    return np.concatenate([*parts, np.zeros(0)]).astype(dtype)


def _costs(tuning: Tuning, own: Sequence[Tuning]) -> FlowCosts:
    """Prices by chunk, since a canary may try others on some chunks; those of shares and links hold for all."""
    return FlowCosts(
        byte_hs06h_gb=np.array([one.number(BYTE_PRICE) for one in own]),
        unplaced_h=np.array([one.number(UNPLACED_HOURS) for one in own]),
        share_debt=tuning.number(SHARE_PRICE),
        reference_power=DEFAULT_COREPOWER_HS06,
    )


def _at_queues(cycle: JobCycle, result: ChunkResult, candidate: Ints, tuning: Tuning) -> _AtQueues:
    """Costs and limits of a chunk at its candidates, by position."""
    inside, facts = result.row - result.block.rows.start, result.block.facts
    load = cycle.load(result.block, result.row, candidate)
    cap = next((rule for rule in cycle.chain.cuts if isinstance(rule, Cap)), None)
    room = np.full(len(candidate), np.inf)
    if cap is not None and not bool(np.asarray(load.urgent)):
        waiting, limit = cap.room(load)
        room = np.maximum(limit - waiting, 0.0) + np.zeros(len(candidate))
    # a queue on probation gets one job per chunk, and as many chunks as it may have probe jobs
    room = np.where(cycle.jobs_at_a_time(result.row)[candidate] < 0, np.minimum(room, 1.0), room)
    total = float(facts.total_bytes[inside, 0])
    on_disk, on_tape = facts.available_bytes[inside, candidate], facts.available_tape_bytes[inside, candidate]
    available = np.maximum(on_disk, on_tape)
    missing = np.clip(1.0 - available / total, 0.0, 1.0) if total > 0 else np.zeros(len(candidate))
    measured = facts.throughput_mb_per_s[inside, candidate] / 1000.0
    files = np.full(len(candidate), np.inf)
    if any(isinstance(rule, LinkFull) for rule in cycle.chain.filters):
        queued = np.nan_to_num(facts.link_queued[inside, candidate])
        files = np.maximum(tuning.number(CAP) - queued, 0.0)
        files[facts.at_nucleus[inside, candidate] | facts.storage_at_nucleus[inside, candidate]] = np.inf
    return _AtQueues(
        candidate=candidate,
        missing=missing,
        rate_gb_s=np.where(measured > 0, measured, tuning.number(INPUT_RATE) / 1000.0),
        room=room,
        output_files=files,
        output_from=cycle.snapshot.queues.storage_site[candidate],
    )


def _usual(result: ChunkResult, candidate: Ints) -> Ints:
    """The candidates used to count the jobs of a chunk: those that passed the filters, or all if none did."""
    passed = candidate[np.isin(candidate, result.feasible)]
    return passed if len(passed) else candidate


def _requirements(
    cycle: JobCycle, row: int, candidate: Ints, work: CycleWork, limits: QueueLimits, tuning: Tuning
) -> Requirements:
    """The jobs that a chunk would make at the kind of queue most frequent among its candidates."""
    kinds, counts = np.unique(cycle.snapshot.queues.cores[candidate], return_counts=True)
    typical = int(candidate[np.argmax(cycle.snapshot.queues.cores[candidate] == kinds[np.argmax(counts)])])
    cut_limits: CutLimits = limits.of(row, np.array([typical]))[0]
    jobs = work.cutter(row).cut(int(work.work.chunks.n_files[row]), cut_limits)
    cores = float(_cores(cycle, work, row, typical))
    power = cut_limits.corepower if cut_limits.corepower > 0 else DEFAULT_COREPOWER_HS06
    known = jobs.walltime_s[jobs.walltime_s > 0]
    hours = tuning.number(JOB_HOURS)
    walltime_s = float(known.mean()) if len(known) else hours * 3600.0
    input_gb = float(jobs.input_bytes.mean()) / 1e9 if len(jobs) else 0.0
    return max(len(jobs), 1), cores, walltime_s * cores * power, input_gb


def _cores(cycle: JobCycle, work: CycleWork, row: int, queue: int) -> int:
    chunks, queues = work.work.chunks, cycle.snapshot.queues
    return core_count(
        bool(chunks.merging[row]),
        queues.resource_type[queue] is not None,
        float(chunks.corecount[row]),
        float(chunks.mergecorecount[row]),
        float(queues.cores[queue]),
    )


def _shares(results: Sequence[ChunkResult]) -> tuple[Ints, list[str]]:
    """(K,) the share of each chunk, and the names of all shares; express chunks, which no cap limits, are separate."""
    names = texts(_share_name(one) for one in results)
    known, code = distinct(names)
    return np.asarray(code, dtype=np.int64), [str(name) for name in known] or [""]


def _share_name(result: ChunkResult) -> str:
    facts, inside = result.block.facts, result.row - result.block.rows.start
    return f"{facts.accounting_key[inside, 0]}{URGENT if facts.urgent[inside, 0] else ''}"


def _room(at_queues: Sequence[_AtQueues], chunk: Ints, unified: Ints, share: Ints, shares: int, queues: int) -> Floats:
    """(U, S) jobs that a share may still have waiting at a queue: the least room of any of its chunks."""
    room = np.full((queues, shares), np.inf)
    np.minimum.at(room, (unified, share[chunk]), _joined([one.room for one in at_queues], np.float64))
    return room


def _outputs(cycle: JobCycle, results: Sequence[ChunkResult], at_queues: Sequence[_AtQueues]) -> tuple[Ints, Floats]:
    """(P,) the output link of each pair, -1 where nothing limits it; (O,) files until the cap of each link."""
    if not results:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    urgent = [bool(one.block.facts.urgent[one.row - one.block.rows.start, 0]) for one in results]
    _, nucleus = distinct(texts(str(cycle.work.chunks.nucleus[one.row]) for one in results))
    destination = np.repeat(nucleus * 2 + urgent, [len(at.output_from) for at in at_queues])
    site = _joined([at.output_from for at in at_queues], np.int64)
    most = _joined([at.output_files for at in at_queues], np.float64)
    output = np.full(len(site), -1, dtype=np.int64)
    limited = np.flatnonzero((most < np.inf) & (site >= 0))
    _, first, link = np.unique(
        site[limited] * (2 * len(results)) + destination[limited], return_index=True, return_inverse=True
    )
    # number links in order of first appearance
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    output[limited] = number[link]
    files = np.full(len(first), np.inf)
    np.minimum.at(files, output[limited], most[limited])
    return output, files


def _queues(snapshot: Snapshot, room: Floats) -> FlowQueues:
    """The unified queues (U) as the snapshot shows them."""
    jobs, size = snapshot.jobs, len(snapshot.unified)
    first = np.full(size, -1, dtype=np.int64)
    first[snapshot.queues.unified[::-1]] = np.arange(len(snapshot.queues))[::-1]
    has_candidate = first >= 0
    cores, power, link = np.ones(size), np.full(size, DEFAULT_COREPOWER_HS06), np.full(size, -1, dtype=np.int64)
    cores[has_candidate] = np.maximum(np.nan_to_num(snapshot.queues.unified_cores[first[has_candidate]], nan=1.0), 1.0)
    published = np.nan_to_num(snapshot.queues.corepower[first[has_candidate]])
    power[has_candidate] = np.where(published > 0, published, DEFAULT_COREPOWER_HS06)
    link[has_candidate] = snapshot.queues.storage_site[first[has_candidate]]
    running = jobs.running_cores.sum(axis=1) if jobs.running_cores.size else np.zeros(size)
    number = jobs.total[:, _RUNNING]
    each = np.where((number > 0) & (running > 0), running / np.maximum(number, 1.0), cores)
    measured = np.isfinite(_best_links(snapshot))
    link = np.where((link >= 0) & measured[np.maximum(link, 0)], link, -1) if len(measured) else np.full(size, -1)
    return FlowQueues(
        corepower=power,
        efficiency=np.ones(size),
        failure=np.zeros(size),
        running_cores=running,
        waiting_cores=jobs.total[:, _WAITING].sum(axis=1) * each,
        room=room,
        link=link.astype(np.int64),
    )


def learned_queues(queues: FlowQueues, snapshot: Snapshot, tuning: Tuning) -> FlowQueues:
    """The queues with learned cores, failures and walltimes if LEARNED_CAPACITY is set; otherwise unchanged.

    Cores that could run but do not are free.
    """
    known: LearnedCapacity = snapshot.offered.get(QUEUE_CAPACITY) or {}
    if not known or not tuning.flag(CAPACITY):
        return queues
    sums = [known.get(str(name), QueueSums()) for name in snapshot.unified.name.tolist()]
    prior_h, running = tuning.number(CAPACITY_PRIOR), queues.running_cores
    cores = np.array([one.cores(now, prior_h) for one, now in zip(sums, running.tolist(), strict=True)])
    return replace(
        queues,
        efficiency=np.array([one.efficiency() for one in sums]),
        failure=np.array([one.failure() for one in sums]),
        running_cores=cores,
        waiting_cores=queues.waiting_cores - (cores - running),
    )


def _best_links(snapshot: Snapshot) -> Floats:
    """(S,) MB/s of the best measured link of each site with storage, NaN without any."""
    links = snapshot.links
    windows = [np.where(one > 0, one, np.nan) for one in (links.mbps_1h, links.mbps_1d, links.mbps_1w)]
    newest = np.where(np.isnan(windows[0]), np.where(np.isnan(windows[1]), windows[2], windows[1]), windows[0])
    best = np.full(len(links.sites), -np.inf)
    for column in newest.T:
        best = np.fmax(best, column)
    return np.where(best > 0, best, np.nan)


def _site_input_gb(snapshot: Snapshot, window_s: float) -> Floats:
    """(S,) GB that may be moved into each site; 0 where nothing was measured, which limits no queue."""
    return np.asarray(np.nan_to_num(_best_links(snapshot)) * window_s / 1000.0)


def share_debts(snapshot: Snapshot, names: Sequence[str]) -> Floats:
    """(S,) HS06 by which the running jobs of each share fall short of its target; 0 for a share without a target."""
    targets = snapshot.offered.get(SHARE_TARGETS) or {}
    jobs = snapshot.jobs
    power = _queues(snapshot, np.zeros((len(snapshot.unified), 1))).corepower
    number = np.maximum(jobs.total[:, _RUNNING], 1.0)
    cores = jobs.running_cores.sum(axis=1) if jobs.running_cores.size else np.zeros(len(snapshot.unified))
    hs06_a_job = cores / number * power
    position = {name: index for index, name in enumerate(jobs.accounting_keys)}
    whole = float((cores * power).sum())
    debts = np.zeros(len(names))
    for share, name in enumerate(names):
        if name in targets:
            runs = jobs.by_accounting_key[:, position[name], _RUNNING] if name in position else np.zeros(len(number))
            debts[share] = max(0.0, targets[name] * whole - float((runs * hs06_a_job).sum()))
    return debts
