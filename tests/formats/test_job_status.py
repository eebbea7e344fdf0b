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
def test_the_record_of_a_pilot(case: dict[str, Any]) -> None:
    record = record_of([Payload(**values) for values in case["payloads"]], case["allocated_cpu"])
    assert record == case["files"]
    result = reckon(parse(contents(texts_of(record))), case["allocated_cpu"], case["now"]).result
    assert (result.draining_waste, result.kill_waste) == (case["draining_waste"], case["kill_waste"])


def test_only_absolute_times_of_a_stale_record_count() -> None:
    status = parse(contents(DOCUMENT["record"]), stale=True)
    reckoning = reckon(status, 8, NOW)
    assert (reckoning.result.remaining_time, reckoning.result.remaining_time_max) == (4000, 9000)
    assert (reckoning.result.draining_waste, reckoning.result.kill_waste) == (None, None)
    assert reckoning.flags == ("record:stale",)


def test_without_files_there_are_no_figures() -> None:
    reckoning = reckon(JobStatus(flags=("directory:missing",)), 8, NOW)
    assert set(dataclasses.asdict(reckoning.result).values()) == {None}
    assert reckoning.flags == ("directory:missing",)


@pytest.mark.parametrize("values", [{"used_cpu": 1}, {"used_CPU": -1}, {"can_postpone_last_job": 1}])
def test_an_unreadable_record_is_not_written(values: dict[str, int]) -> None:
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
    allocated_cores = sum(payload.cores for payload in payloads) + spare
    result = reckon(
        parse(contents(texts_of(record_of(payloads, allocated_cores)))), allocated_cores, NOW
    ).formula_without_limits
    last_end = max(payload.exp_end for payload in payloads)
    commit_times = [
        payload.start if payload.committed_until is None else payload.committed_until for payload in payloads
    ]
    idle = allocated_cores * (last_end - NOW) - sum(payload.cores * (payload.exp_end - NOW) for payload in payloads)
    assert result.draining_waste == idle
    assert result.kill_waste == sum(
        payload.cores * (NOW - until) for payload, until in zip(payloads, commit_times, strict=True)
    )


@given(st.dictionaries(st.sampled_from(KEYS), st.binary(max_size=25)), st.none() | st.integers(1, 64))
def test_no_record_raises_and_no_figure_is_negative(files: dict[str, bytes], allocated_cores: int | None) -> None:
    result = reckon(parse(files), allocated_cores, NOW).result
    assert all(value is None or value >= 0 for value in dataclasses.asdict(result).values())
