"""Releases, caches, nightlies and containers against what queues publish: the expected outcomes."""

from __future__ import annotations

from typing import Any

import pytest

from broker.domain.queues import ContainerSources, QueueOffer
from broker.matching.availability import job_platform
from broker.matching.match_queue import match_queue
from broker.matching.need import production_need
from tests.contract.offers import PLATFORM, software_of

RELEASE, NIGHTLY = "Athena-21.0.38", "Athena-main-2026-07-30T2101"
CHOICE = "x86_64-(centos7|slc6)-gcc8-opt"
CPU = [{"type": "cpu", "arch": ["x86_64", "aarch64"]}]


def tag(release: str = "21.0.38", **more: Any) -> dict[str, Any]:
    defaults = {"cmtconfig": PLATFORM, "project": "Athena", "release": release, "container_name": "", "sources": []}
    return {**defaults, **more}


def outcome(
    architecture: str,
    transhome: str | None = RELEASE,
    container: str | None = None,
    only_tags: bool = False,
    sources: dict[str, tuple[str, ...]] | None = None,
    releases: tuple[str, ...] = ("AUTO",),
    **lists: Any,
) -> str:
    offer = QueueOffer("QUEUE", releases, software_of(architectures=CPU, **lists))
    need = production_need(architecture, transhome, container, only_tags)
    return match_queue(need, offer, ContainerSources("x", sources or {})).code


@pytest.mark.parametrize(
    ("architecture", "transhome", "lists", "expected"),
    [
        (PLATFORM, RELEASE, {"cvmfs": ["atlas"], "containers": ["any"]}, "fits"),
        (PLATFORM, RELEASE, {"cvmfs": ["atlas"], "containers": ["/cvmfs"]}, "fits"),
        (PLATFORM, RELEASE, {"cvmfs": ["atlas"], "cmtconfigs": [PLATFORM]}, "fits"),
        (PLATFORM, RELEASE, {"cvmfs": ["any"], "cmtconfigs": [PLATFORM]}, "fits"),
        (PLATFORM, RELEASE, {"cvmfs": ["atlas"], "cmtconfigs": ["other"]}, "platform"),
        (PLATFORM, RELEASE, {"cvmfs": ["atlas"], "tags": [tag()]}, "fits"),
        (PLATFORM, RELEASE, {"tags": [tag()]}, "fits"),
        (PLATFORM, RELEASE, {"tags": [tag("21.0.39")]}, "release"),
        (PLATFORM, RELEASE, {"tags": [tag(project="AthDerivation")]}, "release"),
        (PLATFORM, RELEASE, {"tags": [tag(cmtconfig="other")]}, "release"),
        (PLATFORM, RELEASE, {"cvmfs": ["nightlies"], "cmtconfigs": [PLATFORM]}, "release"),
        (PLATFORM + "@centos7", RELEASE, {"tags": [tag()]}, "release"),
        (PLATFORM + "@centos7", RELEASE, {"tags": [tag()], "containers": ["any"]}, "fits"),
        (PLATFORM + "@centos7", RELEASE, {"tags": [tag()], "containers": ["/cvmfs"]}, "release"),
        (PLATFORM + "@centos7", RELEASE, {"cvmfs": ["atlas"], "cmtconfigs": [PLATFORM]}, "fits"),
        (PLATFORM, NIGHTLY, {"cvmfs": ["any"], "cmtconfigs": [PLATFORM]}, "fits"),
        (PLATFORM, NIGHTLY, {"cvmfs": ["nightlies"], "cmtconfigs": [PLATFORM]}, "fits"),
        (PLATFORM, NIGHTLY, {"cvmfs": ["atlas"], "cmtconfigs": [PLATFORM]}, "release"),
        (PLATFORM, NIGHTLY, {"tags": [tag()], "containers": ["any"]}, "release"),
        (CHOICE, RELEASE, {"cvmfs": ["atlas"], "cmtconfigs": [PLATFORM]}, "fits"),
        (CHOICE, RELEASE, {"tags": [tag()], "cmtconfigs": [PLATFORM]}, "fits"),
        (CHOICE, RELEASE, {"cvmfs": ["atlas"], "cmtconfigs": ["other"]}, "platform"),
        (CHOICE, RELEASE, {"cvmfs": ["atlas"], "containers": ["any"], "cmtconfigs": ["no"]}, "platform_unresolved"),
        (CHOICE + "@centos7", RELEASE, {"cvmfs": ["atlas"], "containers": ["any"], "cmtconfigs": [PLATFORM]}, "fits"),
        ("", RELEASE, {"cvmfs": ["atlas"], "containers": ["any"]}, "fits"),
        ("", RELEASE, {"cvmfs": ["atlas"], "cmtconfigs": [PLATFORM]}, "platform"),
        ("x86_64-(?=el9)-opt", RELEASE, {"cvmfs": ["any"], "containers": ["any"]}, "pattern_unsupported"),
        (PLATFORM, "Athena", {"tags": [tag()]}, "release"),
        (PLATFORM, None, {}, "fits"),
        (PLATFORM + "#aarch64", None, {}, "fits"),
        (PLATFORM + "#ppc64le", None, {}, "cpu"),
    ],
)
def test_releases(architecture: str, transhome: str | None, lists: dict[str, Any], expected: str) -> None:
    assert outcome(architecture, transhome, **lists) == expected


