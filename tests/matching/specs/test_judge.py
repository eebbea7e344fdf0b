"""Verdicts of the profiles, at both sides of each boundary. Source: the worked examples and tables of DiracX, run."""

from __future__ import annotations

from typing import Any

import pytest

from broker.matching.specs.index import SpecIndex
from broker.matching.specs.job_reading import read_job
from broker.matching.specs.judge import Verdict, judge
from broker.matching.specs.node import Node
from broker.matching.specs.node_reading import read_node
from broker.matching.specs.spec import OWN, V01, V02, JobSpecs, Profile, Spec
from tests.matching.specs.documents_of_tests import (
    GPU_NEED,
    GPUS,
    NODE_V02,
    REMOVED,
    alone,
    changed,
    job,
    node,
)

Changes = dict[str, Any]


def verdict(profile: Profile, asked: Changes, has: Changes | None = None) -> Verdict:
    return judge(read_job(job(asked), profile), read_node(node(has), profile), profile)


def ram(request: tuple[int, int], limit: tuple[int, int]) -> Changes:
    return {
        name: {"overhead": overhead, "per-core": per_core}
        for name, (overhead, per_core) in (("request", request), ("limit", limit))
    }


CORES_8 = {"cpu.num-cores": {"min": 8, "max": 8}}
CORES_1_8 = {"cpu.num-cores": {"min": 1, "max": 8}}
FULL = CORES_8 | {"cpu.ram-mb": ram((2000, 1750), (2000, 1750))}
LIMITED = CORES_8 | {"cpu.ram-mb": ram((1000, 500), (12_000, 1000))}
GREEDY = CORES_1_8 | {"cpu.ram-mb": ram((4000, 3000), (4000, 3000))}
SCRATCH = {"io": {"scratch-mb": 50_000, "scratch-iops": 1000}}
LEVEL = "cpu.architecture.microarchitecture-level"
TAGS = "(os:el9 | os:ubuntu24) & ~net:degraded"
WORKED = [
    # number of the example, what is asked, what the node has beside, verdicts of v0.1 and v0.2
    ("1", {"wall-time": 172_800}, {}, True, True),
    ("1 more", {"wall-time": 172_801}, {}, False, False),
    ("2", FULL, {}, True, True),
    ("2 less", FULL, {"cpu.ram-mb": 15_999}, False, False),
    ("3", LIMITED, {}, False, True),
    ("4", GREEDY, {}, True, True),
    ("5", {"cpu.num-cores": {"min": 1, "max": 4}}, {}, True, True),
    ("6", {LEVEL: {"min": 1, "max": 3}}, {}, True, None),
    ("6 max", {LEVEL: {"min": 1, "max": 2}}, {}, False, None),
    ("8", {}, {"gpu": GPUS}, True, False),
    ("9 one", {"gpu": changed(GPU_NEED, {"count": {"min": 1, "max": 1}})}, {"gpu": GPUS}, False, True),
    ("9 two", {"gpu": GPU_NEED}, {"gpu": GPUS}, True, True),
    ("9 capability", {"gpu": changed(GPU_NEED, {"compute-capability.min": "10.0"})}, {"gpu": GPUS}, False, False),
    ("9 vendor", {"gpu": changed(GPU_NEED, {"vendor": "NVIDIA"})}, {"gpu": GPUS}, False, False),
    ("10", SCRATCH, {}, True, True),
    ("10 less", SCRATCH, {"io": {"scratch-mb": 49_999, "scratch-iops": 1000}}, False, False),
    ("10 equal", SCRATCH, {"io": {"scratch-mb": 50_000, "scratch-iops": 1}}, True, True),
    ("11", {"tags": TAGS}, {}, True, True),
    ("11 denied", {"tags": TAGS}, {"tags": ["os:el9", "net:degraded"]}, False, False),
    ("11 alone", {"tags": "~net:degraded"}, {}, True, True),
]


@pytest.mark.parametrize(("asked", "has", "v01", "v02"), [case[1:] for case in WORKED], ids=[c[0] for c in WORKED])
def test_the_worked_examples(asked: Changes, has: Changes, v01: bool, v02: bool | None) -> None:
    assert verdict(V01, asked, has).fits is v01
    if v02 is not None:
        assert verdict(V02, asked, has).fits is v02


