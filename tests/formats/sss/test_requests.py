from __future__ import annotations

import pytest

from broker.domain.work import AcceptedCores, WayToRun
from broker.formats.model.sss.requests import CannotAskError, Request, request_of
from tests.formats.sss.documents import job_with


def request_for(inside: str) -> Request:
    return request_of(job_with(f"<Requested>{inside}</Requested>").job.requested)


def ways(inside: str) -> list[WayToRun]:
    return [alternative.way for alternative in request_for(inside).alternatives]


@pytest.mark.parametrize(
    ("inside", "cores"),
    [
        ("<Processors>8</Processors>", ["8"]),
        ('<Processors op="GE">8</Processors>', ["8-"]),
        ('<Processors op="GT">8</Processors>', ["9-"]),
        ('<Processors op="LE">8</Processors>', ["1-8"]),
        ('<Processors op="LT">8</Processors>', ["1-7"]),
        ('<Processors op="NE">8</Processors>', ["1-!8"]),
        ('<Processors op="NE">1</Processors>', ["2-!1"]),
        ('<Processors op="GE">4</Processors><Processors op="LE">16</Processors>', ["4-16"]),
        ('<Processors>12</Processors><Processors conj="or">16</Processors>', ["12", "16"]),
        ('<Processors>12</Processors><Processors conj="or" preference="5">16</Processors>', ["16", "12"]),
        ('<Processors op="GE">9</Processors><Processors op="LE" conj="And">3</Processors>'
         '<Processors conj="Or">5</Processors>', ["5"]),
        ("", [None]),
    ],
)  # fmt: skip
def test_cores(inside: str, cores: list[str | None]) -> None:
    assert [way.accepted_cores and str(way.accepted_cores) for way in ways(inside)] == cores


def test_alternatives_are_combined_in_the_order_of_the_document() -> None:
    alternatives = ways(
        '<Processors>8</Processors><Processors conj="or">16</Processors>'
        '<Memory units="GB">16</Memory><Memory units="GB" conj="or">8</Memory>'
    )
    assert [(way.accepted_cores and str(way.accepted_cores), way.memory_mb) for way in alternatives] == [
        ("8", 16384), ("8", 8192), ("16", 16384), ("16", 8192),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("inside", "memory_mb"),
    [
        ('<Memory op="GE" units="MB">2000</Memory>', 2000),
        ('<Memory op="GT" units="MB">2000</Memory>', 2001),
        ('<Memory units="GB">1.5</Memory>', 1536),
        ('<Memory units="B">1</Memory>', 1),
        ('<Memory units="B">1048577</Memory>', 2),
        ('<Memory op="LE" units="MB">2000</Memory>', None),
    ],
)
def test_memory_is_rounded_up_to_mb(inside: str, memory_mb: int | None) -> None:
    assert ways(inside)[0].memory_mb == memory_mb


@pytest.mark.parametrize("operator", ["EQ", "LE", "GE"])
def test_a_walltime_is_an_upper_limit_whatever_the_operator(operator: str) -> None:
    assert ways(f'<WallDuration op="{operator}">600</WallDuration>')[0].wall_s == 600


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ('<Processors op="GE">9</Processors><Processors op="LE">3</Processors>', "unsatisfiable"),
        ("<Processors>1000</Processors>", "too-many-cores"),
        ('<Processors op="Match">8.*</Processors>', "not-a-number"),
    ],
)
def test_impossible_requests_are_refused(inside: str, reason: str) -> None:
    with pytest.raises(CannotAskError) as caught:
        request_for(inside)
    assert caught.value.reason == reason


def test_999_cores_can_be_requested() -> None:
    assert request_for("<Processors>999</Processors>").first.fewest_cores == 999


@pytest.mark.parametrize(
    ("inside", "is_fuzzy"),
    [("<Processors>8</Processors>", False), ('<Processors op="GE">8</Processors>', True), ("", False),
     ('<Memory units="MB">1</Memory><Memory units="MB" conj="or">2</Memory>', True)],
)  # fmt: skip
def test_which_requests_are_fuzzy(inside: str, is_fuzzy: bool) -> None:
    assert request_for(inside).is_fuzzy is is_fuzzy


@pytest.mark.parametrize(
    ("accepted", "cores", "result"),
    [
        ("8", 8, True), ("8", 7, False), ("8", 9, False), ("4-16", 4, True), ("4-16", 16, True),
        ("4-16", 17, False), ("4-", 999, True), ("4-!8", 8, False), ("4-!8", 9, True), ("1", 0, True),
        ("1", float("nan"), True), ("2-", 0, False),
    ],
)  # fmt: skip
def test_which_slots_are_accepted(accepted: str, cores: float, result: bool) -> None:
    assert AcceptedCores.of_stored(accepted).accepts(cores) is result
