from __future__ import annotations

import pytest

from broker.domain.parts import WHOLE, Part, division_of, led_by, number_of, parts_of

KEYS = ["", "Simulation", "Reprocessing", "#7", "User Analysis", "Schrödinger", "\ud800"]


@pytest.mark.parametrize("parts", [1, 2, 3, 16])
def test_each_key_belongs_to_exactly_one_part(parts: int) -> None:
    for key in KEYS:
        assert sum(part.takes(key) for part in parts_of(parts)) == 1


def test_the_part_of_a_key_never_changes() -> None:
    assert [number_of(key, 4) for key in KEYS[:5]] == [1, 3, 1, 2, 1]


@pytest.mark.parametrize(
    ("name", "agent", "part"),
    [
        ("production_job", "production_job", WHOLE),
        ("production_job#2/3", "production_job", Part(2, 3)),
        ("production_job#4/3", "production_job#4/3", WHOLE),
        ("production_job#0/3", "production_job#0/3", WHOLE),
        ("production_job#", "production_job#", WHOLE),
    ],
)
def test_the_name_of_a_lease_gives_agent_and_part(name: str, agent: str, part: Part) -> None:
    assert led_by(name) == (agent, part)
    assert part.lease_of(agent) == name


def test_leases_of_a_division() -> None:
    assert division_of("a") == ("a",)
    assert division_of("a#2/2") == ("a#1/2", "a#2/2")


@pytest.mark.parametrize(("number", "count"), [(0, 2), (3, 2), (1, 0)])
def test_an_invalid_part_is_refused(number: int, count: int) -> None:
    with pytest.raises(ValueError, match="part"):
        Part(number, count)
