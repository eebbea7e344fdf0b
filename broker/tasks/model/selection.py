"""Which files of a dataset a task takes: by name, from an offset on, up to a number of files or events. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from broker.tasks.model.task import InputFile, InputPlan


@dataclass(frozen=True)
class Limits:
    """How much of a dataset is taken; None: no limit.

    Attributes:
        skipped: files left out in front.
        files: at most so many.
        events: files until so many events are there.
        events_a_file: of files of which nobody says any.
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
    """The rows of a primary input that has no files; the last one has what is left of the events.

    >>> [one.nevents for one in pseudo_files(3, 250, 100)]
    [100, 100, 50]
    """
    left = rows * events_a_row if events is None else events
    for number in range(rows):
        here = min(events_a_row, max(left, 0))
        left -= here
        yield InputFile(f"pseudo_lfn.{number}", fsize=0, nevents=here)
