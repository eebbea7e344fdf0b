"""Storage tokens: the requested token, the matching endpoint, and the token that is written."""

from __future__ import annotations

import pytest

from broker.rules.production_task.storage_tokens import endpoint_for, is_distributed, placed_token, wanted_token

NAMES = ["X_DATADISK", "X_DATATAPE", "X_GROUP-DATADISK", "X_SCRATCHDISK"]
TYPES = ["DATADISK", "DATATAPE", "GROUPDISK", None]


@pytest.mark.parametrize(
    ("token", "position"),
    [
        ("X_DATATAPE", 1),  # by name
        ("ATLASDATADISK", 0),  # by type
        ("ATLASDATATAPE", 1),
        ("GROUPDISK", 2),
        ("DATADISK", 0),  # a pattern that matches within the first name
        ("GROUP", 2),
        ("X_.*DISK$", 0),
        ("SCRATCH", 3),
        ("^DATADISK", -1),  # no name begins with it, and a type is no pattern
        ("", 0),
        ("ATLASLOCALGROUPDISK", -1),
        ("nothing", -1),
        ("(", -1),  # no pattern
        ("(?=X)", -1),
        ("(a+)+$", -1),
    ],
)
def test_which_endpoint(token: str, position: int) -> None:
    assert endpoint_for(token, NAMES, TYPES) == position


def test_the_exact_name_wins_over_an_earlier_match() -> None:
    assert endpoint_for("X_DISK", ["MY_X_DISK", "X_DISK"], [None, None]) == 1


def test_no_endpoint_matches_an_empty_list() -> None:
    assert endpoint_for("", [], []) == -1


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (None, ""),
        ("", ""),
        ("ATLASDATADISK", "ATLASDATADISK"),
        ("dst:X_DATADISK", "X_DATADISK"),
        ("dst:X_DATADISK/ATLASDATADISK", "ATLASDATADISK"),
        ("a/b/c", "c"),
    ],
)
def test_the_last_part_of_a_stored_token_is_looked_up(stored: str | None, expected: str) -> None:
    assert wanted_token(stored) == expected


@pytest.mark.parametrize(
    ("stored", "distributed"),
    [
        (None, False),
        ("ATLASDATADISK", False),
        ("ddd:", False),
        ("ddd:PLACE", True),
        ("ATLASDATADISK/ddd:PLACE", True),
        ("ATLASDATADISK/ddd:", False),
        ("xddd:PLACE", False),
    ],
)
def test_distributed_destinations(stored: str | None, distributed: bool) -> None:
    assert is_distributed(stored) is distributed


def test_the_placed_token_keeps_the_last_part() -> None:
    assert placed_token(None, "X_DATADISK") == "dst:X_DATADISK"
    assert placed_token("ATLASDATADISK", "X_DATADISK") == "dst:X_DATADISK/ATLASDATADISK"
    assert placed_token("dst:OLD/ATLASDATADISK", "X_DATADISK") == "dst:X_DATADISK/ATLASDATADISK"


def test_a_token_over_a_hundred_characters_loses_the_original_part() -> None:
    assert placed_token("t" * 80, "E" * 15) == "dst:" + "E" * 15 + "/" + "t" * 80
    assert placed_token("t" * 81, "E" * 15) == "dst:" + "E" * 15
