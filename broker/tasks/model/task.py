"""A task to be made: columns, datasets, the template of its jobs, and how its files become jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from broker.matching.patterns import SafePattern
from broker.matching.specs.spec import JobSpecs
from broker.tasks.model.placeholders import Template

PSEUDO_MASTER, SEQUENCE = "pseudo_dataset", "seq_number"
DEFAULT_ATTEMPTS = 3


@dataclass(frozen=True)
class InputFile:
    """A file of an input dataset; a value that is not known is None.

    Attributes:
        lfn: its name.
        scope: the scope of its name.
        fsize: its size in bytes.
        nevents: the number of events in it.
        checksum: with the letters of its kind (``ad:``, ``md:``).
        guid: its GUID.
    """

    lfn: str
    scope: str | None = None
    fsize: int | None = None
    nevents: int | None = None
    checksum: str | None = None
    guid: str | None = None


@dataclass(frozen=True)
class InputPlan:
    """An input dataset, container or sequence of numbers.

    Attributes:
        field: where it stands among the parameters.
        name: the name of the dataset.
        stream: the stream that templates name.
        pseudo: it has no files of its own.
        is_master: its files determine the jobs.
        attributes: the attributes of the row.
        offset: files left out at the front; of a sequence: the number after which it begins.
        files_per_job: files of a secondary in each job; None: by its ratio.
        ratio: files of a secondary for each of the primary input.
        wanted: maximum number of rows; None: as many as the primary input needs.
        include: only files whose name matches one of these are taken; empty: all.
        exclude: files whose name matches one of these are not taken.
        files: the listed files; None: the catalogue knows them.
        expand: a container is read as its datasets.
    """

    field: str
    name: str
    stream: str
    pseudo: bool = False
    is_master: bool = True
    attributes: tuple[str, ...] = ()
    offset: int = 0
    files_per_job: int | None = None
    ratio: float = 1.0
    wanted: int | None = None
    include: tuple[SafePattern, ...] = ()
    exclude: tuple[SafePattern, ...] = ()
    files: tuple[InputFile, ...] | None = None
    expand: bool = False

    def takes(self, lfn: str) -> bool:
        """Whether a file of this name is wanted."""
        if self.include and not any(pattern.occurs_in(lfn) for pattern in self.include):
            return False
        return not any(pattern.occurs_in(lfn) for pattern in self.exclude)


@dataclass(frozen=True)
class OutputPlan:
    """A dataset that the jobs write into.

    Attributes:
        type: output or log.
        name: the name of the dataset; ``$JEDITASKID`` is replaced.
        container: the container that it belongs to.
        stream: the stream that templates name: OUTPUT0, LOG0.
        filename: the name of each job's file, with ``${SN}``.
        offset: the number after which serial numbers begin.
        token: the token of the storage.
        attributes: the attributes of the row.
    """

    type: Literal["output", "log"]
    name: str
    container: str | None
    stream: str
    filename: str
    offset: int = 0
    token: str | None = None
    destination: str | None = None
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RefinedTask:
    """A task to be made.

    Attributes:
        columns: columns of ``jedi_tasks``; ``status`` is the one in which its work begins.
        parameters: the parameters as they were given.
        inputs: the primary input first.
        outputs: in the order of their streams.
        template: the template of the arguments of each job, as text.
        parsed: the same, parsed.
        seed_offset: added to the number of the job for ``${RNDMSEED}``.
        event_offset: the offset of the first event of the task.
        max_attempt: attempts at each file.
        max_failure: failures of each file; None: without a limit.
        most_files: maximum number of files of the primary input.
        most_events: maximum number of events of the primary input.
        events_a_file: events of a file for which none are stated.
        parent: number or name of the parent; None without one.
        waits_for_input: the datasets need not exist yet.
        starts_with_parent: it does not wait until its parent has ended.
        until_closed: files are added until the input is closed.
        notes: what the submitter should know.
        specs: what a job requires of the node of its pilot; None: nothing.
    """

    columns: Mapping[str, Any]
    parameters: Mapping[str, Any]
    inputs: tuple[InputPlan, ...]
    outputs: tuple[OutputPlan, ...]
    template: str
    parsed: Template
    seed_offset: int = 0
    event_offset: int = 0
    max_attempt: int = DEFAULT_ATTEMPTS
    max_failure: int | None = None
    most_files: int | None = None
    most_events: int | None = None
    events_a_file: int | None = None
    parent: int | str | None = None
    waits_for_input: bool = False
    starts_with_parent: bool = False
    until_closed: bool = False
    notes: tuple[str, ...] = ()
    specs: JobSpecs | None = None
