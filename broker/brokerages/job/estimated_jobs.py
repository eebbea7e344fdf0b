"""How many jobs chunks would make, before any queue is chosen for them.

Source: ATLAS Analysis Job Brokerage, new basic weight (N_j); PanDA analysis brokerage, the same.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.estimates import DEFAULT_COREPOWER_HS06
from broker.work.assemble import CycleWork
from broker.work.job_model import CutLimits

#: Longest walltime of the jobs that are estimated, where the task does not say.
MAX_WALLTIME_S = 345_600.0


def estimated_jobs(work: CycleWork) -> Floats:
    """(T,) N_j: jobs that each chunk would make at a queue of its cores and 10 HS06; at least 1.

    They are as long as the task allows, else four days, and read so much input as those that read it directly.
    """
    counts = [
        len(work.cutter(row).cut(int(files), _limits(work, row)))
        for row, files in enumerate(work.work.chunks.n_files.tolist())
    ]
    return np.maximum(np.array(counts, dtype=np.float64), 1.0)


def _limits(work: CycleWork, row: int) -> CutLimits:
    cores = float(np.nan_to_num(work.work.chunks.corecount[row]))
    longest_s = 0.0 if work.settings[row].max_walltime_s > 0 else MAX_WALLTIME_S
    return CutLimits(maxtime_s=longest_s, cores=max(cores, 1.0), corepower=DEFAULT_COREPOWER_HS06, direct_io=True)
