"""Rows of the CONFIG table are turned into values by type, range and scope."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from broker.gdpconfig.catalogue import Value, ValueRefusedError, shipped_catalogue
from broker.gdpconfig.values import (
    ConfigRow,
    contradictions,
    convert,
    from_text,
    in_scope,
    judge_rows,
    row_of,
    rows_of_catalogue,
)

CATALOGUE = shipped_catalogue()


def row(
    key: str, value: str | None, kind: str | None = "integer", vo: str | None = "atlas", **more: object
) -> ConfigRow:
    component = str(more.pop("component", "jobbroker"))
    app = str(more.pop("app", "jedi"))
    return ConfigRow(app, component, key, vo, value, kind, **more)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "5", 5),
        ("integer", " -5 ", -5),
        ("INTEGER", "5", 5),
        ("float", "0.5", 0.5),
        ("float", "1e3", 1000.0),
        ("bool", "true", True),
        ("boolean", "TRUE", True),
        ("boolean", "True", True),
        ("boolean", "yes", False),
        ("boolean", "1", False),
        ("boolean", "false", False),
        ("str", "text", "text"),
        ("string", "", ""),
    ],
)
def test_convert_by_the_type_column(kind: str, text: str, value: Value) -> None:
    result = convert(row("K", text, kind))
    assert result == value
    assert type(result) is type(value)


def test_convert_reads_the_json_column_for_json() -> None:
    assert convert(row("K", "not this", "json", value_json={"a": 1})) == {"a": 1}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "5.0"),
        ("int", ""),
        ("int", "five"),
        ("float", "0,5"),
        ("number", "5"),
        (None, "5"),
        ("int", None),
        ("str", None),
        ("json", "{}"),
    ],
)
def test_unconvertible_rows_are_refused(kind: str | None, text: str | None) -> None:
    with pytest.raises(ValueRefusedError):
        convert(row("K", text, kind))


@pytest.mark.parametrize(
    ("key", "text", "kind", "why"),
    [
        ("NQUEUED_SAT_CAP", "many", "integer", "cannot be read as type integer"),
        ("NQUEUED_SAT_CAP", "150", "string", "is not a whole number"),
        ("NQUEUED_SAT_CAP", "-1", "integer", "out of range"),
        ("NQUEUED_SAT_CAP", "1.5", "float", "is not a whole number"),
        ("NQUEUED_SAT_CAP", "true", "boolean", "is not a whole number"),
        ("NW_ACTIVE", "1", "integer", "is not true or false"),
        ("NW_THRESHOLD", "nan", "float", "not a finite number"),
        ("NW_THRESHOLD", "inf", "float", "not a finite number"),
        ("MIN_INPUT_COMPLETENESS", "100.5", "float", "out of range"),
        ("NW_QUEUE_IMPORTANCE", "-0.1", "float", "out of range"),
        ("NQUEUELIMITSITE_Express", "-1", "integer", "out of range"),
    ],
)
def test_an_invalid_row_keeps_the_last_good_value_and_gives_a_reason(key: str, text: str, kind: str, why: str) -> None:
    invalid_row = row(key, text, kind)
    last_good: Value = True if key == "NW_ACTIVE" else 1
    with_last_good = judge_rows(CATALOGUE, [invalid_row], {invalid_row.row_id: last_good})
    assert with_last_good.usable == {invalid_row.row_id: last_good}
    without_last_good = judge_rows(CATALOGUE, [invalid_row], {})
    assert without_last_good.usable == {}
    for judgement, value in ((with_last_good, last_good), (without_last_good, None)):
        (bad,) = judgement.bad
        assert (bad.component, bad.key, bad.vo, bad.last_good) == ("jobbroker", key, "atlas", value)
        assert why in bad.why
        assert f"jobbroker/{key}" in str(bad)


def test_a_last_good_value_that_is_no_longer_allowed_is_dropped() -> None:
    invalid_row = row("NQUEUED_SAT_CAP", "x")
    judgement = judge_rows(CATALOGUE, [invalid_row], {invalid_row.row_id: -5})
    assert judgement.usable == {}
    assert judgement.bad[0].last_good is None


def test_rows_of_other_programs_and_components_and_unknown_keys_are_ignored() -> None:
    rows = [
        row("NQUEUED_SAT_CAP", "x", app="pandaserver"),
        row("NQUEUED_SAT_CAP", "x", component="taskbrokerage"),
        row("IO_INTENSITY_CUTOFF", "x", component="anal_jobbroker"),
        row("SOMETHING_ELSE", "x"),
    ]
    assert rows_of_catalogue(CATALOGUE, rows) == ()
    judgement = judge_rows(CATALOGUE, rows, {})
    assert (judgement.usable, judgement.bad) == ({}, ())


def select(rows: list[ConfigRow], vo: str | None) -> dict[str, Value]:
    return in_scope(CATALOGUE, judge_rows(CATALOGUE, rows, {}).usable, vo)


@pytest.mark.parametrize(
    ("key", "component", "vo_values", "vo", "expected"),
    [
        # A key bound to one VO uses the row of that VO, whatever the VO of the task.
        ("NQUEUED_SAT_CAP", "jobbroker", {"atlas": 1, "cms": 2}, "atlas", 1),
        ("NQUEUED_SAT_CAP", "jobbroker", {"atlas": 1, "cms": 2}, "cms", 1),
        ("NQUEUED_SAT_CAP", "jobbroker", {"cms": 2}, "atlas", None),
        ("NQUEUED_SAT_CAP", "jobbroker", {"": 3}, "atlas", 3),
        ("NQUEUED_SAT_CAP", "jobbroker", {None: 3, "atlas": 1}, "atlas", 1),
        # A key in the scope of the task's VO.
        ("STORAGE_MIN_FREE_SIZE", "jobbroker", {"atlas": 1, "cms": 2}, "cms", 2),
        ("STORAGE_MIN_FREE_SIZE", "jobbroker", {"atlas": 1}, "cms", None),
        ("STORAGE_MIN_FREE_SIZE", "jobbroker", {"": 3, "cms": 2}, "cms", 2),
        ("STORAGE_MIN_FREE_SIZE", "jobbroker", {"": 3, "cms": 2}, "atlas", 3),
        ("STORAGE_MIN_FREE_SIZE", "jobbroker", {"cms": 2, "atlas": 1}, None, 1),
        # A key without VO filter: the first VO by name, rows without a VO last.
        ("NQUEUED_NUC_CAP", "taskbrokerage", {"cms": 2, "atlas": 1}, "cms", 1),
        ("NQUEUED_NUC_CAP", "taskbrokerage", {"cms": 2}, "atlas", 2),
        ("NQUEUED_NUC_CAP", "taskbrokerage", {"": 3, "wlcg": 2}, "atlas", 2),
    ],
)
def test_the_row_in_scope_is_chosen_by_vo(
    key: str, component: str, vo_values: dict[str | None, int], vo: str | None, expected: int | None
) -> None:
    rows = [row(key, str(value), vo=row_vo, component=component) for row_vo, value in vo_values.items()]
    for ordering in (rows, rows[::-1]):
        assert select(ordering, vo).get(key) == expected


def test_contradictions_name_both_keys() -> None:
    assert contradictions(CATALOGUE, {}) == ()
    assert contradictions(CATALOGUE, {"NQUEUED_SAT_CAP": 10_000}) == ()
    (sentence,) = contradictions(CATALOGUE, {"NQUEUED_SAT_CAP": 10_001})
    assert "NQUEUED_SAT_CAP = 10001" in sentence
    assert "NQUEUED_NUC_CAP_FOR_JOBS = 10000" in sentence
    assert contradictions(CATALOGUE, {"NQUEUED_SAT_CAP": 10_001, "NQUEUED_NUC_CAP_FOR_JOBS": 10_001}) == ()
    assert len(contradictions(CATALOGUE, {"NQUEUED_NUC_CAP_FOR_JOBS": 1})) == 1
    assert contradictions(CATALOGUE, {"NQUEUED_NUC_CAP_FOR_JOBS": 0}) == ()  # a limit of 0 closes everything anyway


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("NQUEUED_SAT_CAP", "200", 200),
        *((key, "0", 0) for key in ("NQUEUED_SAT_CAP", "NQUEUED_NUC_CAP_FOR_JOBS", "NQUEUED_NUC_CAP")),
        ("NQUEUED_SAT_CAP", "200.0", 200),
        ("NW_THRESHOLD", "1.5", 1.5),
        ("NW_THRESHOLD", "2", 2),
        ("NW_ACTIVE", "False", False),
        ("NW_ACTIVE", " true ", True),
    ],
)
def test_from_text_converts_by_the_type_of_the_key(key: str, text: str, value: Value) -> None:
    result = from_text(CATALOGUE.require(key), text)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("NQUEUED_SAT_CAP", "many"),
        ("NQUEUED_SAT_CAP", "1.5"),
        ("NQUEUED_SAT_CAP", ""),
        ("NQUEUED_SAT_CAP", "-1"),
        ("NQUEUED_SAT_CAP", "9" * 5000),
        ("NW_THRESHOLD", "nan"),
        ("NW_THRESHOLD", "1e999"),
        ("NW_ACTIVE", "yes"),
        ("NW_ACTIVE", "1"),
    ],
)
def test_from_text_refuses_with_key_and_type(key: str, text: str) -> None:
    with pytest.raises(ValueRefusedError, match=f"{key} takes") as error:
        from_text(CATALOGUE.require(key), text)
    assert len(str(error.value)) < 250


numbers = st.one_of(st.integers(0, 10**12), st.floats(0, 1e12, allow_nan=False))


@given(numbers)
def test_a_written_value_is_read_back(value: float) -> None:
    entry = CATALOGUE.require("SIZE_CUTOFF_TO_MOVE_INPUT")
    config_row = row_of(entry, entry.key, "atlas", value)
    assert judge_rows(CATALOGUE, [config_row], {}).usable == {config_row.row_id: value}


@given(st.text(max_size=300), st.sampled_from(["int", "float", "bool", "str", "json", "", "x"]))
def test_any_row_is_used_or_reported(text: str, kind: str) -> None:
    for entry in CATALOGUE:
        name = entry.key if not entry.is_family or entry.bare else f"{entry.key}_a"
        candidate = ConfigRow(entry.app, entry.component, name, "atlas", text, kind)
        judgement = judge_rows(CATALOGUE, [candidate], {})
        assert (candidate.row_id in judgement.usable) != bool(judgement.bad)
        for value in judgement.usable.values():
            assert not isinstance(value, float) or math.isfinite(value)
