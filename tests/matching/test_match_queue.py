"""All needs at all queues: the same as one by one, stable, and never better for asking more."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings, strategies as st

from broker.domain.queues import (
    ContainerSources,
    GpuSummary,
    Hardware,
    HardwareEntry,
    QueueOffer,
    QueueSoftware,
    tag_key,
)
from broker.matching.architecture import read
from broker.matching.explanation import explain
from broker.matching.match_queue import SoftwareMatcher, SoftwareMatcherCache, match_queue
from broker.matching.need import Need, Release, need_of
from broker.matching.outcomes import TITLES, Outcome
from tests.matching.requirements import PLATFORMS, gpu_specs, json_documents, old_strings

P = PLATFORMS[1]
WORDS = st.one_of(st.none(), st.lists(st.sampled_from(["x86_64", "aarch64", "intel", "avx2", "any", ""]), max_size=3))
ENTRIES = st.builds(
    lambda arch, vendor, instr: HardwareEntry(*(None if one is None else tuple(one) for one in (arch, vendor, instr))),
    WORDS,
    WORDS,
    WORDS,
)
GPUS = st.builds(
    GpuSummary,
    st.sampled_from([None, "NVIDIA", "AMD"]),
    st.sampled_from([None, "NVIDIA A100-SXM4-80GB", "Tesla T4"]),
    st.sampled_from([None, "15360", "81920"]),
    st.sampled_from([None, "Ampere", "Turing"]),
    st.sampled_from([None, "Unknown", "12.4"]),
    st.sampled_from([None, "550.54.15"]),
)


def software(hardware: Hardware, exclusive: bool, lists: tuple[Any, ...]) -> QueueSoftware:
    cmtconfigs, containers, cvmfs, tags, names = lists
    if hardware.cpu is not None and exclusive:
        closed = (*(hardware.cpu.vendor or ()), "excl")
        hardware = replace(hardware, cpu=replace(hardware.cpu, vendor=closed, exclusive=True))
    return QueueSoftware(
        repr((hardware, lists)),
        cmtconfigs=tuple(cmtconfigs),
        containers=tuple(containers),
        cvmfs=frozenset(cvmfs),
        tags=frozenset(tags),
        container_names=frozenset(names),
        hardware=hardware,
    )


def some(*words: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(words), max_size=2)


def offers(exclusive: st.SearchStrategy[bool]) -> st.SearchStrategy[QueueOffer]:
    lists = st.tuples(
        some(*PLATFORMS[1:3]), some("any", "/cvmfs", "docker://"), some("any", "atlas", "nightlies"),
        some(tag_key(P, "Athena", "24.0.41")), some("img"),
    )  # fmt: skip
    tags = st.builds(
        software, st.builds(Hardware, st.one_of(st.none(), ENTRIES), st.one_of(st.none(), ENTRIES)), exclusive, lists
    )
    return st.builds(
        QueueOffer,
        st.just("QUEUE"),
        st.sampled_from([("AUTO",), ("AUTO",), ("AUTO",), ("ANY",), ()]),
        st.one_of(st.none(), tags, tags, tags),
        st.lists(GPUS, max_size=2).map(tuple),
    )


RELEASES = st.sampled_from([None, Release("atlas", "Athena", "24.0.41"), Release("nightlies")])
NEEDS = st.builds(
    lambda text, release, container, only_tags, hardware_only: replace(
        need_of(text, release, container, only_tags), hardware_only=hardware_only
    ),
    st.one_of(old_strings(), json_documents().map(json.dumps), st.just("{"), st.just("")),
    RELEASES,
    st.sampled_from([None, None, "img", "docker://x"]),
    st.booleans(),
    st.sampled_from([False, False, False, True]),
)
SOURCES = ContainerSources("s", {"img": ("/cvmfs/x", "docker://img")})


@settings(deadline=None)
@given(st.lists(NEEDS, max_size=6), st.lists(offers(st.booleans()), max_size=6), st.booleans())
def test_together_is_as_one_by_one(needs: list[Need], queues: list[QueueOffer], gpus_known: bool) -> None:
    together = SoftwareMatcher(queues, SOURCES, gpus_known)
    for need in needs:
        expected = [match_queue(need, offer, SOURCES, gpus_known) for offer in queues]
        assert together.outcomes(need).tolist() == expected
        assert together.outcomes(need).tolist() == expected


@settings(deadline=None)
@given(NEEDS, offers(st.booleans()), st.booleans())
def test_every_outcome_can_be_explained(need: Need, offer: QueueOffer, gpus_known: bool) -> None:
    outcome = match_queue(need, offer, SOURCES, gpus_known)
    if outcome != Outcome.FITS:
        found = explain(need, offer, outcome)
        assert found.part == outcome.code
        assert found.sentence.startswith(TITLES[outcome])
        assert len(found.sentence) < 2000


@settings(deadline=None)
@given(gpu_specs(), gpu_specs(), offers(st.just(False)))
def test_asking_more_of_a_gpu_adds_no_queue(less: dict[str, Any], more: dict[str, Any], offer: QueueOffer) -> None:
    def fits(spec: dict[str, Any]) -> bool:
        return match_queue(need_of(json.dumps({"gpu_spec": spec}), None), offer, SOURCES) == Outcome.FITS

    together = {**more, **less}
    named = {key for key, value in less.items() if value != "*"}
    if all(key in named or key not in less for key in more):
        assert fits(less) or not fits(together)


@settings(deadline=None)
@given(old_strings(), gpu_specs(), offers(st.just(False)))
def test_asking_for_a_gpu_as_well_adds_no_queue(text: str, spec: dict[str, Any], offer: QueueOffer) -> None:
    requirement = read(text).requirement
    without = need_of(json.dumps({"encoded_platform": text}), None)
    if requirement.gpu is None and without.fault is None:
        body = json.dumps({"encoded_platform": text, "gpu_spec": spec})
        fits = match_queue(need_of(body, None), offer, SOURCES) == Outcome.FITS
        assert match_queue(without, offer, SOURCES) == Outcome.FITS or not fits


@settings(deadline=None)
@given(st.lists(st.sampled_from(["x86_64", "aarch64"]), min_size=1), offers(st.just(False)))
def test_asking_more_of_a_cpu_adds_no_queue(archs: list[str], offer: QueueOffer) -> None:
    def fits(*fields: str) -> bool:
        return (
            match_queue(need_of("#" + "|".join("-".join((arch, *fields)) for arch in archs), None), offer, SOURCES) == 0
        )

    assert fits() or not fits("intel")
    assert fits("intel") or not fits("intel", "avx2")
    assert fits("*", "avx2") or not fits("intel", "avx2")
    assert match_queue(need_of("", None), offer, SOURCES) == 0 or not fits()


def test_the_same_queues_are_judged_once() -> None:
    memory = SoftwareMatcherCache()
    queues = [QueueOffer("Q", ("AUTO",), QueueSoftware("1"))]
    first = memory.matcher_of(queues, SOURCES)
    row = first.outcomes(need_of("#x86_64", None))
    published_again = [QueueOffer("Q", ("AUTO",), QueueSoftware("1"))]
    again = memory.matcher_of(published_again, ContainerSources("s"))
    assert again is first and again.outcomes(need_of("#x86_64", None)) is row
    for changed in (
        memory.matcher_of([replace(queues[0], releases=("ANY",))], SOURCES),
        memory.matcher_of([replace(queues[0], software=QueueSoftware("2"))], SOURCES),
        memory.matcher_of([replace(queues[0], gpus=(GpuSummary(),))], SOURCES),
        memory.matcher_of(queues, ContainerSources("t")),
        memory.matcher_of(queues, SOURCES, gpus_known=False),
        memory.matcher_of([], SOURCES),
    ):
        assert changed is not first


def test_every_outcome_has_a_title() -> None:
    assert set(TITLES) == set(Outcome)
