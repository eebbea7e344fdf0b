"""How many jobs files become, counted while the files go by: nothing is kept but the job that grows.

A queue may allow less in one job than the task does, so this is the least number of jobs. Source: ATLAS production
brokerage, per-job maxima.
"""

from __future__ import annotations

from broker.domain.split_rule import parse_split_rule
from broker.tasks.model.task import InputFile
from broker.work.input_files import MEGABYTE_BYTES
from broker.work.split_settings import split_settings


class JobCount:
    """Counts the jobs of one primary dataset.

    >>> count = JobCount("NF=2")
    >>> for name in "abc":
    ...     count.add(InputFile(name))
    >>> count.jobs
    2
    """

    def __init__(self, split_rule: str) -> None:
        """Nothing is counted yet."""
        settings = split_settings(parse_split_rule(split_rule), merging=False, scout=False)
        self._files_limit, self._events_limit = settings.files_limit, settings.events_limit
        gigabytes = settings.gb_per_job if settings.files_per_job is None else None
        self._bytes_limit = None if gigabytes is None else gigabytes * 1024 * MEGABYTE_BYTES
        self._files = self._events = self._bytes = 0
        self.jobs = 0

    def add(self, file: InputFile) -> None:
        """Count a file: into the job that grows, or as the first of the next one."""
        events, size = file.nevents or 0, file.fsize or 0
        if not self.jobs or self._is_full(events, size):
            self.jobs += 1
            self._files = self._events = self._bytes = 0
        self._files += 1
        self._events += events
        self._bytes += size

    def _is_full(self, events: int, size: int) -> bool:
        if self._files >= self._files_limit:
            return True
        if self._events_limit is not None and self._events + events > self._events_limit:
            return True
        return self._bytes_limit is not None and self._bytes + size > self._bytes_limit
