"""The changes of a feed run, and limits on missing and unusable rows."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from broker.domain.work import DroppedRow
from broker.feeds.model.rows import MappedTable, check_dropped_rows, check_shrunk, compare
from broker.fetching.documents import DocumentRefused

BEFORE = {("same",): ({"a": 1, "b": [2]},), ("other",): ({"a": 1, "old": 2},), ("gone",): ({},), ("kept",): ({},)}
AFTER = MappedTable(
    "schedconfig_json",
    ("panda_queue",),
    ("data",),
    {("same",): ({"a": 1, "b": [2]},), ("other",): ({"a": 9, "new": 3},), ("new",): ({},)},
    retained_keys=frozenset({("kept",)}),
)


def test_changes_by_field() -> None:
    changes = compare(BEFORE, AFTER)
    assert {row.key[0]: row.kind for row in changes.rows} == {"other": "changed", "new": "added", "gone": "gone"}
    (changed,) = [row for row in changes.rows if row.kind == "changed"]
    assert dict(changed.fields) == {"a": (1, 9), "old": (2, None), "new": (None, 3)}
    assert changes.counts() == {
        "added": 1, "changed": 1, "gone": 1, "unchanged": 1, "fields": {"a": 1, "new": 1, "old": 1},
    }  # fmt: skip


def test_a_document_about_some_rows_removes_none() -> None:
    assert "gone" not in {row.kind for row in compare(BEFORE, AFTER, removes=False).rows}


TABLES = st.dictionaries(st.tuples(st.text(max_size=2)), st.tuples(st.integers(0, 2)), max_size=8)


@given(TABLES, TABLES)
def test_applying_the_changes_gives_the_later_rows(before: dict, after: dict) -> None:  # type: ignore[type-arg]
    changes = compare(before, MappedTable("t", ("k",), ("v",), after))
    result = {key: values for key, values in before.items() if key not in changes.keys("gone")}
    result |= {key: after[key] for key in changes.keys("added", "changed")}
    assert result == after and changes.unchanged == sum(before.get(key) == after[key] for key in after)


@pytest.mark.parametrize(("now", "is_refused"), [(50, False), (49, True), (0, True), (200, False)])
def test_a_document_may_shrink_down_to_its_limit(now: int, is_refused: bool) -> None:
    if not is_refused:
        check_shrunk("queues", now, 100, 0.5)
        return
    with pytest.raises(DocumentRefused) as error:
        check_shrunk("queues", now, 100, 0.5)
    assert error.value.code == "shrunk"


@pytest.mark.parametrize("before", [None, 0])
def test_the_first_document_may_have_any_size(before: int | None) -> None:
    check_shrunk("queues", 1, before, 0.0)


@pytest.mark.parametrize(("faults", "is_refused"), [(2, False), (3, True)])
def test_unusable_records_are_accepted_up_to_a_limit(faults: int, is_refused: bool) -> None:
    dropped_rows = [DroppedRow("queues", str(number), "negative", "") for number in range(faults)]
    dropped_rows += [DroppedRow("queues", f"E{number}", "unknown_endpoint", "") for number in range(9)]
    dropped_rows += [DroppedRow("sites", f"S{number}", "negative", "") for number in range(9)]
    if not is_refused:
        check_dropped_rows("queues", dropped_rows, 10, 0.2)
        return
    with pytest.raises(DocumentRefused) as error:
        check_dropped_rows("queues", dropped_rows, 10, 0.2)
    assert error.value.code == "too_many_left_out"
