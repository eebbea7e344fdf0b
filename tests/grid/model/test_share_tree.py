"""Checks of changes to the tree of shares."""

from __future__ import annotations

import pytest

from broker.errors import NotFound
from broker.grid.model.share_tree import LARGEST_VALUE, GlobalShare, ShareRefused, check_removal, check_share

KNOWN = {share.name: share for share in (GlobalShare("Top", 1), GlobalShare("Leaf", 1, "Top"))}


@pytest.mark.parametrize(
    "share",
    [
        GlobalShare("default", 0),
        GlobalShare("MC 16", LARGEST_VALUE, "Leaf"),
        GlobalShare("x" * 32, 1, prodsourcelabel="managed|test"),
    ],
)
def test_valid_shares(share: GlobalShare) -> None:
    check_share(share, KNOWN)


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (GlobalShare("", 1), "not a name of a share"),
        (GlobalShare("x" * 33, 1), "1 to 32 printable characters"),
        (GlobalShare(" x", 1), "not a name of a share"),
        (GlobalShare("a\nb", 1), "not a name of a share"),
        (GlobalShare("A", -1), "-1 is out of range; value of A; give a whole number from 0 to 32767"),
        (GlobalShare("A", LARGEST_VALUE + 1), "32768 is out of range"),
        (GlobalShare("A", 1, workinggroup="x" * 101), "workinggroup of A; give 1 to 100 characters"),
        (GlobalShare("A", 1, "A"), "A would be below itself"),
        (GlobalShare("Top", 1, "Leaf"), "Top would be below itself"),
    ],
)
def test_invalid_shares_are_refused(share: GlobalShare, words: str) -> None:
    with pytest.raises(ShareRefused) as refusal:
        check_share(share, KNOWN)
    assert words in str(refusal.value)


def test_an_unknown_parent_is_refused_with_a_suggestion() -> None:
    with pytest.raises(NotFound, match="did you mean Leaf"):
        check_share(GlobalShare("A", 1, "leaf"), KNOWN)


def test_only_unused_shares_can_be_removed() -> None:
    check_removal("Leaf", KNOWN.values(), 0)
    with pytest.raises(ShareRefused, match="Leaf would lose the parent"):
        check_removal("Top", KNOWN.values(), 0)
    with pytest.raises(ShareRefused, match="2 tasks of it have not ended"):
        check_removal("Leaf", KNOWN.values(), 2)
