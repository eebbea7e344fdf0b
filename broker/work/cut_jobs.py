"""Jobs that were cut out of a chunk, as columns."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from broker.domain.arrays import Floats, Ints


@dataclass(frozen=True)
class CutJobs:
    """Jobs (length J) and their estimates at the queue they were cut for.

    ``first`` and ``stop`` (exclusive) delimit the master files, ``extra`` holds the files of the secondaries, job ``j``
    those from ``extra_offsets[j]`` to ``extra_offsets[j + 1]``; all are positions in ``InputFiles.files``. The columns
    ``input_files`` and ``input_bytes`` count distinct files. ``walltime_s`` is NaN where nothing is known about it.
    """

    first: Ints
    stop: Ints
    events: Ints
    input_files: Ints
    input_bytes: Ints
    output_mb: Floats
    disk_mb: Ints
    walltime_s: Floats
    extra: Ints
    extra_offsets: Ints

    def __len__(self) -> int:
        return len(self.first)


_PER_JOB = [field.name for field in fields(CutJobs) if not field.name.startswith("extra")]


def no_jobs() -> CutJobs:
    """No jobs at all."""
    empty, none = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64)
    return CutJobs(empty, empty, empty, empty, empty, none, empty, none, empty, np.zeros(1, dtype=np.int64))


def joined_jobs(parts: list[CutJobs]) -> CutJobs:
    """Concatenate the jobs of all ``parts``."""
    if not parts:
        return no_jobs()
    lengths = np.concatenate([np.diff(part.extra_offsets) for part in parts])
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _PER_JOB}
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return CutJobs(**columns, extra=np.concatenate([part.extra for part in parts]), extra_offsets=offsets)
