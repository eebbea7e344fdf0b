"""Raw sources are encoded as bytes and decoded."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from broker.snapshot import raw
from broker.snapshot.raw import RawSource, Rows, SnapshotCorruptError, decode, encode

NOW = datetime(2026, 8, 1, 12, 0, 0, 250, tzinfo=UTC)


def source(*values: tuple[object, ...], name: str = "links", newest: datetime | None = NOW) -> RawSource:
    return RawSource(name, {"t": Rows(("a", "b"), values)}, newest)


def test_encoding_round_trip() -> None:
    stored = source((1, "x"), (None, 2.5), (True, "\ud800\0"), (NOW, [1, {"k": "v"}]), ("{}", "[" * 10))
    digest, data = encode(stored)
    assert decode(digest, data) == stored


def test_decoded_times_are_aware_and_decimals_are_floats() -> None:
    decoded = decode(*encode(source((NOW.replace(tzinfo=None), Decimal("1.25")), newest=None)))
    assert decoded.rows("t").values == ((NOW, 1.25),)
    assert decoded.newest is None


VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just(NOW)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=5))
def test_encoding_round_trip_of_any_rows(values: list[tuple[object, object]]) -> None:
    stored = source(*values)
    assert decode(*encode(stored)) == stored


def test_equal_content_has_equal_bytes_in_any_order_of_tables() -> None:
    first, second = Rows(("a",), ((1,),)), Rows(("b",), ((2,),))
    assert encode(RawSource("s", {"one": first, "two": second})) == encode(
        RawSource("s", {"two": second, "one": first})
    )


@pytest.mark.parametrize(
    "changed_source",
    [
        source((1, 3)),
        source((1, 2), (1, 2)),
        source((1, 2), name="jobs"),
        source((1, 2), newest=None),
        source(("1", 2)),
        source((1, None)),
    ],
)
def test_different_content_has_a_different_digest(changed_source: RawSource) -> None:
    assert encode(changed_source)[0] != encode(source((1, 2)))[0]


def test_content_under_a_wrong_digest_is_refused() -> None:
    digest, data = encode(source((1, 2)))
    with pytest.raises(SnapshotCorruptError, match=digest[:12]):
        decode(digest, encode(source((1, 3)))[1])
    for damaged in (data[:-3], b"", b"no zlib", data[:5] + b"\x00" + data[6:]):
        with pytest.raises(SnapshotCorruptError):
            decode(digest, damaged)


def test_a_compression_bomb_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "MAX_SOURCE_BYTES", 100_000)
    digest, small = encode(source(("x" * 90_000, 1)))
    assert decode(digest, small).row_count == 1
    digest, bomb = encode(source(("x" * 100_000, 1)))
    assert len(bomb) < 1000
    with pytest.raises(SnapshotCorruptError):
        decode(digest, bomb)
    with pytest.raises(SnapshotCorruptError):
        decode(digest, zlib.compress(b"0" * 50_000_000))


def test_a_value_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold a set"):
        encode(source(({1}, 1)))


def test_rows() -> None:
    rows = source((1, 2), (3, 4))
    assert rows.row_count == 2
    assert list(rows.rows("t").records()) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert len(rows.rows("not there")) == 0
