"""Answers cut to a size: never larger, and complete when all cursors are followed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from broker.service.model.bounded_answer import (
    LEAST_BYTES,
    Cut,
    Place,
    WrongCursor,
    bounded,
    cursor_of,
    part_at,
    place_of,
    size_of,
)

PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(-1e9, 1e9) | st.text(max_size=30)
DOCUMENTS = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=12), inner, max_size=12)
)
LARGER = st.integers(1, 400)


def table(rows: int, width: int = 40) -> dict[str, Any]:
    return {"now": "2026-08-01", "queues": [{"name": f"Q{number}", "said": "x" * width} for number in range(rows)]}


def all_items(document: dict[str, Any], most_bytes: int) -> list[Any]:
    """The items of ``queues``, collected by following the cursors."""
    part, cuts = bounded(document, most_bytes)
    items = list(part["queues"])
    while cuts:
        cut = next(candidate for candidate in cuts if candidate.at == ("queues",))
        place = place_of(cursor_of(Place(None, cut.at, cut.first + cut.shown)))
        part, cuts = bounded(part_at(document, place), most_bytes, place.at or (), place.first)
        assert size_of(part) <= most_bytes
        items += part
    return items


@settings(max_examples=60)
@given(DOCUMENTS, LARGER, st.integers(LEAST_BYTES, 5_000))
def test_no_answer_is_larger_than_the_limit(value: Any, larger: int, most_bytes: int) -> None:
    document = {
        "many": [value] * larger,
        "text": "\u00e9" * larger * 20,
        "names": {f"n{number}": value for number in range(larger)},
    }
    part, cuts = bounded(document, most_bytes)
    assert size_of(part) <= most_bytes
    assert (part == document) == (not cuts)


def test_a_small_answer_is_not_cut() -> None:
    assert bounded(table(10), LEAST_BYTES) == (table(10), ())


@pytest.mark.parametrize("rows", [60, 400])
def test_cursors_lead_through_all_of_a_list(rows: int) -> None:
    document = table(rows)
    part, cuts = bounded(document, 3_000)
    assert part["now"] == "2026-08-01" and 0 < len(part["queues"]) < rows
    assert cuts == (Cut(("queues",), 0, len(part["queues"]), rows),)
    assert all_items(document, 3_000) == document["queues"]


def test_the_smaller_of_two_lists_is_not_cut() -> None:
    part, cuts = bounded({**table(500), "pins": [1, 2, 3]}, 3_000)
    assert part["pins"] == [1, 2, 3] and [cut.at for cut in cuts] == [("queues",)]


def test_an_item_that_is_too_large_is_cut_inside() -> None:
    document = {"decisions": [{"id": 1, "candidates": list(range(5_000))}, {"id": 2, "candidates": []}]}
    part, cuts = bounded(document, 3_000)
    assert part["decisions"][0]["id"] == 1 and len(part["decisions"]) == 1
    assert [cut.at for cut in cuts] == [("decisions",), ("decisions", 0, "candidates")]
    rest = part_at(document, Place(None, cuts[1].at, cuts[1].shown))
    assert rest == list(range(cuts[1].shown, 5_000))


def test_names_of_an_object_are_cut_like_items() -> None:
    document = {f"name {number}": number for number in range(2_000)}
    part, (cut,) = bounded(document, 2_500)
    assert 0 < len(part) == cut.shown < cut.of == 2_000 and cut.at == ()
    rest = part_at(document, Place(None, (), cut.shown))
    assert {**part, **rest} == document


def test_a_cut_text_keeps_its_original_length() -> None:
    part, (cut,) = bounded({"log": "y" * 9_000}, 2_500)
    assert part["log"].endswith("...") and cut.of == 9_000 and not cut.follows


@pytest.mark.parametrize("cursor", ["", "!", "YWJj", "W10", cursor_of(Place(None, ("a",), -1)), "é"])
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(WrongCursor):
        place_of(cursor)


@pytest.mark.parametrize(
    "place", [Place(None, ("queues",), 10), Place(None, ("nothing",), 0), Place(None, ("now",), 0)]
)
def test_a_cursor_that_leads_nowhere_says_so(place: Place) -> None:
    with pytest.raises(WrongCursor, match="nothing follows"):
        part_at(table(10), place)
