from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from broker.formats.model.job_status import KEYS, POSTPONE, Written, with_hold_off

NOW = 1_700_000_000
BEFORE = {"used_CPU": "6", "last_exp_job_end": "3000", POSTPONE: "False"}
WANTED = {"used_CPU": "4", "last_exp_job_end": "9000", "priority_factor": "1", POSTPONE: "True"}


def test_a_turn_back_to_true_is_all_that_is_written() -> None:
    assert with_hold_off(BEFORE, WANTED, None, NOW, 600) == Written(
        {**BEFORE, POSTPONE: "True"}, ("last_exp_job_end", "priority_factor", "used_CPU"), NOW, NOW + 600
    )


@pytest.mark.parametrize(
    ("before", "wanted", "reverted", "hold_off_s", "held"),
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
def test_when_other_values_are_held(
    before: str | None, wanted: str | None, reverted: int | None, hold_off_s: int, held: bool
) -> None:
    there = {"used_CPU": "6", **({} if before is None else {POSTPONE: before})}
    new = {"used_CPU": "4", **({} if wanted is None else {POSTPONE: wanted})}
    written = with_hold_off(there, new, reverted, NOW, hold_off_s)
    assert written.texts.get(POSTPONE) == wanted
    assert written.texts["used_CPU"] == ("6" if held else "4")
    assert written.held == (("used_CPU",) if held else ())
    assert (written.until is not None) == held


TEXTS = st.dictionaries(st.sampled_from([key for key in KEYS if key != POSTPONE]), st.sampled_from("123"))
TRUTH = st.sampled_from([{}, {POSTPONE: "True"}, {POSTPONE: "False"}])


@given(TEXTS, TRUTH, TEXTS, TRUTH, st.none() | st.integers(NOW - 1000, NOW + 10))
def test_what_is_written_is_the_one_record_or_the_other(
    before: dict[str, str], was: dict[str, str], wanted: dict[str, str], is_: dict[str, str], reverted: int | None
) -> None:
    written = with_hold_off(before | was, wanted | is_, reverted, NOW, 600)
    others = {key: text for key, text in written.texts.items() if key != POSTPONE}
    assert others == (wanted if written.until is None else before)
    assert written.texts.get(POSTPONE) == is_.get(POSTPONE)
    assert (written.reverted is None) == (written.until is None)
