"""Packed repeats of decisions in a cycle are small if nothing changes."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given, settings, strategies as st

from broker.codec.compression import DICTIONARY, pack_alike, pack_work, window_bits
from broker.codec.repeats import (
    NEW,
    Body,
    RepeatsCorruptError,
    changed,
    changes_by_place,
    pack_changes,
    pack_pattern,
    unpack_pattern,
)

PARTS = st.none() | st.binary(max_size=60)
WORK = st.binary(max_size=60)
BODIES = st.builds(
    Body, PARTS, PARTS, PARTS | WORK.map(pack_work) | st.builds(pack_alike, WORK, st.sampled_from((13, 15)))
)


@settings(max_examples=80)
@given(st.lists(st.just(NEW) | st.integers(1, 2**62), max_size=30))
def test_a_pattern_is_lossless(pattern: list[int]) -> None:
    assert unpack_pattern(pack_pattern(pattern)).tolist() == pattern


def test_the_pattern_of_a_quiet_cycle_of_10000_chunks_takes_less_than_200_bytes() -> None:
    assert len(pack_pattern(range(10**9, 10**9 + 10_000))) < 200


@settings(max_examples=80)
@given(BODIES, BODIES)
def test_a_change_gives_the_later_body(before: Body, now: Body) -> None:
    packed = pack_changes({3: (before, now), 7: (now, before)})
    changes = changes_by_place(packed)
    assert list(changes) == [3, 7]
    assert changed(before, changes[3]) == now
    assert changed(now, changes[7]) == before


def test_work_that_differs_in_one_number_takes_less_than_100_bytes() -> None:
    def work(placed: int) -> bytes:
        body = {"c": {f"column_{number}": [number * 7919 % 10_007] for number in range(150)}, "placed": {"Q": placed}}
        return pack_work(json.dumps(body).encode())

    before, now = Body(b"[]", None, work(5)), Body(b"[]", None, work(12))
    packed = pack_changes({0: (before, now)})
    assert packed is not None and len(packed) < 100 < len(work(5))
    assert changed(before, changes_by_place(packed)[0]) == now


def packed_by_older_releases(text: bytes) -> bytes:
    packer = zlib.compressobj(6, zdict=DICTIONARY)
    return packer.compress(text) + packer.flush()


def test_changes_of_older_releases_are_read() -> None:
    """They used one window for all work, and its plain text after a 1."""
    before, now = (Body(b"[]", None, packed_by_older_releases(text)) for text in (b'{"c":1}', b'{"c":2}'))
    assert before.work is not None and window_bits(before.work) == 15
    sizes = b"\x02\0\0\0" + b"\xff\xff\xff\xff" + b"\x07\0\0\0"
    joined = [b"\x01" + sizes + b"[]" + text for text in (b'{"c":1}', b'{"c":2}')]
    assert [before.joined(), now.joined()] == joined
    packer = zlib.compressobj(6, zdict=joined[0])
    assert changed(before, packer.compress(joined[1]) + packer.flush()) == now


def test_a_change_that_an_older_release_wrote_over_newer_work_is_read() -> None:
    """It left work of the narrow window packed, after a 0."""
    before, now = Body(b"[]", None, pack_work(b'{"c":1}')), Body(b"[]", b"r", packed_by_older_releases(b'{"c":2}'))
    assert before.work is not None
    sizes = b"\x02\0\0\0" + b"\xff\xff\xff\xff" + len(before.work).to_bytes(4, "little")
    packer = zlib.compressobj(6, zdict=b"\0" + sizes + b"[]" + before.work)
    assert changed(before, packer.compress(now.joined()) + packer.flush()) == now


@pytest.mark.parametrize(("windows", "version"), [((15, 15), 1), ((13, 15), 2), ((15, 13), 2), ((13, 13), 2)])
def test_changes_unreadable_for_older_releases_have_version_2(windows: tuple[int, int], version: int) -> None:
    before, now = (Body(b"[]", None, pack_alike(b"work", bits)) for bits in windows)
    packed = pack_changes({0: (before, now)})
    assert packed is not None and packed[0] == version
    assert changed(before, changes_by_place(packed)[0]) == now


def test_short_work_is_packed_in_a_small_window_and_long_work_in_a_large_one() -> None:
    short_work, long_work = (pack_work(b"x" * size) for size in (8192, 8193))
    assert (window_bits(short_work), window_bits(long_work)) == (13, 15)
    assert Body(None, None, short_work).joined()[0] == 2 and Body(None, None, long_work).joined()[0] == 1
    with pytest.raises(ValueError, match="12"):
        pack_alike(b"", 12)


def test_a_change_with_an_unknown_header_is_refused() -> None:
    before = Body(b"[]", None, b"w")
    joined = b"\x07" + Body(b"[]", None, b"v").joined()[1:]
    packer = zlib.compressobj(6, zdict=before.joined())
    with pytest.raises(RepeatsCorruptError, match="begins with 7"):
        changed(before, packer.compress(joined) + packer.flush())


def test_no_changes_take_no_bytes() -> None:
    assert pack_changes({}) is None and changes_by_place(None) == {}


GOOD = pack_pattern([5, NEW, 9])


@pytest.mark.parametrize("data", [b"", b"\x09" + GOOD[1:], GOOD[:-2], GOOD[:1] + zlib.compress(b"\x03\0\0\0\xa0abc")])
def test_damaged_patterns_are_refused(data: bytes) -> None:
    with pytest.raises(RepeatsCorruptError):
        unpack_pattern(data)


def test_damaged_changes_are_refused() -> None:
    before, after = Body(b"[1]", None, b"w"), Body(b"[2]", b"r", b"v")
    packed = pack_changes({0: (before, after)})
    assert packed is not None
    for damaged_changes in (b"", b"\x05" + packed[1:], packed[:-1]):
        with pytest.raises(RepeatsCorruptError):
            changes_by_place(damaged_changes)
    (difference,) = changes_by_place(packed).values()
    for damaged_difference in (difference[:-9], b"abc"):
        with pytest.raises(RepeatsCorruptError):
            changed(before, damaged_difference)
    with pytest.raises(RepeatsCorruptError):
        changed(Body(b"[3]", None, b"other"), difference)
