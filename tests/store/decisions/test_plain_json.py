"""JSON with external names, in the form that a jsonb column accepts."""

from __future__ import annotations

from hypothesis import given, strategies as st

from broker.store.decisions.legends import clean_counts, clean_json

NAMES = st.text(max_size=4) | st.sampled_from(["A/SCORE", 'q"\\', "\0", "\ud800", "ü", "\x7f"])


@given(st.dictionaries(NAMES, st.integers(-(2**70), 2**70) | st.sampled_from([True, 2.5]), max_size=4))
def test_counts_give_the_same_json_as_any_value(counts: dict[str, int]) -> None:
    assert clean_counts(counts) == clean_json(counts)
