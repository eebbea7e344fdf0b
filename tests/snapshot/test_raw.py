"""Raw sources as bytes and back."""

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


def test_what_is_stored_comes_back() -> None:
    stored = source((1, "x"), (None, 2.5), (True, "\ud800\0"), (NOW, [1, {"k": "v"}]), ("{}", "[" * 10))
    digest, data = encode(stored)
    assert decode(digest, data) == stored


def test_times_come_back_aware_and_decimals_as_floats() -> None:
    back = decode(*encode(source((NOW.replace(tzinfo=None), Decimal("1.25")), newest=None)))
    assert back.rows("t").values == ((NOW, 1.25),)
    assert back.newest is None


VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just(NOW)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=5))
def test_any_rows(values: list[tuple[object, object]]) -> None:
    stored = source(*values)
    assert decode(*encode(stored)) == stored


def test_equal_content_has_equal_bytes_whatever_the_order_of_tables() -> None:
    one, two = Rows(("a",), ((1,),)), Rows(("b",), ((2,),))
    assert encode(RawSource("s", {"one": one, "two": two})) == encode(RawSource("s", {"two": two, "one": one}))


@pytest.mark.parametrize(
    "other",
    [
        source((1, 3)),
        source((1, 2), (1, 2)),
        source((1, 2), name="jobs"),
        source((1, 2), newest=None),
        source(("1", 2)),
        source((1, None)),
    ],
)
def test_another_content_has_another_digest(other: RawSource) -> None:
    assert encode(other)[0] != encode(source((1, 2)))[0]


def test_content_under_a_wrong_digest_is_refused() -> None:
    digest, data = encode(source((1, 2)))
    with pytest.raises(SnapshotCorruptError, match=digest[:12]):
        decode(digest, encode(source((1, 3)))[1])
    for damaged in (data[:-3], b"", b"no zlib", data[:5] + b"\x00" + data[6:]):
        with pytest.raises(SnapshotCorruptError):
            decode(digest, damaged)


def test_a_bomb_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "MAX_SOURCE_BYTES", 100_000)
    digest, small = encode(source(("x" * 90_000, 1)))
    assert decode(digest, small).row_count == 1
    digest, bomb = encode(source(("x" * 100_000, 1)))
    assert len(bomb) < 1000
    with pytest.raises(SnapshotCorruptError):
        decode(digest, bomb)
    with pytest.raises(SnapshotCorruptError):
        decode(digest, zlib.compress(b"0" * 50_000_000))


def test_a_value_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold a set"):
        encode(source(({1}, 1)))


def test_rows() -> None:
    rows = source((1, 2), (3, 4))
    assert rows.row_count == 2
    assert list(rows.rows("t").records()) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert len(rows.rows("not there")) == 0
