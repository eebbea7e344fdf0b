"""The writes of a task brokerage cycle: nuclei for tasks, locations of their output, and waiting tasks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OutputPlace:
    """Where one output or log dataset goes.

    Attributes:
        datasetid: of the dataset.
        seen: its storage token as it was read.
        storagetoken: its new one.
    """

    datasetid: int
    seen: str | None
    storagetoken: str


@dataclass(frozen=True)
class NucleusAssignment:
    """A task that gets a nucleus.

    Attributes:
        jeditaskid: the task.
        seen: the nucleus that it had when it was read, mostly None.
        nucleus: the one that it gets.
        outputs: its datasets that get a place.
    """

    jeditaskid: int
    seen: str | None
    nucleus: str
    outputs: tuple[OutputPlace, ...]


@dataclass(frozen=True)
class WaitingTask:
    """A task that gets none: the nucleus that it had when it was read, and the reason to show."""

    jeditaskid: int
    seen: str | None
    reason: str


@dataclass(frozen=True)
class TaskPlacement:
    """Everything that one write-back writes: tasks that get a nucleus, and tasks that wait."""

    assigned: tuple[NucleusAssignment, ...] = ()
    waiting: tuple[WaitingTask, ...] = ()
