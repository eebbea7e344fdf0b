"""Checking the software of a task against the software tags of a queue.

Source: ATLAS Production Job Brokerage, checks for fat containers, and for releases, caches, or nightlies; where that is
silent, PanDA software and hardware matching.
"""

from __future__ import annotations

from broker.domain.queues import ContainerSources, QueueSoftware, tag_key
from broker.matching.need import Need, Release
from broker.matching.outcomes import Outcome
from broker.matching.patterns import PatternUnsupportedError
from broker.matching.platforms import is_pattern, resolved

_ANY, _CVMFS = "any", "/cvmfs"


def match_software(need: Need, software: QueueSoftware, sources: ContainerSources) -> Outcome:
    """How the tags of a queue meet the software of a need whose hardware they meet."""
    platform = need.requirement.platform
    unsupported = False
    try:
        concrete = resolved(platform, software)
    except PatternUnsupportedError:
        concrete, unsupported = None, True
    if need.container_name is not None:
        outcome = _container(need.container_name, need.only_tags, software, sources)
    elif need.release is not None:
        based = need.requirement.base_platform is not None
        outcome = _release(need.release, platform if concrete is None else concrete, based, software)
    else:
        outcome = Outcome.FITS
    if outcome == Outcome.FITS and concrete is None:
        return Outcome.PATTERN_UNSUPPORTED if unsupported else Outcome.PLATFORM_UNRESOLVED
    return outcome


def _container(name: str, only_tags: bool, software: QueueSoftware, sources: ContainerSources) -> Outcome:
    if name in software.container_names:
        return Outcome.FITS
    if only_tags:
        return Outcome.CONTAINER
    if takes_containers(software) or name.startswith(software.containers):
        return Outcome.FITS
    paths = sources.by_name.get(name, ())
    return Outcome.FITS if any(path.startswith(software.containers) for path in paths) else Outcome.CONTAINER


def takes_containers(software: QueueSoftware) -> bool:
    """Whether the queue can run anything that is in CVMFS in a container."""
    return _ANY in software.containers or _CVMFS in software.containers


def _release(release: Release, platform: str, based: bool, software: QueueSoftware) -> Outcome:
    if not release.readable:
        return Outcome.RELEASE
    in_cvmfs = _ANY in software.cvmfs or release.cvmfs_tag in software.cvmfs
    if in_cvmfs and (takes_containers(software) or platform in software.cmtconfigs):
        return Outcome.FITS
    in_tags = (
        release.project is not None
        and release.version is not None
        and tag_key(platform, release.project, release.version) in software.tags
    )
    if in_tags and (not based or _ANY in software.containers):
        return Outcome.FITS
    return Outcome.PLATFORM if in_cvmfs else Outcome.RELEASE


def job_platform(need: Need, software: QueueSoftware | None) -> str | None:
    """The platform of the queue that a pattern stands for; None where a job takes the platform of the task."""
    platform = need.requirement.platform
    if software is None or not is_pattern(platform):
        return None
    try:
        concrete = resolved(platform, software)
    except PatternUnsupportedError:
        return None
    return None if concrete is None or concrete == platform else concrete
