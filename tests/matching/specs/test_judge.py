"""Verdicts of each profile on both sides of each boundary. The worked examples and tables are those of DiracX."""

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


def verdict(profile: Profile, job_changes: Changes, node_changes: Changes | None = None) -> Verdict:
    return judge(read_job(job(job_changes), profile), read_node(node(node_changes), profile), profile)


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
    # number of the example, changes to the job, changes to the node, verdicts of v0.1 and v0.2
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


@pytest.mark.parametrize(
    ("job_changes", "node_changes", "v01", "v02"), [case[1:] for case in WORKED], ids=[c[0] for c in WORKED]
)
def test_the_worked_examples(job_changes: Changes, node_changes: Changes, v01: bool, v02: bool | None) -> None:
    assert verdict(V01, job_changes, node_changes).fits is v01
    if v02 is not None:
        assert verdict(V02, job_changes, node_changes).fits is v02


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


@pytest.mark.parametrize(("job_changes", "node_changes", "missed_field"), BOTH_SIDES)
def test_each_check_of_v01_on_both_sides(job_changes: Changes, node_changes: Changes, missed_field: str | None) -> None:
    result = verdict(V01, job_changes, node_changes)
    assert (result.fits, [miss.field for of_spec in result.missed for miss in of_spec]) == (
        missed_field is None,
        [missed_field] if missed_field else [],
    )


def test_v01_reports_the_first_failed_check_and_v02_reports_all() -> None:
    job_changes = {"wall-time": 200_000, "cpu-work": 500_000, "cpu.num-cores": {"min": 9, "max": 9}}
    assert [miss.field for miss in verdict(V01, job_changes).missed[0]] == ["wall-time"]
    assert [miss.field for miss in verdict(V02, job_changes).missed[0]] == [
        "wall-time",
        "cpu-work",
        "cpu.num-cores.min",
    ]


def test_the_first_spec_that_fits_is_reported() -> None:
    specs = read_job(job({"site": "S.Two"}, {"site": "S.One"}, {}), V01)
    result = judge(specs, read_node(node(), V01), V01)
    assert (result.spec, result.missed) == (1, ())


@pytest.mark.parametrize("profile", [V01, V02, OWN])
def test_arm64_equals_aarch64_unless_they_are_kept_distinct(profile: Profile) -> None:
    job_changes, node_changes = {"cpu.architecture.name": "arm64"}, {"cpu.architecture.name": "aarch64"}
    assert verdict(profile, job_changes, node_changes).fits
    assert not verdict(profile.with_distinct_arm(), job_changes, node_changes).fits


def test_memory_limits_the_cores_that_are_allotted() -> None:
    cases = [
        (GREEDY, {}, 4),
        (GREEDY, {"cpu.ram-mb": 6999}, None),
        (GREEDY, {"cpu.ram-mb": 7000}, 1),
        (CORES_1_8, {}, 8),
    ]
    for job_changes, node_changes, cores in cases:
        allotment = verdict(V02, job_changes, node_changes).allotment
        assert (None if allotment is None else allotment.cores) == cores
    whole = verdict(V02, GREEDY).allotment
    assert whole is not None
    assert (whole.ram_mb, whole.ram_limit_mb, whole.gpus) == (16_000, 16_000, 0)


def test_one_of_two_gpus_is_allotted() -> None:
    allotment = verdict(OWN, {"gpu": changed(GPU_NEED, {"count.max": 1})}, {"gpu": GPUS}).allotment
    assert allotment is not None and allotment.gpus == 1


@pytest.mark.parametrize(
    ("job_changes", "node_changes", "v02", "own"),
    [
        ({"io": {"scratch-mb": 1, "scratch-iops": 1}}, {}, True, False),
        ({"cpu.ram-mb": ram((1, 1), (1, 1))}, {"cpu.ram-mb": REMOVED}, True, False),
        ({}, {"cpu.ram-mb": REMOVED}, True, True),
    ],
)
def test_a_missing_value_never_satisfies_a_lower_limit_of_the_own_profile(
    job_changes: Changes, node_changes: Changes, v02: bool, own: bool
) -> None:
    assert (verdict(V02, job_changes, node_changes).fits, verdict(OWN, job_changes, node_changes).fits) == (v02, own)
    if not own:
        assert verdict(OWN, job_changes, node_changes).missed[0][0].kind == "unknown"


def verdict_v02(
    job_changes: Changes, node_changes: Changes | None = None, profile: Profile = V02, **other_fields: Any
) -> Verdict:
    return judge(
        read_job(alone(job_changes, **other_fields), profile),
        read_node(changed(NODE_V02, node_changes or {}), profile),
        profile,
    )


_GPU = {"vendor": "nvidia", "arch": "sm_89", "vram_mb_per_gpu": 16_384}
WORK_OF_8 = 86_400 * 8 * 11.5


@pytest.mark.parametrize(
    ("job_changes", "node_changes", "missed_fields"),
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
def test_rules_of_v02(job_changes: Changes, node_changes: Changes, missed_fields: list[str]) -> None:
    result = verdict_v02(job_changes, node_changes)
    assert [miss.field for of_spec in result.missed for miss in of_spec] == missed_fields


def test_sites_and_bans_of_v02() -> None:
    assert verdict_v02({}, sites=["SiteA", "SiteB"]).fits
    assert not verdict_v02({}, sites=["SiteB"]).fits
    assert not verdict_v02({}, banned_sites=["SiteA"]).fits
    assert verdict_v02({}, banned_sites=["sitea"]).fits


ARM = {"name": "aarch64"}


@pytest.mark.parametrize(
    ("job_changes", "node_changes", "fits"),
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
def test_profiles_and_flags_of_aarch64(job_changes: Changes, node_changes: Changes, fits: bool) -> None:
    result = verdict_v02({"cpu.architecture": ARM | job_changes}, {"cpu.architecture": ARM | node_changes})
    assert result.fits is fits


@pytest.mark.parametrize(
    ("architecture", "node_changes", "fits"),
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
def test_the_architecture_of_a_panda_task_is_judged_at_the_node(
    architecture: str, node_changes: Changes, fits: bool
) -> None:
    gpu = {"gpu": {"count": {"min": 1, "max": 1}, "vendor": "nvidia"}} if "gpu" in node_changes else {}
    document = {"requirements": {"panda_architecture": architecture, **gpu}}
    result = judge(read_job(document, OWN), read_node(changed(NODE_V02, node_changes), OWN))
    assert result.fits is fits


@pytest.mark.parametrize(
    ("architecture", "gpus", "fits"),
    [("&nvidia", 2, True), ("&nvidia", 0, False), ("#x86_64", 0, True), ("#x86_64", 2, False), ("&amd", 2, False)],
)
def test_a_gpu_in_the_architecture_of_a_panda_task_selects_nodes_with_gpus(
    architecture: str, gpus: int, fits: bool
) -> None:
    job_specs = JobSpecs((Spec(panda_architecture=architecture),))
    gpu_node = Node("S.One", architecture="x86_64", gpus=gpus, gpu_vendor="nvidia", gpu_model="A100")
    result = judge(job_specs, gpu_node)
    assert result.fits is fits and SpecIndex((job_specs,)).fits(gpu_node).tolist() == [fits]
    assert result.allotment is None or result.allotment.gpus == gpus
