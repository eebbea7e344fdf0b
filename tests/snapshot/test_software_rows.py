"""Published software tags and GPU summaries with any content."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.domain.queues import ContainerSources, GpuSummary, Hardware, HardwareEntry, QueueOffer, tag_key
from broker.domain.work import DroppedRow
from broker.matching.match_queue import match_queue
from broker.matching.need import need_of, read_release
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.sources.gpus import build_gpus
from broker.snapshot.sources.software import MAX_REPORTED, build_software, read_software

TAG = {"cmtconfig": "p", "project": "Athena", "release": "1.2.3", "container_name": "img", "sources": ["docker://x"]}


def test_a_whole_document() -> None:
    software, faults = read_software(
        json.dumps(
            {
                "cmtconfigs": ["p", "q"],
                "containers": ["any", "/cvmfs", ""],
                "cvmfs": ["atlas"],
                "tags": [TAG, {**TAG, "container_name": "", "sources": [], "release": "1.2.4"}],
                "architectures": [
                    {"type": "cpu", "arch": ["old"]},
                    {"type": "gpu", "vendor": ["nvidia", "excl"], "model": ["kt100"], "version": "11.0.3"},
                    {"type": "cpu", "arch": "x86_64", "instr": ["avx2"], "vendor": []},
                    {"arch": ["no type"]},
                ],
            }
        )
    )
    assert faults == () and software.readable
    assert software.cmtconfigs == ("p", "q") and software.containers == ("any", "/cvmfs")
    assert software.cvmfs == {"atlas"}
    assert software.tags == {tag_key("p", "Athena", "1.2.3"), tag_key("p", "Athena", "1.2.4")}
    assert software.container_names == {"img", "docker://x"}
    assert software.hardware == Hardware(
        HardwareEntry(arch=("x86_64",), vendor=(), instr=("avx2",)),
        HardwareEntry(vendor=("nvidia", "excl"), exclusive=True),
    )


def test_an_empty_document_is_empty_and_not_unreadable() -> None:
    software, faults = read_software("{}")
    assert software.readable and not faults and software.hardware == Hardware()


@pytest.mark.parametrize(
    ("entry", "exclusive"),
    [
        ({"type": "gpu", "vendor": ["excl"]}, True),
        ({"type": "gpu", "model": ["kt100", "excl"]}, True),
        ({"type": "gpu", "version": "excl"}, False),
        ({"type": "gpu", "vendor": "excl"}, False),
        ({"type": "gpu", "vendor": ["exclusive"]}, False),
    ],
)
def test_exclusive_gpus(entry: dict[str, Any], exclusive: bool) -> None:
    gpu = read_software(json.dumps({"architectures": [entry]}))[0].hardware.gpu
    assert gpu is not None and gpu.exclusive is exclusive


@pytest.mark.parametrize(
    ("document", "code", "readable"),
    [
        (None, "wrong_type", False),
        (5, "wrong_type", False),
        ("", "invalid_json", False),
        ("[]", "wrong_type", False),
        ('{"tags": [], "tags": []}', "invalid_json", False),
        ('{"a":' * 5000 + "1" + "}" * 5000, "too_deep", False),
        (" " * 1_000_001, "too_long", False),
        ('{"architectures": {"type": "cpu"}}', "defaulted", False),
        ('{"architectures": ["cpu"]}', "defaulted", False),
        ('{"architectures": [{"type": "cpu", "arch": 1}]}', "defaulted", True),
        ('{"architectures": [{"type": "cpu", "arch": ["a", 1]}]}', "defaulted", True),
        ('{"architectures": [{"type": ["cpu"]}]}', "defaulted", False),
        ('{"cmtconfigs": "x86_64"}', "defaulted", True),
        ('{"cmtconfigs": ["p", null]}', "defaulted", True),
        ('{"containers": {"any": 1}}', "defaulted", True),
        ('{"tags": ["VO-atlas"]}', "defaulted", True),
        ('{"tags": [{"sources": "docker://x"}]}', "defaulted", True),
    ],
)
def test_wrong_types_are_reported(document: Any, code: str, readable: bool) -> None:
    software, faults = read_software(document)
    assert software.readable is readable
    assert {reported_code for reported_code, _ in faults} == {code}
    assert all(len(text) < 200 for _, text in faults)


def test_a_queue_with_an_unreadable_description_matches_no_job() -> None:
    software, _ = read_software('{"containers": ["any"], "cvmfs": ["any"], "architectures": 1}')
    offer = QueueOffer("Q", ("AUTO",), software)
    assert match_queue(need_of("", None), offer, ContainerSources()).code == "unreadable"


def test_the_number_of_reported_faults_is_limited() -> None:
    _, faults = read_software(json.dumps({"tags": [1] * 100}))
    assert len(faults) == MAX_REPORTED


@pytest.mark.parametrize("tag", [{}, {**TAG, "project": None}, {**TAG, "release": 1}, {**TAG, "cmtconfig": "p" * 257}])
def test_a_tag_without_its_fields_matches_nothing(tag: dict[str, Any]) -> None:
    assert read_software(json.dumps({"tags": [tag]}))[0].tags == frozenset()


def table(name: str, *rows: dict[str, Any]) -> RawSource:
    columns = tuple(dict.fromkeys(key for row in rows for key in row))
    return RawSource("x", {name: Rows(columns, tuple(tuple(row.get(key) for key in columns) for row in rows))})


def test_tags_of_queues_and_sources_published_for_all() -> None:
    dropped_rows: list[DroppedRow] = []
    document_for_all = {"tags": [TAG, {**TAG, "sources": ["/cvmfs/x"]}, {"container_name": 1}, 5]}
    source = table(
        "sw_tags",
        {"panda_queue": "B", "data": '{"cvmfs": ["any"], "tags": 1}'},
        {"panda_queue": "GONE", "data": "{"},
        {"panda_queue": "ALL", "data": json.dumps(document_for_all)},
    )
    tags, sources = build_software(source, {"A": 0, "B": 1}, dropped_rows)
    assert tags[0] is None and tags[1] is not None and tags[1].cvmfs == {"any"}
    assert sources.by_name == {"img": ("/cvmfs/x", "docker://x")}
    assert [(entry.identifier, entry.code) for entry in dropped_rows] == [("B", "defaulted"), ("ALL", "defaulted")]


def test_an_invalid_document_for_all_queues_is_dropped() -> None:
    dropped_rows: list[DroppedRow] = []
    _, sources = build_software(table("sw_tags", {"panda_queue": "ALL", "data": "{"}), {}, dropped_rows)
    assert sources.by_name == {} and [entry.code for entry in dropped_rows] == ["invalid_json"]


def test_the_same_text_is_parsed_once() -> None:
    text = '{"cvmfs": ["atlas", "once"], "tags": 1}'
    first, second, different = read_software(text), read_software(text), read_software(text + " ")
    assert second is first and first[1]
    assert different[0] != first[0]


def test_gpus() -> None:
    row = {"panda_queue": "A", "vendor": "NVIDIA", "model": "T4", "vram": 15360, "architecture": "Turing"}
    row |= {"framework_version": "12.4", "driver_version": "550.54"}
    blank = {
        **row,
        "vendor": "",
        "model": None,
        "vram": 0,
        "architecture": 7,
        "framework_version": "",
        "driver_version": "",
    }
    gone = {**row, "panda_queue": "GONE"}
    summaries = build_gpus(table("mv_worker_node_gpu_summary", row, blank, gone), {"A": 0, "B": 1})
    assert summaries == ((GpuSummary("NVIDIA", "T4", "15360", "Turing", "12.4", "550.54"), GpuSummary()), ())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*TAG, "type", "arch", "vendor", "instr"]), inner, max_size=3)
    ),
    max_leaves=10,
)
LISTS = ["cmtconfigs", "containers", "cvmfs", "tags", "architectures"]


@given(st.dictionaries(st.sampled_from(LISTS), JSON | st.lists(JSON, max_size=3), max_size=5))
def test_any_published_document_can_be_matched(document: dict[str, Any]) -> None:
    software, _ = read_software(json.dumps(document))
    offer = QueueOffer("Q", ("AUTO",), software)
    for text in ("x86_64-.*-opt#x86_64-intel&nvidia", "", "#&*", "(a|b)-x"):
        for container in (None, "docker://x"):
            match_queue(need_of(text, read_release("Athena-1.2.3"), container), offer, ContainerSources())
