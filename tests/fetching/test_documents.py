"""Parsing of bytes to documents: what is refused as a whole, and which records are marked as faulty."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, strategies as st

from broker.fetching.documents import Document, DocumentRefused, RepeatedKeys, parse, unusable


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty"),
        (b"  \n ", "empty"),
        (b"<!DOCTYPE html><html><body>Log in</body></html>", "html"),
        (b"\n <HTML>", "html"),
        (b'{"a": {"b": 1}', "not_json"),
        (b'{"a": 1} trailing', "not_json"),
        (b"\xff\xfe{}", "not_utf8"),
        (b"[" * 100_000, "too_deep"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "too_deep"),
        (b'{"a": ' + b"1" * 5000, "not_json"),
    ],
)
def test_invalid_documents_are_refused(data: bytes, code: str) -> None:
    with pytest.raises(DocumentRefused) as refused:
        parse(data, "queues")
    assert refused.value.code == code
    assert refused.value.exit_status == 3


@pytest.mark.parametrize(("size", "is_refused"), [(20, False), (21, True)])
def test_the_size_is_limited(size: int, is_refused: bool) -> None:
    data = b'{"a": "' + b"x" * (size - 9) + b'"}'
    assert len(data) == size
    if not is_refused:
        assert parse(data, "queues", 20).records()
        return
    with pytest.raises(DocumentRefused) as error:
        parse(data, "queues", 20)
    assert error.value.code == "too_large"


@pytest.mark.parametrize(
    ("content", "code"), [([], "wrong_type"), ("x", "wrong_type"), (None, "wrong_type"), ({}, "empty")]
)
def test_records_need_an_object(content: object, code: str) -> None:
    with pytest.raises(DocumentRefused) as refused:
        Document(content, "queues").records()
    assert refused.value.code == code


@pytest.mark.parametrize(("content", "code"), [({}, "wrong_type"), (7, "wrong_type"), ([], "empty")])
def test_items_need_a_list(content: object, code: str) -> None:
    with pytest.raises(DocumentRefused) as refused:
        Document(content, "closeness").items()
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a": 1, "b": "x"}', ""),
        ('{"a": NaN}', "not_finite"),
        ('{"a": [1, -Infinity]}', "not_finite"),
        ('{"a": 1e400}', "not_finite"),
        ('{"a": ' + "9" * 400 + "}", "not_finite"),
        ('{"a": 9223372036854775807}', ""),
        ('{"a": {"x": 1, "x": 2}}', "duplicate_key"),
        ('{"a": "\\u0000"}', "not_text"),
        ('{"a": "\\ud800"}', "not_text"),
        ('{"\\udfff": 1}', "not_text"),
        ('{"a": "\\u00e9\\ud83d\\ude00"}', ""),
    ],
)
def test_faults_inside_a_record_are_found(text: str, code: str) -> None:
    document = parse(f'{{"one": {text}, "two": {{}}}}'.encode(), "queues")
    assert document.fault_of(document.records()["one"]) == code
    assert document.fault_of(document.records()["two"]) == ""


def test_repeated_names_are_known() -> None:
    document = parse(b'{"a": {}, "b": {}, "a": {"x": 1}}', "queues")
    assert isinstance(document.content, RepeatedKeys)
    assert document.repeated == {"a"} and set(document.records()) == {"a", "b"}
    assert parse(b'{"a": {}}', "queues").repeated == frozenset()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


def has_fault(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, str):
        return any(character == "\0" or "\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return any(has_fault(key) or has_fault(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(has_fault, value))


@pytest.mark.slow
@given(JSON)
def test_a_record_is_unusable_exactly_if_a_part_of_it_is(value: object) -> None:
    document = parse(json.dumps({"one": value}).encode(), "queues")
    assert bool(document.fault_of(document.records()["one"])) == has_fault(value) == bool(unusable(value))


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    try:
        parse(data, "queues")
    except DocumentRefused as refused:
        assert refused.code in {"empty", "html", "not_utf8", "not_json", "too_deep"}
