"""Reading of jobs and nodes, refusals with field and value, and the canonical text and hash of specs."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml

from broker.matching.specs.documents import DocumentUnreadable, read_json, read_yaml
from broker.matching.specs.job_reading import asks_specs, read_job
from broker.matching.specs.node_reading import read_node
from broker.matching.specs.problems import SpecRefused
from broker.matching.specs.spec import OWN, V01, V02, NotCanonical, parse_canonical
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

SPEC, LEVEL = "matching_specs[0]", "microarchitecture-level"
RAM = {"request": {"overhead": 1000, "per-core": 500}, "limit": {"overhead": 2000, "per-core": 500}}


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"cpu.num-cores": {"min": 8, "max": 2}}, "cpu.num-cores.max", "2"),
        ({"cpu.num-cores": {"min": 8}}, "cpu.num-cores.max", None),
        ({"cpu.num-cores": {"max": 8}}, "cpu.num-cores.min", None),
        ({"cpu.architecture.microarchitecture-level": {"min": 3, "max": 2}}, "", "2"),
        ({"wall-time": -3600}, "wall-time", "-3600"),
        ({"wall-time": 0}, "wall-time", "0"),
        ({"wall-time": "three days"}, "wall-time", "'three days'"),
        ({"wall-time": REMOVED}, "wall-time", None),
        ({"system": REMOVED}, "system", None),
        ({"system.name": "linux"}, "system.name", "'linux'"),
        ({"cpu.architecture.name": "riscv64"}, "cpu.architecture.name", "'riscv64'"),
        ({"gpu": changed(GPU_NEED, {"count.min": -1})}, "gpu.count.min", "-1"),
        ({"gpu": changed(GPU_NEED, {"vendor": REMOVED})}, "gpu.vendor", None),
        ({"gpu": changed(GPU_NEED, {"compute-capability": {"min": "9.0", "max": "8.0"}})}, "", "'8.0'"),
        ({"cpu.ram-mb": {"request": {"overhead": 1}}}, "cpu.ram-mb.limit", None),
        ({"io": {"scratch-mb": 1}}, "io.scratch-iops", None),
        ({"tags": "a & (b | )"}, "tags", "'a & (b | )'"),
        ({"tags": " a"}, "tags", "' a'"),
        ({"tags": REMOVED}, "tags", None),
        ({"system.glibc": "new"}, "system.glibc", "'new'"),
    ],
)
def test_an_invalid_job_of_v01_is_refused_with_field_and_value(
    changes: dict[str, Any], field: str, value: str | None
) -> None:
    with pytest.raises(SpecRefused) as refusal:
        read_job(read_yaml_of(job(changes)), V01)
    assert refusal.value.field.startswith(f"{SPEC}.{field}")
    assert refusal.value.value == value


def read_yaml_of(document: object) -> Any:
    """The document after a round trip through YAML, where numbers keep their text."""

    return read_yaml(yaml.safe_dump(document))


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"cpu.num-cores": -4}, "cpu.num-cores", "-4"),
        ({"cpu.num-cores": 0}, "cpu.num-cores", "0"),
        ({"gpu": {"count": 1}}, "gpu.ram-mb", None),
        ({"gpu": changed(GPUS, {"driver-version": REMOVED})}, "gpu.driver-version", None),
        ({"gpu": REMOVED}, "gpu", None),
        ({"site": REMOVED}, "site", None),
        ({"tags": "cvmfs:lhcb"}, "tags", "'cvmfs:lhcb'"),
        ({"tags": REMOVED}, "tags", None),
        ({"io": {"scratch-mb": 0, "scratch-iops": 1}}, "io.scratch-mb", "0"),
        ({"system.user-namespaces": "perhaps"}, "system.user-namespaces", "'perhaps'"),
    ],
)
def test_an_invalid_node_of_v01_is_refused_with_field_and_value(
    changes: dict[str, Any], field: str, value: str | None
) -> None:
    with pytest.raises(SpecRefused) as refusal:
        read_node(read_yaml_of(node(changes)), V01)
    assert (refusal.value.field, refusal.value.value) == (field, value)


def test_a_missing_or_empty_list_of_specs_is_refused() -> None:
    documents: tuple[Any, ...] = ({**job(), "matching_specs": []}, {**job(), "matching_specs": None}, None, [])
    for document in documents:
        for profile in (V01, V02, OWN):
            with pytest.raises(SpecRefused):
                read_job(document, profile)


@pytest.mark.parametrize("value", ["86400", 86_400, "86400.0", " 86400 ", "86_400"])
def test_quoted_digits_are_read_as_a_number(value: object) -> None:
    assert read_job(read_yaml_of(job({"wall-time": value})), V01).specs[0].wall_time_s == 86_400


@pytest.mark.parametrize(
    ("version_text", "v01", "own"),
    [
        ('"2.30"', "2.30", "2.30"),
        ("2.30", None, None),
        ("2.10", None, None),
        ("2.28", "2.28", None),
        ("495.29.05", "495.29.05", "495.29.05"),
        ("3", "3", "3"),
        ("3.50e+0", None, None),
    ],
)
def test_an_unquoted_version_that_yaml_reads_as_a_float(version_text: str, v01: str | None, own: str | None) -> None:
    text = f"""
