"""What decisions placed, in jobs of the program. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from broker.brokerages.job.chunk_jobs import QueueLimits
from broker.domain.arrays import Floats
from broker.engine.job.cycle import JobCycle
from broker.flow.model.flow_problem import CycleProgram
from broker.work.assemble import CycleWork

#: Jobs by queue that a decision placed; None for one that is not counted.
Placed = Mapping[str, int] | None


def place_of(cycle: JobCycle) -> dict[str, int]:
    """Position of each candidate in the snapshot's queue table, by name."""
    return {str(name): at for at, name in enumerate(cycle.snapshot.queues.name)}


def amounts_of(cycle: JobCycle, work: CycleWork, program: CycleProgram, placed: Sequence[Placed]) -> Floats:
    """(P,) what was placed, in jobs of the program: the part of a chunk's jobs as its queue would have them."""
    limits, place = QueueLimits(work.work.chunks, cycle.snapshot.queues), place_of(cycle)
    jobs, chunk = np.zeros(len(program.candidate)), program.problem.pairs.chunk
    starts = np.searchsorted(chunk, np.arange(len(program.row) + 1))
    for at, row in enumerate(program.row.tolist()):
        own = program.candidate[starts[at] : starts[at + 1]]
        known: dict[object, int] = {}
        for name, count in (placed[row] or {}).items():
            if name not in place:
                continue
            limit = limits.of(row, np.array([place[name]]))[0]
            if limit not in known:
                known[limit] = max(1, len(work.cutter(row).cut(int(work.work.chunks.n_files[row]), limit)))
            part = count / known[limit] * float(program.problem.chunks.jobs[at])
            jobs[starts[at] + int(np.searchsorted(own, place[name]))] += part
    total = np.bincount(chunk, weights=jobs, minlength=len(program.row))
    most = np.minimum(1.0, program.problem.chunks.jobs / np.maximum(total, 1e-12))
    return np.asarray(jobs * most[chunk])
