from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from broker.formats.model.job_status import KEYS, POSTPONE, RecordUpdate, with_hold_off

NOW = 1_700_000_000
BEFORE = {"used_CPU": "6", "last_exp_job_end": "3000", POSTPONE: "False"}
WANTED = {"used_CPU": "4", "last_exp_job_end": "9000", "priority_factor": "1", POSTPONE: "True"}


def test_only_the_turn_back_to_true_is_written() -> None:
    assert with_hold_off(BEFORE, WANTED, None, NOW, 600) == RecordUpdate(
        {**BEFORE, POSTPONE: "True"}, ("last_exp_job_end", "priority_factor", "used_CPU"), NOW, NOW + 600
    )


@pytest.mark.parametrize(
    ("old_flag", "new_flag", "reverted_at", "hold_off_s", "is_held"),
    [
        ("False", "True", None, 600, True),
        ("False", "True", None, 0, False),
        ("False", "False", None, 600, False),
        ("True", "True", None, 600, False),
        ("True", "False", None, 600, False),
        (None, "True", None, 600, False),
        ("True", "True", NOW - 599, 600, True),
        ("True", "True", NOW - 600, 600, False),
        ("True", "False", NOW - 599, 600, True),
        ("True", None, NOW - 599, 600, True),
        ("True", "True", NOW + 1, 600, False),
        ("False", "True", NOW - 5000, 600, True),
        ("True", "True", NOW - 29, 30, True),
        ("True", "True", NOW - 30, 30, False),
    ],
)
def test_when_other_values_are_held_off(
    old_flag: str | None, new_flag: str | None, reverted_at: int | None, hold_off_s: int, is_held: bool
) -> None:
    old_record = {"used_CPU": "6", **({} if old_flag is None else {POSTPONE: old_flag})}
    new_record = {"used_CPU": "4", **({} if new_flag is None else {POSTPONE: new_flag})}
    result = with_hold_off(old_record, new_record, reverted_at, NOW, hold_off_s)
    assert result.texts.get(POSTPONE) == new_flag
    assert result.texts["used_CPU"] == ("6" if is_held else "4")
    assert result.held == (("used_CPU",) if is_held else ())
    assert (result.until is not None) == is_held


TEXTS = st.dictionaries(st.sampled_from([key for key in KEYS if key != POSTPONE]), st.sampled_from("123"))
TRUTH = st.sampled_from([{}, {POSTPONE: "True"}, {POSTPONE: "False"}])


@given(TEXTS, TRUTH, TEXTS, TRUTH, st.none() | st.integers(NOW - 1000, NOW + 10))
def test_either_the_old_or_the_new_record_is_written(
    old_record: dict[str, str],
    old_flag: dict[str, str],
    new_record: dict[str, str],
    new_flag: dict[str, str],
    reverted_at: int | None,
) -> None:
    result = with_hold_off(old_record | old_flag, new_record | new_flag, reverted_at, NOW, 600)
    others = {key: text for key, text in result.texts.items() if key != POSTPONE}
    assert others == (new_record if result.until is None else old_record)
    assert result.texts.get(POSTPONE) == new_flag.get(POSTPONE)
    assert (result.reverted is None) == (result.until is None)
