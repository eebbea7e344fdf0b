"""Reading a node through the cache equals reading it directly."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.waiting_work import pilots_of
from broker.matching.specs.node_reading import read_node
from broker.matching.specs.presented import read_presented
from broker.matching.specs.problems import SpecRefused

GPU = {"count": 2, "vendor": "nvidia", "ram-mb": 16_384, "compute-capability": "9.0"}


def test_presented_nodes_equal_nodes_that_are_read_directly() -> None:
    for pilot, body in pilots_of(300, 20):
        assert read_presented(pilot.site, body["node"]) == pilot.node == read_node({"site": pilot.site, **body["node"]})


@pytest.mark.parametrize(
    "change",
    [
        {"tags": ["a", "c"]},
        {"system": {"name": "Linux", "user-namespaces": False}},
        {"cpu_power_db12": 11},
        {"wall-time": 61},
        {"cpu": {"num-cores": 4, "ram-mb": 901, "architecture": {"name": "x86_64", "level": "x86-64-v2"}}},
        {"gpu": {"count": 1}},
        {"node-id": "another"},
    ],
)
def test_a_change_of_a_cached_node_is_noticed(change: dict[str, Any]) -> None:
    document: dict[str, Any] = {
        "tags": ["a", "b"], "system": {"name": "Linux", "user-namespaces": True}, "cpu_power_db12": 11.5,
        "wall-time": 60, "gpu": {"count": 0}, "node-id": "one",
        "cpu": {"num-cores": 4, "ram-mb": 900, "architecture": {"name": "x86_64", "level": "x86-64-v3"}},
    }  # fmt: skip
    before = read_presented("S.One", document)
    node = read_presented("S.One", document | change)
    expected = read_node({"site": "S.One", **document, **change})
    assert node == expected and (node, node.number) != (before, before.number) and node.number == expected.number
    assert read_presented("S.One", document) == before


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"site": "S.Two", "wall-time": 3600},
        {"wall_time": "3600", "cpu": {"num_cores": 8, "ram_mb": 16_000}, "gpu": GPU, "io": {"scratch_mb": 5}},
        {"cpu": {"num-cores": 0, "ram-mb": 7}, "tags": "a", "cpu_power_db12": 11.5},
        {"wall-time": 2**62},
    ],
)
def test_other_documents(document: dict[str, Any]) -> None:
    assert read_presented("S.One", document) == read_node({"site": "S.One", **document})


@pytest.mark.parametrize(
    "document",
    [
        {"wall-time": 0},
        {"wall-time": 2**62 + 1},
        {"wall-time": True},
        {"wall-time": 5, "wall_time": 7},
        {"system": {"name": "Linux", "user-namespaces": 1}},
        {"cpu": {"num-cores": -1, "ram-mb": 5}},
        {"cpu": []},
        {"io": {"scratch-mb": "much"}, "wall-time": 9},
        {"cpu": {"num-cores": 8, "ram-mb": 1.0}},
    ],
)
def test_refusals_have_the_same_message(document: dict[str, Any]) -> None:
    with pytest.raises(SpecRefused) as expected_refusal:
        read_node({"site": "S.One", **document})
    with pytest.raises(SpecRefused) as refusal:
        read_presented("S.One", document)
    assert str(refusal.value) == str(expected_refusal.value)
