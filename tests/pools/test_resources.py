"""Inheritance from site and CE, layers for a VO, admission of VOs, and a version that changes with the content."""

from __future__ import annotations

from typing import Any

import pytest

from broker.pools.model.resource_text import WrongResources, resources_of, unusable_numbers
from broker.pools.model.resources import Resources


def grid_of(site: dict[str, Any], ce: dict[str, Any], queue: dict[str, Any]) -> Resources:
    return resources_of({"S": {**site, "ces": {"c": {**ce, "queues": {"q": queue}}}}})[0]


LAYERS = ["site", "site vo", "ce", "ce vo", "queue", "queue vo"]


@pytest.mark.parametrize("highest", range(len(LAYERS)))
def test_the_last_layer_wins(highest: int) -> None:
    def level(number: int) -> dict[str, Any]:
        common, of_vo = 2 * number, 2 * number + 1
        return {
            "params": {"P": [LAYERS[common], "x"]} if common <= highest else {},
            "vo_params": {"LHCb": {"P": [LAYERS[of_vo]]}} if of_vo <= highest else {},
        }

    grid = grid_of(level(0), level(1), level(2))
    expected = (LAYERS[highest],) if highest % 2 else (LAYERS[highest], "x")
    assert grid.effective("lhcb")[0].parameters == {"P": expected}
    last_common = LAYERS[highest - highest % 2]
    assert grid.effective("atlas")[0].parameters == {"P": (last_common, "x")}


@pytest.mark.parametrize("empty", ["", "  ", None, [], [""], ["", " "]])
def test_an_empty_value_removes_the_inherited_value(empty: object) -> None:
    grid = grid_of({"params": {"P": "1"}}, {}, {"params": {"P": empty}})
    assert grid.effective("lhcb")[0].parameters == {}
    restored = grid_of({"params": {"P": "1"}}, {"params": {"P": empty}}, {"vo_params": {"lhcb": {"P": "2"}}})
    assert restored.effective("lhcb")[0].parameters == {"P": "2"}


@pytest.mark.parametrize(
    ("site", "ce", "queue", "admitted"),
    [
        ([], [], [], True),
        (["atlas"], [], [], False),
        (["atlas"], ["LHCb"], [], True),
        (["lhcb"], ["atlas"], [], False),
        (["lhcb"], ["lhcb"], ["atlas"], False),
        (["atlas"], ["atlas"], ["cms", "LHCB"], True),
        (["atlas"], [""], " , ", False),
        ("atlas, lhcb", None, [], True),
    ],
)
def test_the_nearest_list_of_vos_decides(site: object, ce: object, queue: object, admitted: bool) -> None:
    assert grid_of({"VO": site}, {"VO": ce}, {"VO": queue}).effective("lhcb")[0].admitted is admitted


def test_values_are_brought_to_the_form_in_which_they_are_compared() -> None:
    values = {"A": 4000, "B": 3999.5, "C": True, "D": " Zu\u0308rich ", "E": ["b", "a", "b", ""], "F": ["x"]}
    parameters = grid_of({}, {}, {"params": values}).effective("lhcb")[0].parameters
    expected = {"A": "4000", "B": "3999.5", "C": "true", "D": "Z\u00fcrich", "E": ("b", "a"), "F": ("x",)}
    assert parameters == expected


def test_an_invalid_value_or_name_does_not_affect_the_rest() -> None:
    document = {
        "S": {
            "params": {"P": "site", "Q": {"not": "text"}},
            "vo_params": {"lhcb": {"P": "1"}, "LHCb": {"P": "2"}},
            "ces": {"c": {"queues": {"q": {"params": {"P": ["a", ["b"]], "R": "a\x00b"}}, "bad/name": {}, "": {}}}},
        }
    }
    grid, findings = resources_of(document)
    (queue,) = grid.effective("atlas")
    assert (str(queue.name), queue.parameters) == ("S/c/q", {"P": ("a",)})
    assert sorted(finding.path for finding in findings) == [
        "S/c/''", "S/c/'bad/name'", "S/c/q/params/P", "S/c/q/params/R", "S/params/Q", "S/vo_params/LHCb",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], "the document"),
        ({"S": []}, "S"),
        ({"S": {"param": {}}}, "S/param"),
        ({"S": {"params": []}}, "S/params"),
        ({"S": {"vo_params": {"lhcb": "x"}}}, "S/vo_params/lhcb"),
        ({"S": {"ces": {"c": {"ces": {}}}}}, "S/c/ces"),
        ({"S": {"ces": {"c": {"queues": {"q": {"queues": {}}}}}}}, "S/c/q/queues"),
        ({"S": {"VO": 7}}, "S/VO"),
        ({"S": {"VO": [["lhcb"]]}}, "S/VO"),
    ],
)
def test_another_shape_is_refused_with_its_path(document: object, path: str) -> None:
    with pytest.raises(WrongResources) as error:
        resources_of(document)
    assert str(error.value).startswith(f"{path}: ")


def test_the_version_changes_only_with_content_that_affects_eligibility() -> None:
    base = grid_of({"params": {"A": "1", "B": ["x", "y"]}, "VO": ["lhcb", "atlas"]}, {}, {})
    equal_grid = grid_of({"params": {"B": ["x", "y"], "A": 1}, "VO": "ATLAS,lhcb"}, {}, {})
    assert base.version == equal_grid.version
    assert len(base.version) == 32
    for changed_grid in (
        grid_of({"params": {"A": "2", "B": ["x", "y"]}, "VO": ["lhcb", "atlas"]}, {}, {}),
        grid_of({"params": {"A": "1", "B": ["x", "y"]}, "VO": ["lhcb"]}, {}, {}),
        grid_of({"params": {"A": ["1"], "B": ["x", "y"]}, "VO": ["lhcb", "atlas"]}, {}, {}),
        grid_of({"VO": ["lhcb", "atlas"]}, {}, {"params": {"A": "1", "B": ["x", "y"]}}),
        grid_of(
            {"params": {"A": "1", "B": ["x", "y"]}, "VO": ["lhcb", "atlas"], "vo_params": {"x": {"A": ""}}}, {}, {}
        ),
    ):
        assert changed_grid.version != base.version


def test_queues_are_sorted_and_parameters_known_by_name() -> None:
    document = {
        site: {"ces": {"b": {"queues": {"2": {"params": {"P": "1"}}, "1": {"vo_params": {"x": {"Q": "1", "R": ""}}}}}}}
        for site in ("Z", "A")
    }
    grid, _ = resources_of(document)
    assert [str(name) for name in grid.queues] == ["A/b/1", "A/b/2", "Z/b/1", "Z/b/2"]
    assert [queue.name for queue in grid.effective("x")] == list(grid.queues)
    assert grid.parameter_names == {"P", "Q"}


def test_each_invalid_number_is_reported_once_at_its_layer() -> None:
    grid = grid_of(
        {"params": {"M": "4GB"}, "vo_params": {"lhcb": {"M": "4"}}},
        {"params": {"M": ["1", "2"]}},
        {"params": {"M": ""}},
    )
    assert [str(finding) for finding in unusable_numbers(grid, frozenset({"M", "N"}))] == [
        "S/M: '4GB' is not a number",
        "S/c/M: ('1', '2') is not a number",
    ]