UNPACKED = {"containers": ["/cvmfs/unpacked"]}


@pytest.mark.parametrize(
    ("container", "only_tags", "sources", "lists", "expected"),
    [
        ("/cvmfs/u/img", False, {}, {"containers": ["any"]}, "fits"),
        ("/cvmfs/u/img", False, {}, {"containers": ["/cvmfs"]}, "fits"),
        ("img", True, {}, {"containers": ["any"]}, "container"),
        ("img", True, {}, {"tags": [tag(container_name="img")]}, "fits"),
        ("docker://x", True, {}, {"tags": [tag(sources=["docker://x"])]}, "fits"),
        ("img", True, {"img": ("/cvmfs/unpacked/x",)}, UNPACKED, "container"),
        ("img", False, {}, {"tags": [tag(container_name="img")]}, "fits"),
        ("docker://x", False, {}, {"tags": [tag(sources=["docker://x"])]}, "fits"),
        ("docker://x:1", False, {}, {"containers": ["docker://"]}, "fits"),
        ("docker://x:1", False, {}, {"containers": ["docker://x:1/long"]}, "container"),
        ("img", False, {"img": ("/cvmfs/unpacked/x",)}, UNPACKED, "fits"),
        ("img", False, {"other": ("/cvmfs/unpacked/x",)}, UNPACKED, "container"),
        ("img", False, {}, UNPACKED, "container"),
        # an empty prefix would match everything
        ("img", False, {}, {"containers": [""]}, "container"),
        # the release does not matter, but a platform pattern must match one of the queue
        ("img", False, {}, {"containers": ["any"], "cvmfs": []}, "fits"),
    ],
)
def test_containers(
    container: str, only_tags: bool, sources: dict[str, tuple[str, ...]], lists: dict[str, Any], expected: str
) -> None:
    assert outcome(PLATFORM, RELEASE, container, only_tags, sources, **lists) == expected


@pytest.mark.parametrize(
    ("releases", "architecture", "expected"),
    [
        (("AUTO",), PLATFORM, "release"),
        (("ANY",), PLATFORM, "fits"),
        (("ANY",), PLATFORM + "#x86_64", "hardware_unknown"),
        (("ANY",), PLATFORM + "#&*", "hardware_unknown"),
        # text that is not JSON is an old-style string, and a queue that takes anything has no platform check
        (("ANY",), "{", "fits"),
        (("AUTO",), "{", "architecture_invalid"),
        ((), PLATFORM, "not_offered"),
        (("AUTO", "ANY"), PLATFORM, "not_offered"),
        (("21.0.38",), PLATFORM, "not_offered"),
        (("auto",), PLATFORM, "not_offered"),
    ],
)
def test_releases_of_the_queue(releases: tuple[str, ...], architecture: str, expected: str) -> None:
    assert outcome(architecture, releases=releases) == expected


def test_a_queue_that_takes_anything_gets_no_container_check() -> None:
    assert outcome(PLATFORM, container="img", only_tags=True, releases=("ANY",)) == "fits"


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        (PLATFORM, None),
        ("x86_64-slc6-gcc8-opt", None),
        ("x86_64-slc.-gcc8-opt", "x86_64-slc6-gcc8-opt"),
        ("x86_64-(slc6|centos7)-gcc8-opt", PLATFORM),  # the first platform of the queue, not of the task
        ("x86_64-.*-clang-opt", None),
        ("(ppc64le|aarch64)-el9-gcc13-opt", "aarch64-el9-gcc13-opt"),
        ("(ppc64le|s390)-el9-gcc13-opt", None),
        ("(ppc64le|aarch64)-el9-gcc.*", None),
    ],
)
def test_the_platform_chosen_for_the_job(architecture: str, expected: str | None) -> None:
    tags = software_of(cmtconfigs=[PLATFORM, "x86_64-slc6-gcc8-opt"], architectures=CPU)
    need = production_need(architecture + "@centos7", RELEASE, None, False)
    assert job_platform(need, tags) == expected
    assert job_platform(need, None) is None
