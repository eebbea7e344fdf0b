"""The task's own rules for its jobs: how many files and events, which files belong together, and the maxima.

Source: ATLAS production brokerage, atomic jobs and per-job maxima; PanDA data model, task split rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from broker.domain.split_rule import SplitRule

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
        """Whether the files of a job are taken in one step, without looking at single files."""
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

    Scout jobs of a task without a rule for files or events take one file. The number of files is that of records when
    each file is read in several parts of its events (``EI`` events a file, ``DY`` events a part).
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

    For chunks that merge as well; scouts are only smaller. Source: PanDA analysis brokerage, new basic weight.
    """
    own = split_settings(rule, merging=False, scout=False)
    return replace(own, scout=scout, max_events=None, max_output_gb=math.inf, boundary=0, dynamic=False)


def smallest_job(settings: SplitSettings) -> SplitSettings:
    """The settings of the smallest job allowed: one file where the task has no rule for files or events."""
    if settings.files_per_job is None and settings.events_per_job is None:
        return replace(settings, files_per_job=1)
    return settings
