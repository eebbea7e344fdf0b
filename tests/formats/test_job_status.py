from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.formats.model.feature_keys import BadTextError
from broker.formats.model.job_status import KEYS, JobStatus, Payload, parse, reckon, record_of, texts_of
from tests.formats.contract_cases import cases, contents

DOCUMENT = cases("job_status")
NOW = 1_700_000_000


@pytest.mark.parametrize("case", DOCUMENT["formulas"], ids=lambda case: case["what"])
def test_the_formulas(case: dict[str, Any]) -> None:
    status = parse(contents({**DOCUMENT["record"], **case["record"]}))
    reckoning = reckon(status, case["allocated_cpu"], case["now"])
    result = {**DOCUMENT["gives"], **case["gives"]}
    assert dataclasses.asdict(reckoning.result) == result
    assert dataclasses.asdict(reckoning.formula_without_limits) == {**result, **case["plain"]}
    assert list(reckoning.flags) == case["flags"]


@pytest.mark.parametrize("case", DOCUMENT["pilots"], ids=lambda case: case["what"])
def test_what_a_pilot_publishes(case: dict[str, Any]) -> None:
    record = record_of([Payload(**one) for one in case["payloads"]], case["allocated_cpu"])
    assert record == case["files"]
    result = reckon(parse(contents(texts_of(record))), case["allocated_cpu"], case["now"]).result
    assert (result.draining_waste, result.kill_waste) == (case["draining_waste"], case["kill_waste"])


def test_of_a_stale_record_only_absolute_times_count() -> None:
    status = parse(contents(DOCUMENT["record"]), stale=True)
    reckoning = reckon(status, 8, NOW)
    assert (reckoning.result.remaining_time, reckoning.result.remaining_time_max) == (4000, 9000)
    assert (reckoning.result.draining_waste, reckoning.result.kill_waste) == (None, None)
    assert reckoning.flags == ("record:stale",)


def test_no_files_no_figures() -> None:
    reckoning = reckon(JobStatus(flags=("directory:missing",)), 8, NOW)
    assert set(dataclasses.asdict(reckoning.result).values()) == {None}
    assert reckoning.flags == ("directory:missing",)


@pytest.mark.parametrize("values", [{"used_cpu": 1}, {"used_CPU": -1}, {"can_postpone_last_job": 1}])
def test_a_record_that_nobody_could_read_is_not_written(values: dict[str, int]) -> None:
    with pytest.raises(BadTextError):
        texts_of(values)


PAYLOADS = st.lists(
    st.builds(
        lambda cores, start, length, extra, saved: Payload(
            cores, start, start + length, start + length + extra, None if saved is None else start + saved
        ),
        st.integers(1, 4),
        st.integers(NOW - 10_000, NOW),
        st.integers(10_000, 50_000),
        st.integers(0, 1000),
        st.none() | st.integers(0, 5000),
    ),
    min_size=1,
    max_size=5,
)


@given(payloads=PAYLOADS, spare=st.integers(0, 4))
def test_the_formulas_give_the_sums_over_the_payloads(payloads: list[Payload], spare: int) -> None:
    allocated = sum(one.cores for one in payloads) + spare
    plain = reckon(parse(contents(texts_of(record_of(payloads, allocated)))), allocated, NOW).formula_without_limits
    last_end = max(one.exp_end for one in payloads)
    saved = [one.start if one.committed_until is None else one.committed_until for one in payloads]
    idle = allocated * (last_end - NOW) - sum(one.cores * (one.exp_end - NOW) for one in payloads)
    assert plain.draining_waste == idle
    assert plain.kill_waste == sum(one.cores * (NOW - until) for one, until in zip(payloads, saved, strict=True))


@given(st.dictionaries(st.sampled_from(KEYS), st.binary(max_size=25)), st.none() | st.integers(1, 64))
def test_no_record_raises_and_no_figure_is_negative(files: dict[str, bytes], allocated: int | None) -> None:
    result = reckon(parse(files), allocated, NOW).result
    assert all(value is None or value >= 0 for value in dataclasses.asdict(result).values())
