"""A task's own rules for its jobs: files and events of a job, its maxima, and where a job has to end.

:class:`SplitSettings` holds the rules of a chunk. :func:`job_breaks` (F,) marks the files of a master dataset before
which a new job has to start; :func:`next_breaks` (F,) is the position of the next one.

Source: ATLAS production brokerage, atomic jobs (event ranges, boundaries, lumi blocks) and per-job maxima; PanDA data
model, task split rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from broker.domain.arrays import Bools, Ints
from broker.domain.split_rule import SplitRule
from broker.work.input_files import NULL_INTEGER, FileTable

#: Files of a job when the task does not say: of a normal job, of a merge job, and of any job with all its datasets.
MAX_FILES_OF_A_JOB = 200
MAX_FILES_OF_A_MERGE_JOB = 50
MAX_FILES_IN_ALL = 1_000

#: Size of the primary output of a job, in GB (2**30 bytes): of a normal job, and of a merge job without a rule.
MAX_OUTPUT_GB = 10.0
MAX_MERGE_OUTPUT_GB = 5.0

#: Boundary rule under which the boundary alone decides.
WHOLE_BOUNDARY = 3


@dataclass(frozen=True)
class SplitSettings:
    """How the files of a chunk become jobs. ``None`` means that the task sets no such rule.

    ``files_per_job`` is exact and beats ``events_per_job``; ``boundary`` is 0 without a boundary rule.
    """

    merging: bool = False
    scout: bool = False
    files_per_job: int | None = None
    events_per_job: int | None = None
    max_files: int = MAX_FILES_OF_A_JOB
    max_events: int | None = None
    gb_per_job: int | None = None
    max_output_gb: float = MAX_OUTPUT_GB
    max_walltime_s: float = 0.0
    by_lumi: bool = False
    boundary: int = 0
    dynamic: bool = False

    @property
    def takes_files_at_once(self) -> bool:
        """Whether the files of a job are taken in one step, without checking single files."""
        return self.files_per_job is not None and not self.by_lumi and not self.boundary

    @property
    def continuous(self) -> bool:
        """Whether the event ranges of a job have to follow each other."""
        return self.files_per_job is None and (self.events_per_job is not None or self.dynamic)

    @property
    def breaks(self) -> bool:
        """Whether a job may have to end between two files, whatever its size."""
        return self.continuous or bool(self.boundary) or self.by_lumi

    @property
    def events_limit(self) -> int | None:
        """Largest number of events of a job of more than one file."""
        if self.files_per_job is not None:
            return None
        limits = [limit for limit in (self.events_per_job, self.max_events) if limit is not None]
        return min(limits) if limits else None

    @property
    def files_limit(self) -> int:
        """Largest number of master files of a job."""
        return self.files_per_job if self.files_per_job is not None else self.max_files


def _positive(rule: SplitRule, token: str) -> int | None:
    value = rule.value(token)
    return value if value > 0 else None


def split_settings(rule: SplitRule, merging: bool, scout: bool) -> SplitSettings:
    """The settings of a chunk: those for merging when it merges, else those of normal jobs.

    Scout jobs of a task without a rule for files or events take one file. The number of files counts records when each
    file is read in several parts of its events (``EI`` events per file, ``DY`` events per part).
    """
    by_lumi = rule.has("RL")
    if merging:
        return SplitSettings(
            merging=True,
            files_per_job=_positive(rule, "ZF"),
            events_per_job=_positive(rule, "ZE"),
            max_files=_positive(rule, "ZM") or MAX_FILES_OF_A_MERGE_JOB,
            max_output_gb=float(_positive(rule, "ZG") or MAX_MERGE_OUTPUT_GB),
            by_lumi=by_lumi,
            boundary=WHOLE_BOUNDARY,
        )
    files, events = _positive(rule, "NF"), _positive(rule, "NE")
    if scout and files is None and events is None:
        files = 1
    parts, granularity = rule.value("EI"), rule.value("DY")
    if files is not None and granularity > 0 and parts > granularity:
        files *= parts // granularity
    return SplitSettings(
        scout=scout,
        files_per_job=files,
        events_per_job=events,
        max_files=_positive(rule, "MF") or MAX_FILES_OF_A_JOB,
        max_events=_positive(rule, "MX"),
        gb_per_job=_positive(rule, "NG"),
        max_walltime_s=3600.0 * max(rule.value("MW"), 0),
        by_lumi=by_lumi,
        boundary=rule.value("GB") if rule.value("GB") in (1, 2, WHOLE_BOUNDARY) else 0,
        dynamic=granularity > 0,
    )


def settings_of_weight(rule: SplitRule, scout: bool) -> SplitSettings:
    """Split settings by which the new analysis weight counts jobs: NF, NE, MF, MW, NG and RL only.

    They apply to merging chunks as well; scouts are only smaller. Source: PanDA analysis brokerage, new basic weight.
    """
    own = split_settings(rule, merging=False, scout=False)
    return replace(own, scout=scout, max_events=None, max_output_gb=math.inf, boundary=0, dynamic=False)


def smallest_job(settings: SplitSettings) -> SplitSettings:
    """The settings of the smallest job allowed: one file where the task has no rule for files or events."""
    if settings.files_per_job is None and settings.events_per_job is None:
        return replace(settings, files_per_job=1)
    return settings


def range_breaks(files: FileTable) -> Bools:
    """(F,) true where the events of a file do not continue those of the file before it; true for the first file.

    After the last event of a file the next one starts at event 0. Inside the events of a file the name must not change.
    """
    result = np.ones(len(files), dtype=np.bool_)
    if len(files) < 2:
        return result
    known = (files.endevent[:-1] != NULL_INTEGER) & (files.startevent[1:] != NULL_INTEGER)
    after = np.where(known, files.endevent[:-1] + 1, 0)
    at_end = (files.nevents[:-1] != NULL_INTEGER) & (after == files.nevents[:-1])
    expected = np.where(at_end, 0, after)
    jumps = files.startevent[1:] != expected
    other_file = ~at_end & (files.lfn_hash[1:] != files.lfn_hash[:-1])
    result[1:] = known & (jumps | other_file)
    return result


def job_breaks(files: FileTable, settings: SplitSettings) -> Bools:
    """(F,) true where no job can hold both a file and the one before it; true for the first file."""
    result = np.zeros(len(files), dtype=np.bool_)
    result[:1] = True
    if len(files) < 2:
        return result
    if settings.continuous:
        result |= range_breaks(files)
    if settings.boundary:
        result[1:] |= files.boundaryid[1:] != files.boundaryid[:-1]
    if settings.by_lumi:
        result[1:] |= files.lumiblocknr[1:] != files.lumiblocknr[:-1]
    return result


def next_breaks(breaks: Bools) -> Ints:
    """(F,) for each file the position of the next file at which a job has to start anew; F when there is none."""
    starts = np.append(np.flatnonzero(breaks), len(breaks))
    positions = np.arange(len(breaks))
    return starts[np.searchsorted(starts, positions, side="right")].astype(np.int64)


def unlimited_files(files: FileTable, settings: SplitSettings) -> Bools:
    """(F,) files whose job ends only at its boundary: no maximum holds. A file without boundary id has no boundary."""
    if settings.boundary != WHOLE_BOUNDARY:
        return np.zeros(len(files), dtype=np.bool_)
    return np.asarray(files.boundaryid != NULL_INTEGER)