BOTH_SIDES = [
    ({"site": "S.One"}, {}, None),
    ({"site": "s.one"}, {}, "site"),
    ({"site": ""}, {}, None),
    ({"system.name": "Darwin"}, {}, "system.name"),
    ({"system.glibc": "2.34"}, {}, None),
    ({"system.glibc": "2.35"}, {}, "system.glibc"),
    ({"system.glibc": "2.17"}, {"system.glibc": "2.9"}, "system.glibc"),
    ({"system.user-namespaces": True}, {"system.user-namespaces": False}, "system.user-namespaces"),
    ({"system.user-namespaces": True}, {}, None),
    ({"system.user-namespaces": False}, {"system.user-namespaces": False}, None),
    ({"cpu-work": 400_000}, {}, None),
    ({"cpu-work": 400_001}, {}, "cpu-work"),
    (CORES_8, {}, None),
    (CORES_8, {"cpu.num-cores": 7}, "cpu.num-cores.min"),
    ({"cpu.num-cores": {"min": 0, "max": 0}}, {}, None),
    (FULL, {"cpu.ram-mb": 15_999}, "cpu.ram-mb.request"),
    (LIMITED, {}, "cpu.ram-mb.limit"),
    (LIMITED, {"cpu.ram-mb": 20_000}, None),
    ({"cpu.ram-mb": ram((5000, 0), (1, 0))}, {}, None),
    ({"cpu.architecture.name": "aarch64"}, {}, "cpu.architecture.name"),
    ({LEVEL: {"min": 3}}, {}, None),
    ({LEVEL: {"min": 4}}, {}, f"{LEVEL}.min"),
    ({LEVEL: {"min": 1, "max": 2}}, {}, f"{LEVEL}.max"),
    ({"gpu": GPU_NEED}, {}, "gpu.count.min"),
    ({"gpu": changed(GPU_NEED, {"count.max": 1})}, {"gpu": GPUS}, "gpu.count.max"),
    ({"gpu": changed(GPU_NEED, {"count.min": 0})}, {}, None),
    ({"gpu": changed(GPU_NEED, {"ram-mb": 40_960})}, {"gpu": GPUS}, None),
    ({"gpu": changed(GPU_NEED, {"ram-mb": 40_961})}, {"gpu": GPUS}, "gpu.ram-mb"),
    ({"gpu": changed(GPU_NEED, {"vendor": "amd"})}, {"gpu": GPUS}, "gpu.vendor"),
    ({"gpu": changed(GPU_NEED, {"compute-capability.min": "9.0"})}, {"gpu": GPUS}, None),
    ({"gpu": changed(GPU_NEED, {"compute-capability.min": "9.1"})}, {"gpu": GPUS}, "gpu.compute-capability.min"),
    ({"gpu": changed(GPU_NEED, {"compute-capability.max": "9.0"})}, {"gpu": GPUS}, None),
    ({"gpu": changed(GPU_NEED, {"compute-capability.max": "8.9"})}, {"gpu": GPUS}, "gpu.compute-capability.max"),
    ({"gpu": changed(GPU_NEED, {"driver-version": "535.104.5"})}, {"gpu": GPUS}, None),
    ({"gpu": changed(GPU_NEED, {"driver-version": "535.105"})}, {"gpu": GPUS}, "gpu.driver-version"),
    (SCRATCH, {"io": {"scratch-mb": 49_999, "scratch-iops": 9999}}, "io.scratch-mb"),
    ({"tags": "cvmfs:lhcb & ~os:el9"}, {}, "tags"),
    ({"tags": "missing"}, {}, "tags"),
]


@pytest.mark.parametrize(("asked", "has", "missed"), BOTH_SIDES)
def test_each_check_of_v01_at_both_sides(asked: Changes, has: Changes, missed: str | None) -> None:
    found = verdict(V01, asked, has)
    assert (found.fits, [one.field for of_spec in found.missed for one in of_spec]) == (
        missed is None,
        [missed] if missed else [],
    )


def test_v01_tells_the_first_check_that_fails_and_the_others_tell_all() -> None:
    asked = {"wall-time": 200_000, "cpu-work": 500_000, "cpu.num-cores": {"min": 9, "max": 9}}
    assert [one.field for one in verdict(V01, asked).missed[0]] == ["wall-time"]
    assert [one.field for one in verdict(V02, asked).missed[0]] == ["wall-time", "cpu-work", "cpu.num-cores.min"]


def test_the_first_spec_that_fits_is_told() -> None:
    specs = read_job(job({"site": "S.Two"}, {"site": "S.One"}, {}), V01)
    found = judge(specs, read_node(node(), V01), V01)
    assert (found.spec, found.missed) == (1, ())


