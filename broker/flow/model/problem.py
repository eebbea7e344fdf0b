"""The linear program of one cycle as arrays: which chunk could go where, at what cost, and within what limits.

All costs are in HS06 h. K chunks, Q queues; pairs (length P) are the chunks and queues that passed all filters; a row
limits a sum of pairs. :class:`CostParts` are the parts of the cost of a placement, whose sum the program minimises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class FlowCosts:
    """The prices of the program; each is a key of gdpconfig.

    Attributes:
        byte_hs06h_gb: FLOW_BYTE_PRICE, HS06 h for each GB to be moved; one value, or (K,) by chunk.
        unplaced_h: FLOW_UNPLACED_HOURS, cost of leaving a job unplaced in hours of its cores; one value, or (K,).
        share_debt: FLOW_SHARE_PRICE, HS06 h for each HS06 h that a share still lacks.
        reference_power: HS06 per core of a reference queue.
        transfer_window_s: FLOW_LINK_WINDOW, seconds of input that may be assigned to a link.
    """

    byte_hs06h_gb: float | Floats = 5.0
    unplaced_h: float | Floats = 48.0
    share_debt: float = 10.0
    reference_power: float = 10.0
    transfer_window_s: float = 1800.0


@dataclass(frozen=True)
class FlowChunks:
    """Chunks (length K).

    Attributes:
        key: identity of each chunk (task and dataset), for stable order and rounding.
        jobs: waiting jobs; per job ``cores``, ``work_hs06s`` of CPU work and ``input_gb`` read.
        share: index of its share; ``priority``: PanDA's priority.
    """

    key: Ints
    jobs: Ints
    cores: Floats
    work_hs06s: Floats
    input_gb: Floats
    share: Ints
    priority: Floats

    def __len__(self) -> int:
        return len(self.jobs)


@dataclass(frozen=True)
class FlowQueues:
    """Queues (length Q).

    Attributes:
        corepower: HS06 per core; ``efficiency``: known CPU time over walltime; ``failure``: fraction of jobs that fail.
        running_cores: cores that run, or could; ``waiting_cores``: cores that jobs wait for, negative if some are free.
            As seen, including later assignments.
        room: (Q, S) jobs that a share may still have waiting there.
        link: index of the link that its input passes, -1 if unlimited.
    """

    corepower: Floats
    efficiency: Floats
    failure: Floats
    running_cores: Floats
    waiting_cores: Floats
    room: Floats
    link: Ints

    def __len__(self) -> int:
        return len(self.corepower)


@dataclass(frozen=True)
class FlowPairs:
    """Feasible pairs (length P), sorted by chunk and queue.

    Attributes:
        chunk, queue: indices.
        missing: fraction of the input that is not at the queue's site, 0 to 1.
        rate_gb_s: rate at which a job there reads it.
        output: index of the output link to the chunk's nucleus, -1 if unlimited.
    """

    chunk: Ints
    queue: Ints
    missing: Floats
    rate_gb_s: Floats
    output: Ints

    def __len__(self) -> int:
        return len(self.chunk)


@dataclass(frozen=True)
class FlowProblem:
    """The problem of one cycle.

    Attributes:
        link_gb: (L,) input that may still be moved on each link in the window.
        output_jobs: (O,) output files until the cap of each link.
        share_debt_hs06: (S,) HS06 that each share lacks of its target.
    """

    chunks: FlowChunks
    queues: FlowQueues
    pairs: FlowPairs
    link_gb: Floats
    output_jobs: Floats
    share_debt_hs06: Floats
    costs: FlowCosts


def pair_costs(problem: FlowProblem) -> Floats:
    """(P,) cost of one job of the chunk at the queue: its expected time there, and the bytes it moves."""
    return pair_times(problem) + pair_bytes(problem)


def pair_times(problem: FlowProblem) -> Floats:
    """(P,) HS06 h for which one job holds its cores: c p_ref (W / (c p eff (1 - f)) + b m / r), in hours."""
    pairs, chunks, queues, costs = problem.pairs, problem.chunks, problem.queues, problem.costs
    k, q = pairs.chunk, pairs.queue
    speed = chunks.cores[k] * queues.corepower[q] * queues.efficiency[q] * np.maximum(1.0 - queues.failure[q], 0.02)
    seconds = chunks.work_hs06s[k] / speed + moved_gb(problem) / np.maximum(pairs.rate_gb_s, 1e-6)
    return np.asarray(chunks.cores[k] * costs.reference_power * seconds / 3600.0)


def pair_bytes(problem: FlowProblem) -> Floats:
    """(P,) cost of the GB that one job moves."""
    price = np.broadcast_to(problem.costs.byte_hs06h_gb, len(problem.chunks))[problem.pairs.chunk]
    return np.asarray(price * moved_gb(problem))


def moved_gb(problem: FlowProblem) -> Floats:
    """(P,) GB that one job of the pair moves."""
    return np.asarray(problem.chunks.input_gb[problem.pairs.chunk] * problem.pairs.missing)


def unplaced_costs(problem: FlowProblem) -> Floats:
    """(K,) cost of leaving one job unplaced; above the dearest feasible place, so that it never pays to save bytes."""
    chunks, costs = problem.chunks, problem.costs
    cost = costs.unplaced_h * chunks.cores * costs.reference_power * (1.0 + np.maximum(chunks.priority, 0.0) / 1000.0)
    dearest = np.zeros(len(chunks))
    waits = segment_waits(problem)
    at_queue = pair_costs(problem) + waits[problem.pairs.queue, -1] * chunks.cores[problem.pairs.chunk]
    np.maximum.at(dearest, problem.pairs.chunk, at_queue)
    return np.maximum(cost, 1.01 * dearest)


#: Segments of rising wait: each takes half of the running cores of a queue; the last is unlimited.
SEGMENTS = 6


def segment_waits(problem: FlowProblem) -> Floats:
    """(Q, SEGMENTS) cost of one more core in each segment: p_ref times the wait in its middle.

    A queue drains its running cores in about the time a job takes, so half of them take half of it.
    """
    queues = problem.queues
    size = segment_size(problem)
    middle = queues.waiting_cores[:, None] + (np.arange(SEGMENTS) + 0.5) * size[:, None]
    turnover_h = mean_hours(problem)
    hours = np.maximum(middle, 0.0) / np.maximum(queues.running_cores, 1.0)[:, None] * turnover_h
    return np.asarray(problem.costs.reference_power * hours)


def segment_size(problem: FlowProblem) -> Floats:
    """(Q,) cores of a segment."""
    return np.maximum(problem.queues.running_cores / 2.0, 8.0)


def mean_hours(problem: FlowProblem) -> float:
    """Mean walltime of the jobs of the cycle at reference power, in hours; 1 without any."""
    chunks = problem.chunks
    if not len(chunks):
        return 1.0
    hours = chunks.work_hs06s / (chunks.cores * problem.costs.reference_power) / 3600.0
    return max(0.1, float(np.average(hours, weights=chunks.jobs)))


def pairs_of(problem: FlowProblem, inside: Bools) -> FlowPairs:
    """The pairs of a problem selected by a mask."""
    fields: Mapping[str, np.ndarray] = vars(problem.pairs)
    return FlowPairs(**{name: column[inside] for name, column in fields.items()})


@dataclass(frozen=True)
class Rows:
    """The limits that an integer solution must keep, as rows and limits of each kind.

    Attributes:
        room_of: (P,) row (queue and share) of each pair; ``room``: (R,) limit of each row in jobs.
        cells: (R,) queue and share of each row as one number: queue times the number of shares, plus share.
        link_of: (P,) input link of each pair that moves bytes, otherwise -1.
        gb: (P,) GB that a job of the pair moves.
    """

    room_of: Ints
    room: Floats
    link_of: Ints
    gb: Floats
    limited: Bools
    cells: Ints


def cells_of(problem: FlowProblem) -> Ints:
    """(P,) queue and share of each pair as one number, see :class:`Rows`."""
    pairs = problem.pairs
    return np.asarray(pairs.queue * problem.queues.room.shape[1] + problem.chunks.share[pairs.chunk])


def rows_of(problem: FlowProblem, cells: Ints | None = None) -> Rows:
    """The limits, with the rows of queue and share that pairs use, or those of the sorted ``cells``."""
    pairs, queues = problem.pairs, problem.queues
    own = cells_of(problem)
    used, room_of = np.unique(own, return_inverse=True) if cells is None else (cells, np.searchsorted(cells, own))
    gb = moved_gb(problem)
    link = queues.link[pairs.queue]
    return Rows(
        room_of=np.asarray(room_of, dtype=np.int64),
        room=np.maximum(queues.room.reshape(-1)[used], 0.0),
        link_of=np.where(gb > 0, link, -1),
        gb=gb,
        limited=np.isfinite(queues.room.reshape(-1)[used]),
        cells=np.asarray(used, dtype=np.int64),
    )


@dataclass(frozen=True)
class Binding:
    """The limits that the jobs of a problem could exceed; the others never bind and need no row in a solver.

    Attributes:
        room: (R,) for the rows of queue and share; ``output``: (O,) for the output links.
    """

    room: Bools
    output: Bools


def binding_of(problem: FlowProblem, rows: Rows) -> Binding:
    """The limits that would break if every chunk sent all of its jobs everywhere it may."""
    pairs, jobs = problem.pairs, problem.chunks.jobs
    arriving = np.bincount(rows.room_of, weights=jobs[pairs.chunk], minlength=len(rows.room))
    outputs = len(problem.output_jobs)
    sending = pairs.output >= 0
    # several queues of a site send over one link: the jobs of a chunk count once
    once = np.unique(pairs.chunk[sending] * max(1, outputs) + pairs.output[sending])
    sent = np.bincount(once % max(1, outputs), weights=jobs[once // max(1, outputs)], minlength=outputs)
    return Binding(room=rows.limited & (arriving > rows.room), output=sent > problem.output_jobs)


@dataclass(frozen=True)
class CostParts:
    """Costs in HS06 h.

    Attributes:
        time: time for which the jobs hold their cores.
        bytes: moved bytes.
        wait: wait of the jobs for their cores.
        left_over: jobs that get no place.
        share_debt: what shares lack.
    """

    time: float
    bytes: float
    wait: float
    left_over: float
    share_debt: float

    @property
    def total(self) -> float:
        """The sum of all parts of the cost, in HS06 h."""
        return self.time + self.bytes + self.wait + self.left_over + self.share_debt


def cost_parts(problem: FlowProblem, jobs: Ints | Floats, unplaced: Floats, debt: Floats) -> CostParts:
    """The cost of a placement; limits are not checked.

    Args:
        problem: the problem of the cycle.
        jobs: (P,) jobs of each pair, whole or fractional.
        unplaced: (K,) HS06 h of leaving a job unplaced.
        debt: (S,) HS06 that each share may request.
    """
    pairs, chunks = problem.pairs, problem.chunks
    placed = np.bincount(pairs.chunk, weights=jobs, minlength=len(chunks))
    got = np.bincount(chunks.share[pairs.chunk], weights=pair_hs06(problem) * jobs, minlength=len(debt))
    return CostParts(
        time=float((pair_times(problem) * jobs).sum()),
        bytes=float((pair_bytes(problem) * jobs).sum()),
        wait=float(wait_costs(problem, queue_cores(problem, jobs)).sum()),
        left_over=float(((chunks.jobs - placed) * unplaced).sum()),
        share_debt=float(np.maximum(debt - got, 0.0).sum() * problem.costs.share_debt),
    )


def pair_hs06(problem: FlowProblem) -> Floats:
    """(P,) HS06 that one job of the pair occupies."""
    return np.asarray(problem.chunks.cores[problem.pairs.chunk] * problem.queues.corepower[problem.pairs.queue])


def queue_cores(problem: FlowProblem, jobs: Ints | Floats) -> Floats:
    """(Q,) cores that the jobs request at each queue."""
    pairs = problem.pairs
    requested = jobs * problem.chunks.cores[pairs.chunk]
    return np.asarray(np.bincount(pairs.queue, weights=requested, minlength=len(problem.queues)))


def wait_costs(problem: FlowProblem, cores: Floats) -> Floats:
    """(Q,) cost of ``cores`` (Q,) more at each queue; cheaper segments are filled first."""
    size = segment_size(problem)
    below = np.minimum(np.maximum(cores[:, None] - np.arange(SEGMENTS) * size[:, None], 0.0), size[:, None])
    below[:, -1] = np.maximum(cores - (SEGMENTS - 1) * size, 0.0)
    return np.asarray((below * segment_waits(problem)).sum(axis=1))
