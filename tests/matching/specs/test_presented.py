"""Nodes that are read again are those that are read at once."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.waiting_work import pilots_of
from broker.matching.specs.node_reading import read_node
from broker.matching.specs.presented import read_presented
from broker.matching.specs.problems import SpecRefused

GPU = {"count": 2, "vendor": "nvidia", "ram-mb": 16_384, "compute-capability": "9.0"}


def test_all_that_changes_is_told() -> None:
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
def test_a_change_of_a_node_that_was_read_before_is_seen(change: dict[str, Any]) -> None:
    known: dict[str, Any] = {
        "tags": ["a", "b"], "system": {"name": "Linux", "user-namespaces": True}, "cpu_power_db12": 11.5,
        "wall-time": 60, "gpu": {"count": 0}, "node-id": "one",
        "cpu": {"num-cores": 4, "ram-mb": 900, "architecture": {"name": "x86_64", "level": "x86-64-v3"}},
    }  # fmt: skip
    before = read_presented("S.One", known)
    found = read_presented("S.One", known | change)
    expected = read_node({"site": "S.One", **known, **change})
    assert found == expected and (found, found.number) != (before, before.number) and found.number == expected.number
    assert read_presented("S.One", known) == before


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
def test_what_is_refused_is_refused_in_the_same_words(document: dict[str, Any]) -> None:
    with pytest.raises(SpecRefused) as expected:
        read_node({"site": "S.One", **document})
    with pytest.raises(SpecRefused) as found:
        read_presented("S.One", document)
    assert str(found.value) == str(expected.value)
