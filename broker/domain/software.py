"""Software and hardware that queues publish, reduced to the fields that the checks read.

Source: ATLAS Production Job Brokerage, release/cache availability; PanDA software and hardware matching, queue data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: What ``releases`` of a queue is when it publishes what it has, and when it takes anything.
AUTO, ANY = ("AUTO",), ("ANY",)
#: What separates the fields of a tag in :attr:`QueueSoftware.tags`; it is in no name.
TAG_SEPARATOR = "\n"
#: The word in a list of hardware attributes that excludes tasks which do not request the attribute.
EXCLUSIVE = "excl"


def tag_key(platform: str, project: str, release: str) -> str:
    """How a tag is looked up."""
    return TAG_SEPARATOR.join((platform, project, release))


@dataclass(frozen=True)
class HardwareEntry:
    """The values of one kind of hardware; None for an attribute that the queue does not describe.

    ``exclusive`` tells that some list has the word ``excl``; the lists themselves are as published.
    """

    arch: tuple[str, ...] | None = None
    vendor: tuple[str, ...] | None = None
    instr: tuple[str, ...] | None = None
    exclusive: bool = False


@dataclass(frozen=True)
class Hardware:
    """The hardware description of a queue: CPUs and GPUs, None for no entry."""

    cpu: HardwareEntry | None = None
    gpu: HardwareEntry | None = None


@dataclass(frozen=True)
class QueueSoftware:
    """The software tags of a queue. Two of equal ``digest`` are equal, whatever else is compared.

    Attributes:
        digest: of the published text.
        readable: False for a document that cannot be read, or whose hardware description cannot.
        cmtconfigs: platforms, in the published order.
        containers: words ``any`` and ``/cvmfs``, and prefixes of container names, none of them empty.
        cvmfs: words ``any``, ``atlas``, ``nightlies``.
        tags: keys of its tags, see :func:`tag_key`.
        container_names: names of containers in its tags, and their sources.
        hardware: as described.
    """

    digest: str
    readable: bool = field(default=True, compare=False)
    cmtconfigs: tuple[str, ...] = field(default=(), compare=False)
    containers: tuple[str, ...] = field(default=(), compare=False)
    cvmfs: frozenset[str] = field(default=frozenset(), compare=False)
    tags: frozenset[str] = field(default=frozenset(), compare=False)
    container_names: frozenset[str] = field(default=frozenset(), compare=False)
    hardware: Hardware = field(default_factory=Hardware, compare=False)


@dataclass(frozen=True)
class GpuSummary:
    """One combination of GPU hardware and software that pilots report at a queue; None for unknown fields.

    ``vram`` is text in MB, as it is compared like a version.
    """

    vendor: str | None = None
    model: str | None = None
    vram: str | None = None
    generation: str | None = None
    cuda: str | None = None
    driver: str | None = None


@dataclass(frozen=True)
class QueueOffer:
    """Everything that one unified queue publishes for the software check.

    Attributes:
        name: of the unified queue.
        releases: as in CRIC: exactly ``AUTO``, exactly ``ANY``, or a value that no task matches.
        software: published tags, None without any.
        gpus: what pilots have seen.
    """

    name: str
    releases: tuple[str, ...]
    software: QueueSoftware | None
    gpus: tuple[GpuSummary, ...] = ()


@dataclass(frozen=True)
class ContainerSources:
    """Container sources by name, for all queues; ``digest`` of the published document."""

    digest: str = ""
    by_name: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class SoftwareOffers:
    """Offers of all unified queues (U); ``gpus_known`` is False when the GPU summary is unusable."""

    queues: tuple[QueueOffer, ...] = ()
    sources: ContainerSources = field(default_factory=ContainerSources)
    gpus_known: bool = True
