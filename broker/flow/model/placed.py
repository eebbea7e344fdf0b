"""The placements of decisions, in jobs of the program. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from broker.brokerages.job.chunk_jobs import QueueLimits
from broker.domain.arrays import Floats
from broker.engine.job.cycle import JobCycle
from broker.flow.model.flow_problem import CycleProgram
from broker.work.assemble import CycleWork
from broker.work.job_model import CutLimits

#: Jobs placed by a decision, by queue; None for a decision that is not counted.
Placed = Mapping[str, int] | None


def place_of(cycle: JobCycle) -> dict[str, int]:
    """Position of each candidate in the snapshot's queue table, by name."""
    return {str(name): at for at, name in enumerate(cycle.snapshot.queues.name)}


def amounts_of(cycle: JobCycle, work: CycleWork, program: CycleProgram, placed: Sequence[Placed]) -> Floats:
    """(P,) the placement in jobs of the program: at each queue, the fraction of the chunk's jobs placed there."""
    limits, place = QueueLimits(work.work.chunks, cycle.snapshot.queues), place_of(cycle)
    jobs, chunk = np.zeros(len(program.candidate)), program.problem.pairs.chunk
    starts = np.searchsorted(chunk, np.arange(len(program.row) + 1))
    for at, row in enumerate(program.row.tolist()):
        own = program.candidate[starts[at] : starts[at + 1]]
        at_queues = {place[name]: count for name, count in (placed[row] or {}).items() if name in place}
        whole = _jobs_at(work, row, limits.of(row, np.array(list(at_queues), dtype=np.int64)))
        for (queue, count), all_jobs in zip(at_queues.items(), whole, strict=True):
            share = count / all_jobs * float(program.problem.chunks.jobs[at])
            jobs[starts[at] + int(np.searchsorted(own, queue))] += share
    total = np.bincount(chunk, weights=jobs, minlength=len(program.row))
    most = np.minimum(1.0, program.problem.chunks.jobs / np.maximum(total, 1e-12))
    return np.asarray(jobs * most[chunk])


def _jobs_at(work: CycleWork, row: int, limits: Sequence[CutLimits]) -> list[int]:
    """The number of jobs of the whole chunk at queues with each of these limits; at least one."""
    cutter, files = work.cutter(row), int(work.work.chunks.n_files[row])
    begin, known = cutter.mark(), dict.fromkeys(limits, 1)
    for limit in known:
        known[limit] = max(1, len(cutter.take(files, limit)))
        cutter.rewind(begin)
    return [known[limit] for limit in limits]
