"""Packed decisions: nothing is lost, what is damaged is refused, and they are small."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from broker.codec.packed_candidates import (
    CandidatesCorruptError,
    pack_candidates,
    pack_named_candidates,
    unpack_candidates,
    unpack_places,
)
from broker.codec.packed_reasons import (
    FEASIBLE,
    NOT_A_CANDIDATE,
    FunnelSteps,
    Reasons,
    ReasonsCorruptError,
    RejectedNames,
    group_steps,
    pack_named,
    pack_reasons,
    unpack_reasons,
)
from broker.codec.packed_remarks import Notes, Remarks, RemarksCorruptError, pack_remarks, unpack_remarks
from broker.codec.runs import pack_runs, pack_small, unpack_codes, unpack_runs, unpack_small
from broker.domain.chosen_candidates import ChosenCandidates, Legend, LegendCorruptError, no_candidates
from broker.domain.decisions import Candidate, FunnelStep


def legend(groups: Sequence[str], codes: int = 4, factors: Sequence[str] = ()) -> Legend:
    """Candidates ``GROUP/NUMBER`` and codes ``c0``, ``c1``, ...; the funnel goes backwards, departures in pairs."""
    return Legend(
        names=tuple(f"{group}/{number}" for number, group in enumerate(groups)),
        groups=tuple(groups),
        codes=tuple(f"c{number}" for number in range(codes)),
        order=tuple(reversed(range(codes))),
        departure=tuple(number // 2 for number in range(codes)),
        factors=tuple(factors),
        stats=("nQ", "nR"),
        remark="seen",
    )


@st.composite
def judged(draw: st.DrawFn) -> Reasons:
    groups = draw(st.lists(st.sampled_from("ABCD"), min_size=1, max_size=12))
    codes = draw(st.sampled_from([1, 4, 300]))
    positions = draw(st.lists(st.integers(-2, codes - 1), min_size=len(groups), max_size=len(groups)))
    each = draw(st.sampled_from([1, 30]))
    groups, positions = (np.repeat(column, each).tolist() for column in (groups, positions))
    blocked = draw(st.sampled_from(["", "throttled"]))
    refused = draw(st.dictionaries(st.sampled_from(["A", "Z", "A/0"]), st.just("unknown"), max_size=2))
    return Reasons(legend(groups, codes), np.array(positions, dtype=np.int16), blocked, refused)


def rejected_one_by_one(reasons: Reasons) -> dict[str, str]:
    """Name by name, as the specification has it."""
    names, groups, codes = reasons.legend.names, reasons.legend.groups, reasons.legend.codes
    position = reasons.position.tolist()
    alive = {group for group, step in zip(groups, position, strict=True) if step == FEASIBLE}
    found, last = {}, {}
    for name, group, step in zip(names, groups, position, strict=True):
        if step < 0:
            continue
        found[name] = codes[step]
        later = reasons.legend.departure[step] >= reasons.legend.departure[last.get(group, step)]
        if group not in alive and later:
            last[group] = step
    for group, step in last.items():
        found.setdefault(group, codes[step])
    if reasons.blocked:
        found |= {name: reasons.blocked for name, step in zip(names, position, strict=True) if step == FEASIBLE}
    return found | dict(reasons.refused)


@settings(max_examples=150)
@given(judged())
def test_reasons_come_back_with_names_and_a_funnel_that_adds_up(reasons: Reasons) -> None:
    again = unpack_reasons(reasons.legend, pack_reasons([reasons])[0])
    assert again.rejected == reasons.rejected == rejected_one_by_one(reasons)
    assert again.funnel == reasons.funnel
    left, start = int((reasons.position == FEASIBLE).sum()), int((reasons.position >= FEASIBLE).sum())
    for step in again.funnel:
        assert step.before == start
        start = step.after
    assert start == (0 if reasons.blocked else left)


@settings(max_examples=50)
@given(judged())
def test_groups_of_many_decisions_at_once_are_those_of_each_alone(reasons: Reasons) -> None:
    rows = np.stack([reasons.position, np.roll(reasons.position, 1), np.full_like(reasons.position, FEASIBLE)])
    together = group_steps(reasons.legend, rows)
    for row, steps in zip(rows, together, strict=True):
        assert (group_steps(reasons.legend, row[None, :])[0] == steps).all()
    assert (together[2] == FEASIBLE).all()


def test_a_mapping_and_a_sequence_that_equal_plain_ones() -> None:
    reasons = Reasons(legend("AAB"), np.array([1, FEASIBLE, NOT_A_CANDIDATE]))
    assert RejectedNames(reasons) == {"A/0": "c1"} == dict(RejectedNames(reasons))
    assert FunnelSteps(reasons) == (FunnelStep("c1", 2, 1),)
    assert FunnelSteps(reasons) != (FunnelStep("c1", 2, 0),)
    assert (len(FunnelSteps(reasons)), FunnelSteps(reasons)[0].before) == (1, 2)


def test_the_reasons_of_780_candidates_take_less_than_400_bytes_instead_of_24_000() -> None:
    random = np.random.default_rng(1)
    groups = [f"QUEUE_WITH_A_NAME_{number // 4:03d}" for number in range(780)]
    # as on a real grid: most of a site go together, by a dozen of codes
    position = np.repeat(random.integers(0, 12, 260), 3).astype(np.int16)
    position[random.integers(0, 780, 40)] = random.integers(0, 12, 40)
    reasons = Reasons(legend(groups, 70), position)
    packed = pack_reasons([reasons])[0]
    assert len(packed) < 400 < 24_000 < len(json.dumps(reasons.rejected))
    assert unpack_reasons(reasons.legend, packed).rejected == reasons.rejected


BY_KIND = Legend(
    names=tuple(f"SITE_{number:02d}/{kind}" for number in range(20) for kind in ("MCORE", "SCORE")),
    codes=tuple(f"c{number}" for number in range(300)),
)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(-2, 290), st.integers(1, 9)), min_size=1, max_size=12), st.integers(0, 2))
def test_what_became_of_candidates_of_one_kind_is_kept_as_runs(runs: list[tuple[int, int]], moved: int) -> None:
    numbers = np.repeat([code for code, _ in runs], [size for _, size in runs])
    position = np.full(40, FEASIBLE, dtype=np.int16)
    position[BY_KIND.by_kind[: len(numbers)]] = numbers[:40]
    batch = [Reasons(BY_KIND, np.roll(position, moved * at)) for at in range(3)]
    packed = pack_reasons(batch)
    for one, data in zip(batch, packed, strict=True):
        assert (unpack_reasons(BY_KIND, data).position == one.position).all()


def test_damaged_runs_of_reasons_are_refused() -> None:
    # every second candidate, so one run for each kind
    packed = pack_reasons([Reasons(BY_KIND, np.arange(40, dtype=np.int16) % 2)])[0]
    assert packed[0] == 2 and len(packed) < 25
    for at in range(len(packed)):
        with pytest.raises(ReasonsCorruptError):
            unpack_reasons(BY_KIND, packed[:at])
        with pytest.raises(ReasonsCorruptError):
            unpack_reasons(BY_KIND, packed[:at] + bytes((packed[at] ^ 0x55,)) + packed[at + 1 :])
    with pytest.raises(ReasonsCorruptError):
        unpack_reasons(legend("AB" * 30), packed)


@pytest.mark.parametrize("data", ["", "00", "01", "0101", "010100", "010101000000", "01010301000005", "0101000200"])
def test_runs_that_say_too_little_are_refused(data: str) -> None:
    with pytest.raises(ValueError, match=r"too early|begin with none|numbers for"):
        unpack_codes(bytes.fromhex(data), 8, np.dtype("u1"))


def test_reasons_of_releases_before_are_read() -> None:
    position = np.array([1] * 9 + [FEASIBLE] * 9 + [3] * 8 + [NOT_A_CANDIDATE], dtype=np.int16)
    stored = b"\x01\x06" + zlib.compress((position + 2).astype("u1").tobytes() + b'{"blocked":"throttled"}', 6)
    again = unpack_reasons(legend("ABC" * 9), stored)
    assert (again.position == position).all() and again.blocked == "throttled"


def test_reasons_known_by_name_alone_need_no_legend() -> None:
    rejected, funnel = {"A": "full", "B": "offline", "C": "full"}, (FunnelStep("offline", 3, 2),)
    again = unpack_reasons(None, pack_named(rejected, funnel))
    assert (again.rejected, again.funnel) == (rejected, funnel)


GOOD = pack_reasons([Reasons(legend("AAB"), np.array([1, FEASIBLE, NOT_A_CANDIDATE]))])[0]


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"", "AAB"),
        (b"\x01", "AAB"),
        (b"\x02" + GOOD[1:], "AAB"),
        (GOOD, "AA"),
        (GOOD, "AABB"),
        (GOOD[:-1], "AAB"),
        (GOOD[:1] + b"\x02" + GOOD[2:], "AAB"),
        (GOOD[:2] + b"\xff" + GOOD[3:], "AAB"),
        (pack_named({"A": "x"}, ())[:-3], "AAB"),
    ],
)
def test_damaged_reasons_are_refused(data: bytes, names: str) -> None:
    with pytest.raises(ReasonsCorruptError):
        unpack_reasons(legend(names), data)


NUMBERS = st.floats(allow_nan=False, allow_infinity=True) | st.sampled_from([0.0, -0.0, 1.0, 1e-300])


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 2), NUMBERS, NUMBERS, NUMBERS, st.booleans()), max_size=20), st.booleans())
def test_candidates_come_back_to_the_bit(rows: list[tuple[int, float, float, float, bool]], weighed: bool) -> None:
    columns = np.array([row[1:4] for row in rows], dtype=np.float64).reshape(-1, 3).T
    chosen = ChosenCandidates(
        np.array([row[0] for row in rows], dtype=np.int64),
        columns[0],
        columns[1:] if weighed else columns[:0],
        np.array([row[4] for row in rows], dtype=np.bool_),
        legend("AAB", factors=("f", "g")),
    )
    packed = pack_candidates([chosen])[0]
    again = unpack_candidates(chosen.legend, packed)
    assert again == tuple(chosen)
    assert repr(again) == repr(chosen if rows else ())  # -0.0 stays -0.0
    assert (packed is None) == (not rows)


def test_a_weight_that_follows_from_its_factors_is_not_stored() -> None:
    factors = np.random.default_rng(1).random((4, 10))
    weight = np.multiply.reduce(factors, axis=0)
    weight[3] = 0.0
    like, bootstrap = legend("AAB", factors=("f", "g", "h", "i")), np.arange(10) == 3
    chosen = ChosenCandidates(np.zeros(10, dtype=np.int64), weight, factors, bootstrap, like)
    other = ChosenCandidates(chosen.place, np.nextafter(weight, 1), factors, bootstrap, like)
    short, long = pack_candidates([chosen])[0], pack_candidates([other])[0]
    assert short is not None and long is not None and len(short) < len(long) - 60
    assert unpack_candidates(like, short) == tuple(chosen)
    assert unpack_candidates(like, long) == tuple(other)


def test_candidates_of_the_first_version_are_read() -> None:
    columns = np.array([[2.5, -0.0], [1.25, 3.0]])
    planes = columns.view("u1").reshape(-1, 8).T.tobytes()
    stored = b"\x01\x00\x02\x00\x01\x00" + zlib.compress(b"\x02\x00\x00\x00" + b"\x00\x01" + planes)
    again = unpack_candidates(legend("AAB", factors=("f",)), stored)
    assert repr(again) == repr((Candidate("B/2", 2.5, {"f": 1.25}), Candidate("A/0", -0.0, {"f": 3.0}, True)))


@pytest.mark.parametrize(
    ("stored", "weights"),
    [
        (
            "02020300020078da636260606004e1b3674080c1014633a08048875030b86a0fe17fb00700d2df0ef1",
            (210.0, 2.1 * (1 / 3), 0.0),
        ),
        (
            "02000300020078da636260606084620686842c076330f86d0fe6337cb03f7b0604181c6034030a8874080583ab70f500e3711396",
            (211.0, 2.1 * (1 / 3) + 1, 1.0),
        ),
    ],
)
def test_candidates_of_the_second_version_are_read(stored: str, weights: Sequence[float]) -> None:
    again = unpack_candidates(legend("AAB", factors=("f", "g")), bytes.fromhex(stored))
    assert again == (
        Candidate("B/2", weights[0], {"f": 2.1, "g": 100.0}),
        Candidate("A/0", weights[1], {"f": 2.1, "g": 1 / 3}),
        Candidate("A/1", weights[2], {"f": 0.0, "g": 1.0}, True),
    )


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans(), st.booleans()), max_size=8))
def test_decisions_packed_together_are_those_packed_alone(shapes: list[tuple[int, int, bool, bool]]) -> None:
    batch = []
    for size, count, product, bootstrap in shapes:
        random = np.random.default_rng(size)
        factors = random.choice([1.0, 2.5, 1 / 3, -0.0, 1e90], (count, size))
        weight = np.multiply.reduce(factors, axis=0) if product else random.random(size)
        like = legend("AAB", factors=("f", "g", "h")[:count])
        where = np.full(size, bootstrap)
        batch.append(ChosenCandidates(np.arange(size) % 3, np.where(where, 0.0, weight), factors, where, like))
    packed = pack_candidates(batch)
    assert packed == [pack_candidates([one])[0] for one in batch]
    for one, data in zip(batch, packed, strict=True):
        again = unpack_candidates(one.legend, data)
        assert (again == tuple(one), repr(again)) == (True, repr(one) if len(one) else "()")
        assert unpack_places(one.legend, data) == tuple(one.place.tolist())


@settings(max_examples=40)
@given(st.lists(judged(), max_size=6))
def test_reasons_packed_together_are_those_packed_alone(batch: list[Reasons]) -> None:
    assert pack_reasons(batch) == [pack_reasons([one])[0] for one in batch]


@settings(max_examples=60)
@given(st.lists(st.lists(NUMBERS | st.just(float("nan")) | st.floats(width=32), max_size=9), max_size=5))
def test_runs_of_figures_keep_every_bit(pieces: list[list[float]]) -> None:
    columns = [np.repeat(np.array(piece, dtype=np.float64), 2) for piece in pieces]
    for column, data in zip(columns, pack_runs(columns), strict=True):
        assert unpack_runs(data, len(column)).tobytes() == column.tobytes()
        with pytest.raises(ValueError, match=r"figures|too early"):
            unpack_runs(data + b"0", len(column))


def test_no_candidates_are_an_empty_sequence() -> None:
    assert no_candidates(legend("A")) == ()
    assert not no_candidates(legend("A"))
    assert unpack_candidates(None, pack_candidates([no_candidates(legend("A"))])[0]) == ()


def test_candidates_known_by_name_alone_need_no_legend() -> None:
    some = (Candidate("A", 2.5, {"f": 2.5}, True), Candidate("B", 1.0, {}))
    assert unpack_candidates(None, pack_named_candidates(some)) == some
    assert unpack_places(None, pack_named_candidates(some)) is None


PACKED = pack_candidates(
    [ChosenCandidates(np.array([1]), np.ones(1), np.ones((1, 1)), np.array([True]), legend("AB", factors=("f",)))]
)[0]
assert PACKED is not None


@pytest.mark.parametrize(
    ("data", "like"),
    [
        (b"", legend("AB", factors=("f",))),
        (b"\x09" + PACKED[1:], legend("AB", factors=("f",))),
        (PACKED[:-2], legend("AB", factors=("f",))),
        (PACKED[:-1] + bytes((PACKED[-1] ^ 1,)), legend("AB", factors=("f",))),
        (PACKED[:8], legend("AB", factors=("f",))),
        (PACKED, legend("A", factors=("f",))),
        (PACKED, legend("AB", factors=("f", "g"))),
        (PACKED, None),
    ],
)
def test_damaged_candidates_are_refused(data: bytes, like: Legend | None) -> None:
    for unpack in (unpack_candidates, unpack_places):
        with pytest.raises(CandidatesCorruptError):
            unpack(like, data)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 2), NUMBERS, NUMBERS), max_size=9))
def test_figures_become_words_when_they_are_read(rows: list[tuple[int, float, float]]) -> None:
    like = legend("AAB")
    stats = np.array([row[1:] for row in rows], dtype=np.float64).reshape(-1, 2).T
    remarks = Remarks(like, np.array([row[0] for row in rows], dtype=np.int64), stats)
    words = tuple(f"seen:{like.names[at]} nQ={one:g} nR={two:g}" for at, one, two in rows)
    assert Notes(("first",), remarks) == ("first", *words)
    assert len(Notes((), remarks)) == len(rows)
    packed = pack_remarks([remarks])[0]
    assert pack_remarks([remarks, Remarks(like, remarks.place[:0], stats[:, :0]), remarks]) == [packed, None, packed]
    assert (packed is None) == (not rows)
    if packed is not None:
        assert unpack_remarks(like, packed).notes == words
        assert unpack_remarks(like, packed).stats.tobytes() == stats.tobytes()
        for bad in (packed[:-2], b"", b"\x07" + packed[1:], packed[:7], packed[:-1] + bytes((packed[-1] ^ 1,))):
            with pytest.raises(RemarksCorruptError):
                unpack_remarks(like, bad)
        with pytest.raises(RemarksCorruptError):
            unpack_remarks(None, packed)


def test_remarks_of_releases_before_are_read() -> None:
    stats = np.array([[2.5, 7.0], [0.1, 3.0]])
    octets = stats.view("u1").reshape(-1, 8).T.tobytes()
    stored = b"\x01\x02\x00\x02\x00" + zlib.compress(b"\x02\x00\x00\x00" + octets)
    again = unpack_remarks(legend("AAB"), stored)
    assert (again.place.tolist(), again.stats.tolist()) == ([2, 0], stats.tolist())
    for bad in (stored[:-2], stored[:5] + zlib.compress(b"\x02")):
        with pytest.raises(RemarksCorruptError):
            unpack_remarks(legend("AAB"), bad)


@settings(max_examples=60)
@given(st.lists(st.lists(NUMBERS | st.integers(-1, 257).map(float) | st.just(float("nan")), max_size=9), max_size=5))
def test_small_whole_numbers_take_a_byte_and_the_others_keep_every_bit(pieces: list[list[float]]) -> None:
    columns = [np.array(piece, dtype=np.float64) for piece in pieces]
    sizes = np.array([len(column) for column in columns], dtype=np.int64)
    for column, data in zip(columns, pack_small(np.concatenate([np.zeros(0), *columns]), sizes), strict=True):
        assert unpack_small(data, len(column)).tobytes() == column.tobytes()
        with pytest.raises(ValueError, match=r"figures|too early"):
            unpack_small(data + b"0", len(column))
    assert len(pack_small(np.arange(16.0), np.array([16]))[0]) == 18


def test_a_legend_comes_back_and_has_a_name_of_its_own() -> None:
    one = legend("AAB", factors=("f",))
    assert Legend.from_json(json.loads(one.text)) == one
    assert one.sha256 == legend("AAB", factors=("f",)).sha256 != legend("AAC", factors=("f",)).sha256


@pytest.mark.parametrize(
    "told", [{}, {"names": 5}, {"names": ["A"], "groups": ["A", "B"]}, {"names": ["A"], "codes": 1}]
)
def test_a_damaged_legend_is_refused(told: dict[str, object]) -> None:
    with pytest.raises(LegendCorruptError):
        Legend.from_json(told)
