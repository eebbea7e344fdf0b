"""Software needs of a task: hardware, platform, and a release, a cache, a nightly or a container.

Source: ATLAS Production Job Brokerage, checks for fat containers, and for releases, caches, or nightlies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from broker.matching.architecture import read
from broker.matching.requirement import Problem, Requirement


@dataclass(frozen=True)
class Release:
    """The release that the task runs: its place in CVMFS, and project and version as in tags (None: in no tag).

    ``readable`` is False where the name does not show which part is the version: no queue has it then.
    """

    cvmfs_tag: Literal["atlas", "nightlies"]
    project: str | None = None
    version: str | None = None
    readable: bool = True


_NIGHTLY = re.compile(r"rel_\d+$|\d{4}-\d\d-\d\dT\d{4}$", re.ASCII)


def read_release(transhome: str) -> Release:
    """The release in the ``transHome`` of a production task: ``Project-Version``, or a nightly by its stamp.

    A name without a dash is a project without a version.
    """
    if _NIGHTLY.search(transhome):
        return Release("nightlies")
    project, version = (*transhome.split("-"), "")[:2]
    return Release("atlas", project, version)


@dataclass(frozen=True)
class Need:
    """Everything that decides the check; equal needs are checked once.

    Attributes:
        requirement: platform and hardware.
        fault: why the requirement cannot be known; None if it can.
        release: None for a task of which only platform and hardware are known.
        container_name: name of the container of a task that runs in one of its own.
        only_tags: whether the container must be in the tags of the queue.
        hardware_only: whether no software is checked, and hardware only where the task requests it.
    """

    requirement: Requirement
    fault: Problem | None = None
    release: Release | None = None
    container_name: str | None = None
    only_tags: bool = False
    hardware_only: bool = False


def need_of(
    architecture: str | None, release: Release | None, container_name: str | None = None, only_tags: bool = False
) -> Need:
    """The need of a task by its architecture and the release or container that it runs."""
    reading = read(architecture)
    return Need(reading.requirement, reading.fault, release, container_name or None, only_tags)


@lru_cache(maxsize=4096)
def production_need(
    architecture: str | None, transhome: str | None, container_name: str | None, only_tags: bool
) -> Need:
    """The need of a production task; one without ``transHome`` has only the hardware that it asks for.

    Source: PanDA software and hardware matching, hardware requests of tasks without transHome.
    """
    if transhome is None:
        reading = read(architecture)
        return Need(reading.requirement, reading.fault, hardware_only=True)
    return need_of(architecture, read_release(transhome), container_name, only_tags)
