"""Names of people in paths: every name survives the round trip, and no path contains forbidden characters."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given, strategies as st

from broker.api.envelope import is_odd
from broker.api.presenting import from_path, to_path
from gridbroker_client.names import name_in_path

HOSTILE = "<script>alert(1)</script>\"'\x1b[31m/~7e\\\u202e"


@pytest.mark.hypothesis
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_a_name_survives_its_path_and_the_path_is_not_odd(name: str) -> None:
    path = to_path(name)
    assert name_in_path(name) == path  # the client encodes it like the page
    assert "/" not in path and not is_odd(f"/users/{path}".encode(), 10_000)
    assert from_path(unquote(path)) == name


@pytest.mark.parametrize("name", [HOSTILE, ".", "..", "a/../b", "~", "~~1b", "Jane Doe", "~2f"])
def test_odd_names_come_back_too(name: str) -> None:
    assert from_path(unquote(to_path(name))) == name
    assert name_in_path(name) == to_path(name)
    assert not is_odd(f"/users/{to_path(name)}".encode(), 10_000)


def test_an_unencoded_name_is_kept() -> None:
    assert from_path("plain") == "plain" and from_path("~ff") == "~ff" and from_path("~zz") == "~zz"