submit_time: 2026-03-28T10:00:00Z
owner: a
group: b
type: User
matching_specs:
- system: {{name: Linux, glibc: {version_text}}}
  wall-time: 1
  cpu: {{num-cores: {{min: 1, max: 1}}, architecture: {{name: x86_64, microarchitecture-level: {{min: 1}}}}}}
  tags: ''
"""
    for profile, expected in ((V01, v01), (OWN, own)):
        if expected is not None:
            assert read_job(read_yaml(text), profile).specs[0].glibc == expected
            continue
        with pytest.raises(SpecRefused, match="quotes") as refusal:
            read_job(read_yaml(text), profile)
        assert (refusal.value.field, refusal.value.value) == (f"{SPEC}.system.glibc", version_text)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (alone(sites=["A"], banned_sites=["B"]), "banned_sites"),
        (alone({"cpu.architecture.required_features": ["avx512f"]}), "requirements.cpu.architecture.required_features"),
        (alone({"cpu.architecture": REMOVED}), "requirements.cpu.architecture"),
        (alone({"tags": "arch:ppc64le"}), "requirements.cpu.architecture"),
        (alone({"tags": "site:A | b"}), "requirements.tags"),
        (alone({"cpu.architecture.level": "v3"}), "requirements.cpu.architecture.level"),
        (alone({"wall_time": REMOVED}), "requirements.wall_time"),
        (alone({"cpu.ram_mb": {"request": RAM["limit"], "limit": RAM["request"]}}), "requirements.cpu.ram_mb.limit"),
        (alone({"cpu.ram_mb": {"request": {"overhead": 2}}}), "requirements.cpu.ram_mb.limit"),
        (alone({"gpu": {"vendor": "nvidia"}}), "requirements.gpu.count"),
        (alone({"gpu": {"count": {"min": 1}}}), "requirements.gpu.vendor"),
        (alone({"gpu": {"count": {"min": 0}, "arch": "ampere"}}), "requirements.gpu.arch"),
        (alone({"wal_time": 1}), "requirements.wal_time"),
        (alone({"system.glibc": "2.17"}), "requirements.system.glibc"),
        (alone({"system.user_namespaces": True}), "requirements.system.user_namespaces"),
        (alone({"wall-time": 1}), "requirements.wall_time"),
        (job({f"cpu.architecture.{LEVEL}.max": 3}), f"{SPEC}.cpu.architecture.{LEVEL}.max"),
        (job({"gpu": changed(GPU_NEED, {"driver-version": "1.2"})}), f"{SPEC}.gpu.driver-version"),
        ({**alone(), **job()}, "requirements"),
    ],
)
def test_invalid_jobs_of_v02_are_refused(document: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecRefused) as refusal:
        read_job(document, V02)
    assert refusal.value.field.startswith(field)


def test_v02_doubles_the_request_where_no_limit_is_set() -> None:
    spec = read_job(alone({"cpu.ram_mb": {"request": {"overhead": 500, "per_core": 250}}}), V02).specs[0]
    assert spec.ram_limit is not None
    assert (spec.ram_limit.overhead_mb, spec.ram_limit.per_core_mb) == (1000, 500)


def test_v01_ignores_unknown_fields_and_the_other_profiles_refuse_them() -> None:
    read_job(job({"cpu.threads": 2}), V01)
    for profile in (V02, OWN):
        with pytest.raises(SpecRefused, match="no such field"):
            read_job(job({"cpu.threads": 2}), profile)


def test_omitted_fields_are_no_requirements_in_the_own_profile() -> None:
    (spec,) = read_job({"matching_specs": [{"tags": "cvmfs:lhcb"}]}, OWN).specs
    assert spec.document() == {"cores": {"least": 1, "most": 1}, "tags": "cvmfs:lhcb"}
    assert read_node({"site": "A"}, OWN).cores is None


def test_levels_are_read_from_the_flags_of_a_node() -> None:
    assert read_node(NODE_V02, V02).level == 3
    flags = [flag for flag in NODE_V02["cpu"]["architecture"]["features"] if flag != "abm"]
    assert read_node(changed(NODE_V02, {"cpu.architecture.features": flags}), V02).level == 2
    assert read_node(changed(NODE_V02, {"cpu.architecture.features": ["sse2"]}), V02).level == 1


@pytest.mark.parametrize("missing", ["site", "system", "wall_time", "cpu_power_db12", "cpu", "gpu"])
def test_a_node_of_v02_without_a_required_field_is_refused(missing: str) -> None:
    with pytest.raises(SpecRefused) as refusal:
        read_node(changed(NODE_V02, {missing: REMOVED}), V02)
    assert refusal.value.field == missing


MANY = [
    job({}, {"site": "S.One", "system.glibc": "2.17", "system.user-namespaces": True}),
    job({"cpu.ram-mb": RAM, "tags": "b & a | ~(c & d)"}),
    job({"gpu": GPU_NEED, "io": {"scratch-mb": 5, "scratch-iops": 5}}),
    alone(sites=["B", "A"]),
    alone({"cpu.architecture": {"name": "aarch64", "profile": "armv9.0-a", "required_features": ["sve2", "mte"]}}),
    alone({"panda_architecture": "#x86_64-intel&nvidia:vram>=1"}, banned_sites=["ü"]),
]


@pytest.mark.parametrize("document", MANY)
def test_a_canonical_text_is_read_back_unchanged(document: dict[str, Any]) -> None:
    specs = read_job(document, OWN, "LHCb")
    reparsed = parse_canonical(specs.canonical)
    assert (reparsed.canonical, reparsed.spec_id, set(reparsed.specs)) == (
        specs.canonical,
        specs.spec_id,
        set(specs.specs),
    )


def test_equal_specs_have_one_identifier() -> None:
    first = read_job(job({"tags": "a & (b | c)"}, {"site": "S"}), OWN, "lhcb")
    second = read_job(job({"site": "S"}, {"tags": "((c|b)&a)&a"}, {"site": "S"}), OWN, "LHCb")
    assert first.canonical == second.canonical
    assert first.spec_id.startswith("ms1-") and len(first.spec_id) == 36
    specs_of_other_vo = read_job(job({"tags": "a & (b | c)"}, {"site": "S"}), OWN, "atlas")
    assert specs_of_other_vo.spec_id != first.spec_id
    forms = (
        read_job(job({"cpu.architecture.microarchitecture-level": {"min": 3}}), OWN),
        read_job(alone({"system.name": "Linux", "cpu.num_cores": {"min": 1, "max": 1}}), OWN),
    )
    assert forms[0].spec_id == forms[1].spec_id


def test_texts_that_are_not_canonical_are_refused() -> None:
    text = read_job(MANY[1], OWN).canonical
    for invalid_text in (text.replace("/1", "/2"), text + " ", text.replace("a & b", "b & a"), "[]", "{", text[:-1]):
        with pytest.raises(NotCanonical):
            parse_canonical(invalid_text)


def test_unreadable_documents_are_refused() -> None:
    for text in ("a: [", "a: 1\na: 2", "a: &x 1\nb: *x", "- " * 17 + "a", "a" * 70_000, "a: !!python/name:os.system"):
        with pytest.raises(DocumentUnreadable):
            read_yaml(text)
    for text in ('{"a": 1, "a": 2}', "[" * 20 + "]" * 20, '{"a": NaN}', "{"):
        with pytest.raises(DocumentUnreadable):
            read_json(text)


def test_any_text_gives_a_document_or_a_refusal() -> None:
    generator = random.Random(37)
    signs = "ab:{}[],-&*!|>'\"\n 0123.~%@`é\t"
    for _ in range(2000):
        text = "".join(generator.choices(signs, k=generator.randrange(40)))
        for read in (read_yaml, read_json):
            try:
                document = read(text)
            except DocumentUnreadable:
                continue
            for profile in (V01, V02, OWN):
                with pytest.raises(SpecRefused):
                    read_job(document, profile)


def test_which_documents_contain_specs() -> None:
    assert asks_specs(job()) and asks_specs(alone())
    assert not asks_specs({"Memory": 4000}) and not asks_specs({"requirements": "other"}) and not asks_specs([])
