"""How many jobs chunks would make, before any queue is chosen for them.

Source: ATLAS Analysis Job Brokerage, new basic weight (N_j); PanDA analysis brokerage, the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.estimates import DEFAULT_COREPOWER_HS06
from broker.domain.split_rule import parse_split_rule
from broker.work.assemble import CycleWork
from broker.work.cutting import JobCutter, job_cutter
from broker.work.job_model import CutLimits, job_models
from broker.work.split_settings import SplitSettings, settings_of_weight

#: Longest walltime of the jobs that are estimated, where the task does not say.
MAX_WALLTIME_S = 345_600.0


def estimated_jobs(work: CycleWork) -> Floats:
    """(T,) jobs that each chunk would make by its task's rules at a queue of its cores and 10 HS06; at least 1.

    They are as long as the task allows, else four days, and read so much input as those that read it directly.
    """
    return _counted(work, work.settings, (work.cutter(row) for row in range(len(work.settings))))


def jobs_of_weight(work: CycleWork) -> Floats:
    """(T,) N_j: as :func:`estimated_jobs`, by those rules alone that count for the new weight.

    A chunk that merges is counted as if it did not.
    """
    chunks = work.work.chunks
    settings = tuple(map(_settings, chunks.splitrule.tolist(), chunks.scout.tolist()))
    models = job_models(dataclasses.replace(chunks, merging=np.zeros_like(chunks.merging)))
    cutters = (
        job_cutter(work.inputs, row, own, model) for row, (own, model) in enumerate(zip(settings, models, strict=True))
    )
    return _counted(work, settings, cutters)


@lru_cache(maxsize=4096)
def _settings(splitrule: str | None, scout: bool) -> SplitSettings:
    return settings_of_weight(parse_split_rule(splitrule), scout)


def _counted(work: CycleWork, settings: tuple[SplitSettings, ...], cutters: Iterable[JobCutter]) -> Floats:
    chunks = work.work.chunks
    rows = zip(cutters, settings, chunks.n_files.tolist(), np.nan_to_num(chunks.corecount).tolist(), strict=True)
    counts = [len(cutter.cut(int(files), _limits(own, cores))) for cutter, own, files, cores in rows]
    return np.maximum(np.array(counts, dtype=np.float64), 1.0)


def _limits(settings: SplitSettings, cores: float) -> CutLimits:
    longest_s = 0.0 if settings.max_walltime_s > 0 else MAX_WALLTIME_S
    return CutLimits(maxtime_s=longest_s, cores=max(cores, 1.0), corepower=DEFAULT_COREPOWER_HS06, direct_io=True)
