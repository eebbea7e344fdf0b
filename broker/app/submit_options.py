"""What the planner of every kind of file gets: the options of the submission, and what is known about the grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from broker.errors import Refused
from broker.pools.model.declarations import Declarations
from broker.pools.model.resources import Resources
from broker.store.submissions.task_rows import Submission


@dataclass(frozen=True)
class SubmitOptions:
    """The options of a submission, whatever the kind of the file."""

    user: str | None
    vo: str
    label: str
    nucleus: str | None
    share: list[str] | None
    queue_name: list[str] | None
    ignore_nodes: bool


@dataclass(frozen=True)
class Grid:
    """What submitting looks at.

    Attributes:
        queues: names of the PanDA queues that exist.
        declarations: of the parameters that jobs may require.
        resources: Site, CE and queue; None when none were ever published.
    """

    queues: frozenset[str]
    declarations: Declarations
    resources: Resources | None


Planner = Callable[[Path, SubmitOptions, Grid], tuple[Submission, ...]]
"""Reads a file and plans its tasks."""


class NotSubmitted(Refused):
    """A job that may not be run; nothing was submitted."""
