"""How edits turn one published version into the next."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, strategies as st

from broker.gdpconfig.catalogue import UnknownKeyError, Value, ValueRefusedError, shipped_catalogue
from broker.gdpconfig.publish import (
    NotSetError,
    Published,
    differences,
    fingerprint,
    last_good_from_json,
    last_good_to_json,
    plan_outside,
    plan_rollback,
    plan_set,
    plan_unset,
    rows_from_json,
    rows_to_json,
    table_content,
)
from broker.gdpconfig.values import ConfigRow

CATALOGUE = shipped_catalogue()
SAT_CAP = ("jobbroker", "NQUEUED_SAT_CAP", "atlas")


def row(key: str, value: str, kind: str = "integer", vo: str = "atlas", component: str = "jobbroker") -> ConfigRow:
    return ConfigRow("jedi", component, key, vo, value, kind)


def published(*rows: ConfigRow, version: int = 7) -> Published:
    from_table = table_content(CATALOGUE, rows, None)
    return Published(version, from_table.rows, from_table.last_good, CATALOGUE)


def test_the_first_reading_of_a_table_is_version_one() -> None:
    from_table = table_content(CATALOGUE, [row("NQUEUED_SAT_CAP", "9"), row("OTHER", "x")], None)
    assert from_table.version == 0
    edit = plan_outside(from_table, None)
    assert edit is not None
    assert edit.result.version == 1
    assert [change.row_id for change in edit.changes] == [SAT_CAP]
    assert edit.result.tuning("atlas").number("NQUEUED_SAT_CAP") == 9
    assert edit.result.tuning("atlas").version == 1


def test_an_unchanged_table_is_the_latest_version_in_any_row_order() -> None:
    rows = [row("NQUEUED_SAT_CAP", "9"), row("NW_THRESHOLD", "1.5", "float"), row("MIN_WEIGHT_user", "1", vo="cms")]
    latest = published(*rows)
    from_table = table_content(CATALOGUE, rows[::-1], latest)
    assert from_table is latest
    assert plan_outside(from_table, latest) is None


def test_rows_of_other_programs_make_no_version() -> None:
    latest = published(row("NQUEUED_SAT_CAP", "9"))
    foreign_rows = [ConfigRow("pilot", "pilot", "NQUEUED_SAT_CAP", "atlas", "1", "int"), row("UNKNOWN_KEY", "1")]
    assert table_content(CATALOGUE, [*latest.rows, *foreign_rows], latest) is latest


@pytest.mark.parametrize(
    ("table_rows", "action"),
    [
        ([row("NQUEUED_SAT_CAP", "10")], "set"),
        ([row("NQUEUED_SAT_CAP", "9", "float")], "set"),
        ([], "unset"),
    ],
)
def test_a_change_by_another_program_makes_a_version(table_rows: list[ConfigRow], action: str) -> None:
    latest = published(row("NQUEUED_SAT_CAP", "9"))
    edit = plan_outside(table_content(CATALOGUE, table_rows, latest), latest)
    assert edit is not None
    assert edit.result.version == 8
    assert [(change.row_id, change.action) for change in edit.changes] == [(SAT_CAP, action)]


def test_a_row_that_becomes_invalid_keeps_its_last_good_value_over_many_versions() -> None:
    latest = published(row("NQUEUED_SAT_CAP", "9"))
    for value in ("many", "0.5", "-1"):
        from_table = table_content(CATALOGUE, [row("NQUEUED_SAT_CAP", value)], latest)
        edit = plan_outside(from_table, latest)
        assert edit is not None
        latest = edit.result
        assert latest.tuning("atlas").number("NQUEUED_SAT_CAP") == 9
        assert [bad.last_good for bad in latest.bad_rows] == [9]
    edit = plan_outside(table_content(CATALOGUE, [row("NQUEUED_SAT_CAP", "11")], latest), latest)
    assert edit is not None
    assert edit.result.bad_rows == ()
    assert edit.result.tuning("atlas").number("NQUEUED_SAT_CAP") == 11


def test_removing_a_row_forgets_its_last_good_value() -> None:
    latest = published(row("NQUEUED_SAT_CAP", "9"))
    for rows in ([], [row("NQUEUED_SAT_CAP", "many")]):
        edit = plan_outside(table_content(CATALOGUE, rows, latest), latest)
        assert edit is not None
        latest = edit.result
    assert latest.tuning("atlas").number("NQUEUED_SAT_CAP") == 150
    assert [bad.last_good for bad in latest.bad_rows] == [None]


@pytest.mark.parametrize(
    ("key", "value", "vo", "expected_row"),
    [
        ("NQUEUED_SAT_CAP", 9, None, ("atlas", "9", "integer")),
        ("NQUEUED_SAT_CAP", 9, "atlas", ("atlas", "9", "integer")),
        ("NW_THRESHOLD", 1.5, None, ("atlas", "1.5", "float")),
        ("NW_ACTIVE", False, None, ("atlas", "false", "boolean")),
        ("STORAGE_MIN_FREE_SIZE", 100, "cms", ("cms", "100", "integer")),
        ("NQUEUELIMITSITE_MC 16", 30, None, ("atlas", "30", "integer")),
        ("NQUEUED_NUC_CAP", 5, "atlas", ("atlas", "5", "integer")),
    ],
)
def test_set_plans_one_row(key: str, value: Value, vo: str | None, expected_row: tuple[str, str, str]) -> None:
    edit = plan_set(published(), key, value, vo)
    assert edit is not None
    assert edit.result.version == 8
    (change,) = edit.changes
    assert change.old is None
    assert change.new is not None
    assert (change.new.vo, change.new.value, change.new.type) == expected_row
    assert edit.result.tuning(expected_row[0]).settings == {key: value}


def test_setting_the_present_value_makes_no_version() -> None:
    assert plan_set(published(row("NQUEUED_SAT_CAP", "9")), "NQUEUED_SAT_CAP", 9, None) is None
    assert plan_set(published(row("NQUEUED_SAT_CAP", "9", "float")), "NQUEUED_SAT_CAP", 9, None) is None


def test_set_repairs_an_invalid_row() -> None:
    edit = plan_set(published(row("NQUEUED_SAT_CAP", "9", "nonsense")), "NQUEUED_SAT_CAP", 9, None)
    assert edit is not None
    assert edit.result.bad_rows == ()


@pytest.mark.parametrize(
    ("key", "value", "vo", "error", "message"),
    [
        ("NQUEUED_SATCAP", 9, None, UnknownKeyError, "NQUEUED_SAT_CAP"),
        ("NQUEUED_SAT_CAP", -1, None, ValueRefusedError, "out of range"),
        ("NQUEUED_SAT_CAP", "9", None, ValueRefusedError, "whole number"),
        ("NQUEUED_SAT_CAP", 9, "cms", ValueRefusedError, "VO atlas only"),
        ("MIN_INPUT_COMPLETENESS", 100.5, "atlas", ValueRefusedError, "<= 100"),
        ("STORAGE_MIN_FREE_SIZE", 9, None, ValueRefusedError, "needs a VO"),
        ("STORAGE_MIN_FREE_SIZE", 9, "", ValueRefusedError, "needs a VO"),
        ("STORAGE_MIN_FREE_SIZE", 9, "v" * 33, ValueRefusedError, "needs a VO"),
        ("STORAGE_MIN_FREE_SIZE", 9, "a\nb", ValueRefusedError, "needs a VO"),
        ("NQUEUELIMITSITE_" + "x" * 49, 9, None, ValueRefusedError, "64 characters"),
        ("NQUEUELIMITSITE_a\x1b[31m", 9, None, ValueRefusedError, "not printable"),
        ("NQUEUED_SAT_CAP", 10_001, None, ValueRefusedError, "NQUEUED_NUC_CAP_FOR_JOBS = 10000"),
        ("NQUEUED_NUC_CAP_FOR_JOBS", 149, None, ValueRefusedError, "NQUEUED_SAT_CAP = 150"),
        ("NQUEUED_SAT_CAP", 10**300, None, ValueRefusedError, "256 characters"),
    ],
)
def test_set_refuses_invalid_values(
    key: str, value: Value, vo: str | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as refusal:
        plan_set(published(), key, value, vo)
    assert "\x1b" not in str(refusal.value)


def test_set_accepts_values_at_the_limits() -> None:
    assert plan_set(published(), "NQUEUELIMITSITE_" + "x" * 48, 9, None) is not None
    assert plan_set(published(), "STORAGE_MIN_FREE_SIZE", 9, "v" * 32) is not None
    assert plan_set(published(), "NQUEUED_SAT_CAP", 10_000, None) is not None
    assert plan_set(published(), "NQUEUED_NUC_CAP_FOR_JOBS", 150, None) is not None


def test_an_old_contradiction_does_not_stop_other_edits() -> None:
    current = published(row("NQUEUED_SAT_CAP", "20000"))
    assert current.contradictions("atlas") != ()
    assert plan_set(current, "NW_THRESHOLD", 1.5, None) is not None
    edit = plan_set(current, "NQUEUED_NUC_CAP_FOR_JOBS", 30_000, None)
    assert edit is not None
    assert edit.result.contradictions("atlas") == ()


def test_unset_restores_the_default() -> None:
    edit = plan_unset(published(row("NQUEUED_SAT_CAP", "9")), "NQUEUED_SAT_CAP", None)
    assert (edit.result.version, edit.result.rows) == (8, ())
    assert edit.result.tuning("atlas").number("NQUEUED_SAT_CAP") == 150


def test_unset_refuses_keys_that_are_not_set_and_contradictions() -> None:
    with pytest.raises(NotSetError, match="NQUEUED_SAT_CAP is not set for VO atlas"):
        plan_unset(published(), "NQUEUED_SAT_CAP", None)
    with pytest.raises(UnknownKeyError):
        plan_unset(published(), "NO_SUCH_KEY", None)
    both_high = published(row("NQUEUED_SAT_CAP", "20000"), row("NQUEUED_NUC_CAP_FOR_JOBS", "30000"))
    with pytest.raises(ValueRefusedError, match="default of NQUEUED_NUC_CAP_FOR_JOBS contradicts"):
        plan_unset(both_high, "NQUEUED_NUC_CAP_FOR_JOBS", None)


def test_rollback_makes_a_new_version_with_the_old_rows() -> None:
    old = published(row("NQUEUED_SAT_CAP", "9"), row("NW_THRESHOLD", "1", "float"), version=3)
    current = published(row("NQUEUED_SAT_CAP", "10"), row("NW_ACTIVE", "false", "boolean"), version=7)
    edit = plan_rollback(current, old)
    assert edit is not None
    assert (edit.result.version, edit.result.rows) == (8, old.rows)
    assert {change.row_id[1]: change.action for change in edit.changes} == {
        "NQUEUED_SAT_CAP": "set",
        "NW_THRESHOLD": "set",
        "NW_ACTIVE": "unset",
    }
    assert plan_rollback(edit.result, old) is None


def test_rollback_to_an_invalid_row_restores_its_last_good_value() -> None:
    good = published(row("NQUEUED_SAT_CAP", "9"), version=1)
    wrong = plan_outside(table_content(CATALOGUE, [row("NQUEUED_SAT_CAP", "x")], good), good)
    assert wrong is not None
    current = published(version=7)
    edit = plan_rollback(current, wrong.result)
    assert edit is not None
    assert edit.result.tuning("atlas").number("NQUEUED_SAT_CAP") == 9


def test_differences_list_each_changed_row() -> None:
    old = [row("NQUEUED_SAT_CAP", "9"), row("NW_THRESHOLD", "1", "float")]
    new = [row("NQUEUED_SAT_CAP", "9"), row("NW_ACTIVE", "true", "boolean")]
    changes = differences(old, new)
    assert [(change.row_id[1], change.action) for change in changes] == [
        ("NW_ACTIVE", "set"),
        ("NW_THRESHOLD", "unset"),
    ]
    assert differences(new, new) == ()


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
any_row = st.builds(
    ConfigRow, texts, texts, texts, texts, st.one_of(st.none(), texts), st.one_of(st.none(), texts), st.just(None)
)


@pytest.mark.slow
@given(st.lists(any_row, max_size=5), st.randoms(use_true_random=False))
def test_fingerprints_depend_on_content_only(rows: list[ConfigRow], order: random.Random) -> None:
    shuffled = rows[:]
    order.shuffle(shuffled)
    assert fingerprint(shuffled) == fingerprint(rows)
    assert fingerprint([*rows, row("X", "1")]) != fingerprint(rows)
    assert rows_from_json(json.loads(json.dumps(rows_to_json(rows)))) == tuple(rows)


def test_last_good_values_survive_json() -> None:
    good: dict[tuple[str, str, str], Value] = {("c", "A", ""): True, ("c", "B", "atlas"): 1, ("c", "C", "x"): 0.5}
    assert last_good_from_json(json.loads(json.dumps(last_good_to_json(good)))) == good


@given(st.lists(st.tuples(st.sampled_from(["A", "B"]), st.integers(-1, 3)), max_size=8))
def test_any_sequence_of_edits_can_be_rolled_back(edits: list[tuple[str, int]]) -> None:
    start = published(row("NQUEUELIMITSITE_A", "5"))
    current = start
    for share, limit in edits:
        key = f"NQUEUELIMITSITE_{share}"
        try:
            edit = plan_unset(current, key, None) if limit < 0 else plan_set(current, key, limit, None)
        except NotSetError:
            continue
        if edit is not None:
            assert edit.result.version == current.version + 1
            current = edit.result
    rollback = plan_rollback(current, start)
    assert (current if rollback is None else rollback.result).rows == start.rows
