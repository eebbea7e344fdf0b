"""Which files of a dataset a task takes, and how many jobs they become. Pure.

Files are taken by name, from an offset on, up to a number of files or events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from broker.domain.split_rule import parse_split_rule
from broker.tasks.model.task import InputFile, InputPlan
from broker.work.input_files import MEGABYTE_BYTES
from broker.work.split_settings import split_settings


@dataclass(frozen=True)
class Limits:
    """How much of a dataset is taken; None: no limit.

    Attributes:
        skipped: files left out at the front.
        files: the maximum number of files.
        events: files are taken until they have this many events.
        events_a_file: events of a file for which none are stated.
        taken: names that were taken before.
    """

    skipped: int = 0
    files: int | None = None
    events: int | None = None
    events_a_file: int | None = None
    taken: Collection[str] = ()


def selected(files: Iterable[InputFile], plan: InputPlan, limits: Limits) -> Iterator[InputFile]:
    """The files that are taken, in their order.

    >>> plan = InputPlan("", "data", "IN")
    >>> [one.lfn for one in selected(map(InputFile, "abcd"), plan, Limits(skipped=1, files=2))]
    ['b', 'c']
    """
    left_out, count, events = 0, 0, 0
    for one in files:
        if not plan.takes(one.lfn) or one.lfn in limits.taken:
            continue
        if left_out < limits.skipped:
            left_out += 1
            continue
        if limits.files is not None and count >= limits.files:
            return
        if limits.events is not None and events >= limits.events:
            return
        if one.nevents is None and limits.events_a_file is not None:
            one = replace(one, nevents=limits.events_a_file)
        count += 1
        events += one.nevents or 0
        yield one


def sequence(rows: int, offset: int) -> Iterator[InputFile]:
    """The rows of a sequence of numbers, from ``offset + 1`` on."""
    return (InputFile(str(number), fsize=0, nevents=1) for number in range(offset + 1, offset + rows + 1))


def pseudo_files(rows: int, events: int | None, events_a_row: int) -> Iterator[InputFile]:
    """The rows of a primary input that has no files; the last one has the remaining events.

    >>> [one.nevents for one in pseudo_files(3, 250, 100)]
    [100, 100, 50]
    """
    left = rows * events_a_row if events is None else events
    for number in range(rows):
        row_events = min(events_a_row, max(left, 0))
        left -= row_events
        yield InputFile(f"pseudo_lfn.{number}", fsize=0, nevents=row_events)


class JobCount:
    """Counts the jobs of one primary dataset as its files stream by; only the growing job is kept.

    A queue may allow less in one job than the task does, so this is the least number of jobs. Source: ATLAS production
    brokerage, per-job maxima.

    >>> count = JobCount("NF=2")
    >>> for name in "abc":
    ...     count.add(InputFile(name))
    >>> count.jobs
    2
    """

    def __init__(self, split_rule: str) -> None:
        """Start with nothing counted."""
        settings = split_settings(parse_split_rule(split_rule), merging=False, scout=False)
        self._files_limit, self._events_limit = settings.files_limit, settings.events_limit
        gigabytes = settings.gb_per_job if settings.files_per_job is None else None
        self._bytes_limit = None if gigabytes is None else gigabytes * 1024 * MEGABYTE_BYTES
        self._files = self._events = self._bytes = 0
        self.jobs = 0

    def add(self, file: InputFile) -> None:
        """Count a file: into the growing job, or as the first of the next one."""
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
