"""The schema of a file of sites. The description of a field tells what to write: refusals end with it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from broker.feeds.model.cric.queues import LONGEST_NAME, LONGEST_QUEUE_NAME

Status = Literal["online", "offline", "brokeroff", "test"]
BatchKind = Literal["htcondor-ce", "arc-ce", "htcondor", "slurm", "pbs", "lsf", "kubernetes", "fork"]
_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
Name = Annotated[str, StringConstraints(pattern=_PATTERN, max_length=LONGEST_NAME)]
QueueName = Annotated[str, StringConstraints(pattern=_PATTERN, max_length=LONGEST_QUEUE_NAME)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=255)]
NAME_RULE = "letters, digits, dots, hyphens and underscores, the first a letter or digit"
_TB_MOST = 1e6


def _images(value: Any) -> Any:
    """Convert ``true`` and ``false`` to lists of images: any, or none."""
    return {True: ["any"], False: []}[value] if isinstance(value, bool) else value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Batch(_Part):
    """The batch system or computing element behind a queue."""

    kind: BatchKind
    address: Word = Field(description="host and port or URL of a CE, or the partition of a batch system")


class Gpu(_Part):
    """GPUs of one kind in a slot."""

    vendor: Word = Field(description="a text such as NVIDIA")
    model: Word | None = Field(default=None, description="a text such as A100")
    memory_mb: int | None = Field(default=None, ge=1, le=10_000_000, description="a whole number of MB")
    count: int = Field(default=1, ge=1, le=1024, description="a whole number from 1 to 1024")


class Tag(_Part):
    """Software that is installed."""

    project: Word = Field(description="a text; put numbers in quotes")
    release: Word = Field(description="a text; put numbers in quotes")
    platform: Word = Field(description="a text such as x86_64-el9-gcc13-opt")


class PilotLimits(_Part):
    """Limits of the pilots of a queue; None: not said here."""

    most_waiting: int | None = Field(default=None, ge=0, le=10**6, description="a whole number of pilots that may wait")
    most_pilots: int | None = Field(
        default=None, ge=0, le=10**6, description="a whole number of pilots that may wait and run"
    )
    most_new: int | None = Field(
        default=None, ge=0, le=10**6, description="a whole number of pilots that are sent at a time"
    )


class Slot(_Part):
    """What a slot of a queue offers; None: not said here."""

    cores: int | None = Field(default=None, ge=1, le=100_000, description="a whole number of cores, 1 to 100000")
    memory_mb: int | None = Field(default=None, ge=1, le=10**9, description="a whole number of MB of the slot")
    walltime_h: float | None = Field(default=None, gt=0, le=87_600, description="hours, more than 0, at most 87600")
    scratch_gb: float | None = Field(default=None, gt=0, le=10**6, description="GB, more than 0, at most 1000000")
    corepower: float | None = Field(default=None, gt=0, le=10_000, description="HS23 of a core, more than 0")
    containers: Annotated[list[Word], BeforeValidator(_images)] | None = Field(
        default=None, description="true, false, or a list of images"
    )
    connectivity: Literal["full", "http", "none"] | None = None
    cvmfs: bool | None = Field(default=None, description="true or false")
    pilots: PilotLimits = Field(
        default=PilotLimits(), description="a mapping of most_waiting, most_pilots and most_new"
    )


class Queue(Slot):
    """A queue; endpoints that are None are those of the site."""

    batch: Batch
    status: Status = "online"
    type: Literal["unified", "production", "analysis"] = "unified"
    gpus: list[Gpu] = Field(default=[], description="a list of GPUs, each with its vendor")
    gpu_jobs_only: bool = Field(default=False, description="true or false")
    platforms: list[Word] = Field(default=[], description="a list of texts such as x86_64-el9-gcc13-opt")
    tags: list[Tag] = Field(default=[], description="a list of project, release and platform")
    read: list[Name] | None = Field(default=None, description="a list of endpoints, the preferred one first")
    write: list[Name] | None = Field(default=None, description="a list of endpoints, the preferred one first")


class Storage(_Part):
    """A Rucio storage element; space that is None is unknown, or told by Rucio."""

    tape: bool = Field(default=False, description="true or false")
    total_tb: float | None = Field(default=None, ge=0, le=_TB_MOST, description="TB of 10^12 bytes")
    free_tb: float | None = Field(default=None, ge=0, le=_TB_MOST, description="TB of 10^12 bytes")
    closed: list[Literal["read", "write"]] = Field(default=[], description="[], [read], [write] or [read, write]")


class Site(_Part):
    """A site; ``nucleus`` None: where it has a disk to write to."""

    cloud: Name | None = Field(default=None, description=f"a text of {NAME_RULE}; put NO in quotes")
    nucleus: bool | None = Field(default=None, description="true or false")
    latitude: float | None = Field(default=None, ge=-90, le=90, description="degrees north, -90 to 90")
    longitude: float | None = Field(default=None, ge=-180, le=180, description="degrees east, -180 to 180")
    storage: dict[Name, Storage] = Field(default={}, description="a mapping of the names of endpoints to what they are")
    queues: dict[QueueName, Queue] = Field(default={}, description="a mapping of the names of queues to what they are")


class ResourceType(_Part):
    """Bounds of the jobs of a resource type, both included; None is open."""

    cores: Annotated[list[int | None], Field(min_length=2, max_length=2)] = Field(
        description="two whole numbers, or null for an open bound, as [1, 1]"
    )
    memory_mb_per_core: Annotated[list[int | None], Field(min_length=2, max_length=2)] = Field(
        description="two whole numbers, or null for an open bound, as [null, 2000]"
    )


class Grid(_Part):
    """A sites file: all queues, sites and storages that it declares."""

    sites: dict[Name, Site] = Field(min_length=1, description="a mapping of the names of sites to what they are")
    defaults: Slot = Field(default=Slot(), description="what queues do not say themselves")
    resource_types: dict[Name, ResourceType] = Field(default={}, description="a mapping of names to bounds")


DEFAULTS = Slot(
    cores=1,
    memory_mb=2000,
    walltime_h=24.0,
    scratch_gb=20.0,
    corepower=10.0,
    containers=["any"],
    connectivity="full",
    cvmfs=False,
)
"""The values of a queue where neither it nor ``defaults`` of the file sets them."""
