"""Storage tokens: what they ask for, which endpoint they mean, and what is written."""

from __future__ import annotations

import pytest

from broker.rules.production_task.storage_tokens import endpoint_for, is_distributed, placed_token, wanted_token

NAMES = ["X_DATADISK", "X_DATATAPE", "X_GROUP-DATADISK", "X_SCRATCHDISK"]
TYPES = ["DATADISK", "DATATAPE", "GROUPDISK", None]


@pytest.mark.parametrize(
    ("token", "at"),
    [
        ("X_DATATAPE", 1),  # by name
        ("ATLASDATADISK", 0),  # by type
        ("ATLASDATATAPE", 1),
        ("GROUPDISK", 2),
        ("DATADISK", 0),  # a pattern found in the first name
        ("GROUP", 2),
        ("X_.*DISK$", 0),
        ("SCRATCH", 3),
        ("^DATADISK", -1),  # no name begins so, and a type is no pattern
        ("", 0),
        ("ATLASLOCALGROUPDISK", -1),
        ("nothing", -1),
        ("(", -1),  # no pattern
        ("(?=X)", -1),
        ("(a+)+$", -1),
    ],
)
def test_which_endpoint(token: str, at: int) -> None:
    assert endpoint_for(token, NAMES, TYPES) == at


def test_the_exact_name_wins_over_an_earlier_match() -> None:
    assert endpoint_for("X_DISK", ["MY_X_DISK", "X_DISK"], [None, None]) == 1


def test_there_may_be_none() -> None:
    assert endpoint_for("", [], []) == -1


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (None, ""),
        ("", ""),
        ("ATLASDATADISK", "ATLASDATADISK"),
        ("dst:X_DATADISK", "X_DATADISK"),
        ("dst:X_DATADISK/ATLASDATADISK", "ATLASDATADISK"),
        ("a/b/c", "c"),
    ],
)
def test_what_is_looked_for(stored: str | None, wanted: str) -> None:
    assert wanted_token(stored) == wanted


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


def test_what_is_written() -> None:
    assert placed_token(None, "X_DATADISK") == "dst:X_DATADISK"
    assert placed_token("ATLASDATADISK", "X_DATADISK") == "dst:X_DATADISK/ATLASDATADISK"
    assert placed_token("dst:OLD/ATLASDATADISK", "X_DATADISK") == "dst:X_DATADISK/ATLASDATADISK"


def test_the_column_holds_a_hundred_characters() -> None:
    assert placed_token("t" * 80, "E" * 15) == "dst:" + "E" * 15 + "/" + "t" * 80
    assert placed_token("t" * 81, "E" * 15) == "dst:" + "E" * 15