@pytest.mark.parametrize("profile", [V01, V02, OWN])
def test_arm64_is_aarch64_unless_it_is_switched_off(profile: Profile) -> None:
    asked, has = {"cpu.architecture.name": "arm64"}, {"cpu.architecture.name": "aarch64"}
    assert verdict(profile, asked, has).fits
    assert not verdict(profile.with_distinct_arm(), asked, has).fits


def test_cores_are_allotted_as_far_as_memory_goes() -> None:
    cases = [
        (GREEDY, {}, 4),
        (GREEDY, {"cpu.ram-mb": 6999}, None),
        (GREEDY, {"cpu.ram-mb": 7000}, 1),
        (CORES_1_8, {}, 8),
    ]
    for asked, has, cores in cases:
        found = verdict(V02, asked, has).allotment
        assert (None if found is None else found.cores) == cores
    got = verdict(V02, GREEDY).allotment
    assert got is not None
    assert (got.ram_mb, got.ram_limit_mb, got.gpus) == (16_000, 16_000, 0)


def test_one_of_two_gpus_is_allotted() -> None:
    found = verdict(OWN, {"gpu": changed(GPU_NEED, {"count.max": 1})}, {"gpu": GPUS}).allotment
    assert found is not None and found.gpus == 1


@pytest.mark.parametrize(
    ("asked", "has", "v02", "own"),
    [
        ({"io": {"scratch-mb": 1, "scratch-iops": 1}}, {}, True, False),
        ({"cpu.ram-mb": ram((1, 1), (1, 1))}, {"cpu.ram-mb": REMOVED}, True, False),
        ({}, {"cpu.ram-mb": REMOVED}, True, True),
    ],
)
def test_a_missing_value_never_satisfies_a_lower_limit_in_the_own_profile(
    asked: Changes, has: Changes, v02: bool, own: bool
) -> None:
    assert (verdict(V02, asked, has).fits, verdict(OWN, asked, has).fits) == (v02, own)
    if not own:
        assert verdict(OWN, asked, has).missed[0][0].kind == "unknown"


def of_v02(asked: Changes, has: Changes | None = None, profile: Profile = V02, **beside: Any) -> Verdict:
    return judge(read_job(alone(asked, **beside), profile), read_node(changed(NODE_V02, has or {}), profile), profile)


_GPU = {"vendor": "nvidia", "arch": "sm_89", "vram_mb_per_gpu": 16_384}
WORK_OF_8 = 86_400 * 8 * 11.5


@pytest.mark.parametrize(
    ("asked", "has", "missed"),
    [
        ({}, {}, []),
        ({"cpu.architecture.level": "x86-64-v4"}, {}, [f"{LEVEL}.min"]),
        ({"cpu.num_cores": {"min": 1, "max": 8}, "cpu_work_db12": int(WORK_OF_8)}, {}, []),
        ({"cpu.num_cores": {"min": 1, "max": 8}, "cpu_work_db12": int(WORK_OF_8) + 1}, {}, ["cpu-work"]),
        ({"cpu.num_cores": {"min": 17}}, {}, ["cpu.num-cores.min"]),
        ({"cpu.architecture": {"name": "x86_64", "required_features": ["avx2", "sse3", "lzcnt"]}}, {}, []),
        (
            {"cpu.architecture": {"name": "x86_64", "required_features": ["avx512f"]}},
            {},
            ["cpu.architecture.required-features"],
        ),
        ({"gpu": {"count": {"min": 0, "max": 65_535}}}, {}, []),
        ({"gpu": {"count": {"min": 0, "max": 9}}}, {"gpu": {"count": 1, **_GPU}}, ["gpu"]),
        (
            {"gpu": {"count": {"min": 0, "max": 9}}},
            {"gpu": {"count": 1, **_GPU}, "tags": ["gpu:opportunistic-cpu-ok"]},
            [],
        ),
        (
            {"gpu": {"count": {"min": 1, "max": 4}, "vendor": "nvidia", "arch": "sm_89"}},
            {"gpu": {"count": 9, **_GPU}},
            [],
        ),
        (
            {"gpu": {"count": {"min": 1, "max": 4}, "vendor": "nvidia", "arch": "sm_90"}},
            {"gpu": {"count": 9, **_GPU}},
            ["gpu.compute-capability.min"],
        ),
        (
            {"gpu": {"count": {"min": 1, "max": 4}, "vendor": "nvidia", "vram_mb_per_gpu": 16_385}},
            {"gpu": {"count": 9, **_GPU}},
            ["gpu.ram-mb"],
        ),
        ({"cpu": {}, "tags": "arch:ppc64le"}, {"cpu.architecture": {"name": "ppc64le"}, "tags": ["arch:ppc64le"]}, []),
    ],
)
def test_rules_of_v02(asked: Changes, has: Changes, missed: list[str]) -> None:
    found = of_v02(asked, has)
    assert [one.field for of_spec in found.missed for one in of_spec] == missed


