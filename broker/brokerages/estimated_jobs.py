"""How many jobs chunks would make, before any queue is chosen for them.

Source: ATLAS Analysis Job Brokerage, new basic weight (N_j); PanDA analysis brokerage, the same.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.work.assemble import CycleWork
from broker.work.job_model import CutLimits

#: Longest walltime of the jobs that are estimated.
MAX_WALLTIME_S = 345_600.0


def estimated_jobs(work: CycleWork) -> Floats:
    """(T,) N_j: jobs that each chunk would make at a queue without limits of its own; at least 1."""
    limits = CutLimits(maxtime_s=MAX_WALLTIME_S)
    counts = [
        len(work.cutter(row).cut(int(files), limits)) for row, files in enumerate(work.work.chunks.n_files.tolist())
    ]
    return np.maximum(np.array(counts, dtype=np.float64), 1.0)
