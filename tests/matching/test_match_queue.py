"""Matching all needs at all queues: equal to matching one by one, stable, and monotonic in the requirements."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings, strategies as st

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
    lambda arch, vendor, instr: HardwareEntry(
        *(None if words is None else tuple(words) for words in (arch, vendor, instr))
    ),
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
        exclusive_vendors = (*(hardware.cpu.vendor or ()), "excl")
        hardware = replace(hardware, cpu=replace(hardware.cpu, vendor=exclusive_vendors, exclusive=True))
    return QueueSoftware(
        repr((hardware, lists)),
        cmtconfigs=tuple(cmtconfigs),
        containers=tuple(containers),
        cvmfs=frozenset(cvmfs),
        tags=frozenset(tags),
        container_names=frozenset(names),
        hardware=hardware,
    )


def words_of(*choices: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(choices), max_size=2)


def offers(exclusive: st.SearchStrategy[bool]) -> st.SearchStrategy[QueueOffer]:
    lists = st.tuples(
        words_of(*PLATFORMS[1:3]), words_of("any", "/cvmfs", "docker://"), words_of("any", "atlas", "nightlies"),
        words_of(tag_key(P, "Athena", "24.0.41")), words_of("img"),
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


GPU_QUEUE = QueueSoftware("1", hardware=Hardware(gpu=HardwareEntry()))
GPU_OFFERS = st.lists(GPUS, max_size=2).map(lambda gpus: QueueOffer("QUEUE", ("AUTO",), GPU_QUEUE, tuple(gpus)))
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
def test_matching_together_equals_matching_one_by_one(
    needs: list[Need], queues: list[QueueOffer], gpus_known: bool
) -> None:
    matcher = SoftwareMatcher(queues, SOURCES, gpus_known)
    for need in needs:
        expected = [match_queue(need, offer, SOURCES, gpus_known) for offer in queues]
        assert matcher.outcomes(need).tolist() == expected
        assert matcher.outcomes(need).tolist() == expected


@settings(deadline=None)
@given(NEEDS, offers(st.booleans()), st.booleans())
def test_every_outcome_can_be_explained(need: Need, offer: QueueOffer, gpus_known: bool) -> None:
    outcome = match_queue(need, offer, SOURCES, gpus_known)
    if outcome != Outcome.FITS:
        explanation = explain(need, offer, outcome)
        assert explanation.part == outcome.code
        assert explanation.sentence.startswith(TITLES[outcome])
        assert len(explanation.sentence) < 2000


@settings(deadline=None)
@given(gpu_specs(), gpu_specs(), st.one_of(GPU_OFFERS, offers(st.just(False))))
def test_a_stricter_gpu_requirement_adds_no_queue(
    less: dict[str, Any], more: dict[str, Any], offer: QueueOffer
) -> None:
    def fits(spec: dict[str, Any]) -> bool:
        return match_queue(need_of(json.dumps({"gpu_spec": spec}), None), offer, SOURCES) == Outcome.FITS

    combined = less | more | {key: value for key, value in less.items() if value != "*"}
    assert fits(less) or not fits(combined)


@settings(deadline=None)
@given(old_strings().map(lambda text: text.partition("&")[0]), gpu_specs(), offers(st.just(False)))
def test_an_additional_gpu_requirement_adds_no_queue(text: str, spec: dict[str, Any], offer: QueueOffer) -> None:
    without = need_of(json.dumps({"encoded_platform": text}), None)
    assume(without.fault is None)
    assert read(text).requirement.gpu is None
    body = json.dumps({"encoded_platform": text, "gpu_spec": spec})
    fits = match_queue(need_of(body, None), offer, SOURCES) == Outcome.FITS
    assert match_queue(without, offer, SOURCES) == Outcome.FITS or not fits


@settings(deadline=None)
@given(st.lists(st.sampled_from(["x86_64", "aarch64"]), min_size=1), offers(st.just(False)))
def test_a_stricter_cpu_requirement_adds_no_queue(archs: list[str], offer: QueueOffer) -> None:
    def fits(*fields: str) -> bool:
        return (
            match_queue(need_of("#" + "|".join("-".join((arch, *fields)) for arch in archs), None), offer, SOURCES) == 0
        )

    assert fits() or not fits("intel")
    assert fits("intel") or not fits("intel", "avx2")
    assert fits("*", "avx2") or not fits("intel", "avx2")
    assert match_queue(need_of("", None), offer, SOURCES) == 0 or not fits()


def test_equal_queues_are_matched_once() -> None:
    cache = SoftwareMatcherCache()
    queues = [QueueOffer("Q", ("AUTO",), QueueSoftware("1"))]
    first = cache.matcher_of(queues, SOURCES)
    row = first.outcomes(need_of("#x86_64", None))
    republished = [QueueOffer("Q", ("AUTO",), QueueSoftware("1"))]
    same_matcher = cache.matcher_of(republished, ContainerSources("s"))
    assert same_matcher is first and same_matcher.outcomes(need_of("#x86_64", None)) is row
    for other_matcher in (
        cache.matcher_of([replace(queues[0], releases=("ANY",))], SOURCES),
        cache.matcher_of([replace(queues[0], software=QueueSoftware("2"))], SOURCES),
        cache.matcher_of([replace(queues[0], gpus=(GpuSummary(),))], SOURCES),
        cache.matcher_of(queues, ContainerSources("t")),
        cache.matcher_of(queues, SOURCES, gpus_known=False),
        cache.matcher_of([], SOURCES),
    ):
        assert other_matcher is not first


def test_every_outcome_has_a_title() -> None:
    assert set(TITLES) == set(Outcome)