def test_sites_and_bans_of_v02() -> None:
    assert of_v02({}, sites=["SiteA", "SiteB"]).fits
    assert not of_v02({}, sites=["SiteB"]).fits
    assert not of_v02({}, banned_sites=["SiteA"]).fits
    assert of_v02({}, banned_sites=["sitea"]).fits


ARM = {"name": "aarch64"}


@pytest.mark.parametrize(
    ("asked", "has", "fits"),
    [
        ({"profile": "armv8.2-a"}, {"profile": "armv8.2-a"}, True),
        ({"profile": "armv8.3-a"}, {"profile": "armv8.2-a"}, False),
        ({"profile": "armv9.0-a"}, {"profile": "armv9.4-a"}, True),
        ({"profile": "armv8.5-a"}, {"profile": "armv9.0-a"}, True),
        ({"profile": "armv8.6-a"}, {"profile": "armv9.0-a"}, False),
        ({"profile": "armv8.1-a"}, {"features": ["fp", "asimd", "atomics", "asimdrdm", "crc32"]}, True),
        ({"profile": "armv8.1-a"}, {"features": ["fp", "asimd", "atomics", "crc32"]}, False),
        ({"required_features": ["neon", "lse"]}, {"features": ["asimd", "atomics"]}, True),
        ({"profile": "armv8.0-a", "required_features": ["sve2"]}, {"features": ["fp", "asimd"]}, False),
        ({"profile": "armv8.0-a"}, {}, False),
    ],
)
def test_profiles_and_flags_of_aarch64(asked: Changes, has: Changes, fits: bool) -> None:
    found = of_v02({"cpu.architecture": ARM | asked}, {"cpu.architecture": ARM | has})
    assert found.fits is fits


@pytest.mark.parametrize(
    ("architecture", "has", "fits"),
    [
        ("#x86_64", {}, True),
        ("#aarch64", {}, False),
        ("#(x86_64|aarch64)-*-avx2", {}, True),
        ("#x86_64-intel", {}, False),
        ("#x86_64-intel", {"cpu.architecture.vendor": "intel"}, True),
        ("&nvidia:vram>=16384", {"gpu": {"count": 1, "vendor": "nvidia", "vram_mb_per_gpu": 16_384}}, True),
        ("&nvidia:vram>=16385", {"gpu": {"count": 1, "vendor": "nvidia", "vram_mb_per_gpu": 16_384}}, False),
        ("&nvidia", {}, False),
        ('{"cpu_specs": [{"arch": "aarch64"}]}', {}, False),
        ("x86_64-el9-gcc13-opt", {}, True),
    ],
)
def test_the_architecture_of_a_panda_task_is_judged_at_the_node(architecture: str, has: Changes, fits: bool) -> None:
    gpu = {"gpu": {"count": {"min": 1, "max": 1}, "vendor": "nvidia"}} if "gpu" in has else {}
    asked = {"requirements": {"panda_architecture": architecture, **gpu}}
    found = judge(read_job(asked, OWN), read_node(changed(NODE_V02, has), OWN))
    assert found.fits is fits


@pytest.mark.parametrize(
    ("asked", "gpus", "fits"),
    [("&nvidia", 2, True), ("&nvidia", 0, False), ("#x86_64", 0, True), ("#x86_64", 2, False), ("&amd", 2, False)],
)
def test_the_architecture_of_a_panda_task_that_asks_for_a_gpu_gets_nodes_with_gpus(
    asked: str, gpus: int, fits: bool
) -> None:
    job_specs = JobSpecs((Spec(panda_architecture=asked),))
    has = Node("S.One", architecture="x86_64", gpus=gpus, gpu_vendor="nvidia", gpu_model="A100")
    found = judge(job_specs, has)
    assert found.fits is fits and SpecIndex((job_specs,)).fits(has).tolist() == [fits]
    assert found.allotment is None or found.allotment.gpus == gpus
