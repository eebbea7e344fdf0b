"""Packed decisions are lossless and small, and damaged ones are refused."""

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
    """Candidates ``GROUP/NUMBER`` and codes ``c0``, ``c1``, ...; the funnel runs backwards, departures are in pairs."""
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
def any_reasons(draw: st.DrawFn) -> Reasons:
    groups = draw(st.lists(st.sampled_from("ABCD"), min_size=1, max_size=12))
    codes = draw(st.sampled_from([1, 4, 300]))
    positions = draw(st.lists(st.integers(-2, codes - 1), min_size=len(groups), max_size=len(groups)))
    repeats = draw(st.sampled_from([1, 30]))
    groups, positions = (np.repeat(column, repeats).tolist() for column in (groups, positions))
    blocked = draw(st.sampled_from(["", "throttled"]))
    refused = draw(st.dictionaries(st.sampled_from(["A", "Z", "A/0"]), st.just("unknown"), max_size=2))
    return Reasons(legend(groups, codes), np.array(positions, dtype=np.int16), blocked, refused)


def rejected_one_by_one(reasons: Reasons) -> dict[str, str]:
    """The rejected names one by one, as specified."""
    names, groups, codes = reasons.legend.names, reasons.legend.groups, reasons.legend.codes
    position = reasons.position.tolist()
    alive = {group for group, step in zip(groups, position, strict=True) if step == FEASIBLE}
    rejected, last = {}, {}
    for name, group, step in zip(names, groups, position, strict=True):
        if step < 0:
            continue
        rejected[name] = codes[step]
        later = reasons.legend.departure[step] >= reasons.legend.departure[last.get(group, step)]
        if group not in alive and later:
            last[group] = step
    for group, step in last.items():
        rejected.setdefault(group, codes[step])
    if reasons.blocked:
        rejected |= {name: reasons.blocked for name, step in zip(names, position, strict=True) if step == FEASIBLE}
    return rejected | dict(reasons.refused)


@settings(max_examples=150)
@given(any_reasons())
def test_decoded_reasons_have_the_same_names_and_a_consistent_funnel(reasons: Reasons) -> None:
    decoded = unpack_reasons(reasons.legend, pack_reasons([reasons])[0])
    assert decoded.rejected == reasons.rejected == rejected_one_by_one(reasons)
    assert decoded.funnel == reasons.funnel
    feasible_count, start = int((reasons.position == FEASIBLE).sum()), int((reasons.position >= FEASIBLE).sum())
    for step in decoded.funnel:
        assert step.before == start
        start = step.after
    assert start == (0 if reasons.blocked else feasible_count)


@settings(max_examples=50)
@given(any_reasons())
def test_groups_of_many_decisions_equal_those_of_single_decisions(reasons: Reasons) -> None:
    rows = np.stack([reasons.position, np.roll(reasons.position, 1), np.full_like(reasons.position, FEASIBLE)])
    batch = group_steps(reasons.legend, rows)
    for row, steps in zip(rows, batch, strict=True):
        assert (group_steps(reasons.legend, row[None, :])[0] == steps).all()
    assert (batch[2] == FEASIBLE).all()


def test_rejected_names_and_funnel_equal_plain_collections() -> None:
    reasons = Reasons(legend("AAB"), np.array([1, FEASIBLE, NOT_A_CANDIDATE]))
    assert RejectedNames(reasons) == {"A/0": "c1"} == dict(RejectedNames(reasons))
    assert FunnelSteps(reasons) == (FunnelStep("c1", 2, 1),)
    assert FunnelSteps(reasons) != (FunnelStep("c1", 2, 0),)
    assert (len(FunnelSteps(reasons)), FunnelSteps(reasons)[0].before) == (1, 2)


def test_packed_reasons_of_780_candidates_take_less_than_400_bytes() -> None:
    random = np.random.default_rng(1)
    groups = [f"QUEUE_WITH_A_NAME_{number // 4:03d}" for number in range(780)]
    # as on a real grid: most candidates of a site have the same of a dozen codes
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
def test_reasons_of_candidates_of_one_kind_are_stored_as_runs(runs: list[tuple[int, int]], shift: int) -> None:
    numbers = np.repeat([code for code, _ in runs], [size for _, size in runs])
    position = np.full(40, FEASIBLE, dtype=np.int16)
    position[BY_KIND.by_kind[: len(numbers)]] = numbers[:40]
    batch = [Reasons(BY_KIND, np.roll(position, shift * number)) for number in range(3)]
    packed = pack_reasons(batch)
    for reasons, data in zip(batch, packed, strict=True):
        assert (unpack_reasons(BY_KIND, data).position == reasons.position).all()


def test_damaged_runs_of_reasons_are_refused() -> None:
    # every second candidate, so one run per kind
    packed = pack_reasons([Reasons(BY_KIND, np.arange(40, dtype=np.int16) % 2)])[0]
    assert packed[0] == 2 and len(packed) < 25
    for position in range(len(packed)):
        with pytest.raises(ReasonsCorruptError):
            unpack_reasons(BY_KIND, packed[:position])
        with pytest.raises(ReasonsCorruptError):
            unpack_reasons(BY_KIND, packed[:position] + bytes((packed[position] ^ 0x55,)) + packed[position + 1 :])
    with pytest.raises(ReasonsCorruptError):
        unpack_reasons(legend("AB" * 30), packed)


@pytest.mark.parametrize("data", ["", "00", "01", "0101", "010100", "010101000000", "01010301000005", "0101000200"])
def test_incomplete_runs_are_refused(data: str) -> None:
    with pytest.raises(ValueError, match=r"too early|begin with none|numbers for"):
        unpack_codes(bytes.fromhex(data), 8, np.dtype("u1"))


def test_reasons_of_earlier_releases_are_read() -> None:
    position = np.array([1] * 9 + [FEASIBLE] * 9 + [3] * 8 + [NOT_A_CANDIDATE], dtype=np.int16)
    stored = b"\x01\x06" + zlib.compress((position + 2).astype("u1").tobytes() + b'{"blocked":"throttled"}', 6)
    decoded = unpack_reasons(legend("ABC" * 9), stored)
    assert (decoded.position == position).all() and decoded.blocked == "throttled"


def test_reasons_known_by_name_alone_need_no_legend() -> None:
    rejected, funnel = {"A": "full", "B": "offline", "C": "full"}, (FunnelStep("offline", 3, 2),)
    decoded = unpack_reasons(None, pack_named(rejected, funnel))
    assert (decoded.rejected, decoded.funnel) == (rejected, funnel)


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
def test_decoded_candidates_are_equal_to_the_bit(
    rows: list[tuple[int, float, float, float, bool]], has_factors: bool
) -> None:
    columns = np.array([row[1:4] for row in rows], dtype=np.float64).reshape(-1, 3).T
    chosen = ChosenCandidates(
        np.array([row[0] for row in rows], dtype=np.int64),
        columns[0],
        columns[1:] if has_factors else columns[:0],
        np.array([row[4] for row in rows], dtype=np.bool_),
        legend("AAB", factors=("f", "g")),
    )
    packed = pack_candidates([chosen])[0]
    decoded = unpack_candidates(chosen.legend, packed)
    assert decoded == tuple(chosen)
    assert repr(decoded) == repr(chosen if rows else ())  # -0.0 stays -0.0
    assert (packed is None) == (not rows)


def test_a_weight_that_follows_from_its_factors_is_not_stored() -> None:
    factors = np.random.default_rng(1).random((4, 10))
    weight = np.multiply.reduce(factors, axis=0)
    weight[3] = 0.0
    common_legend, bootstrap = legend("AAB", factors=("f", "g", "h", "i")), np.arange(10) == 3
    chosen = ChosenCandidates(np.zeros(10, dtype=np.int64), weight, factors, bootstrap, common_legend)
    other_weights = ChosenCandidates(chosen.place, np.nextafter(weight, 1), factors, bootstrap, common_legend)
    short, long = pack_candidates([chosen])[0], pack_candidates([other_weights])[0]
    assert short is not None and long is not None and len(short) < len(long) - 60
    assert unpack_candidates(common_legend, short) == tuple(chosen)
    assert unpack_candidates(common_legend, long) == tuple(other_weights)


def test_candidates_of_the_first_version_are_read() -> None:
    columns = np.array([[2.5, -0.0], [1.25, 3.0]])
    planes = columns.view("u1").reshape(-1, 8).T.tobytes()
    stored = b"\x01\x00\x02\x00\x01\x00" + zlib.compress(b"\x02\x00\x00\x00" + b"\x00\x01" + planes)
    decoded = unpack_candidates(legend("AAB", factors=("f",)), stored)
    assert repr(decoded) == repr((Candidate("B/2", 2.5, {"f": 1.25}), Candidate("A/0", -0.0, {"f": 3.0}, True)))


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
    decoded = unpack_candidates(legend("AAB", factors=("f", "g")), bytes.fromhex(stored))
    assert decoded == (
        Candidate("B/2", weights[0], {"f": 2.1, "g": 100.0}),
        Candidate("A/0", weights[1], {"f": 2.1, "g": 1 / 3}),
        Candidate("A/1", weights[2], {"f": 0.0, "g": 1.0}, True),
    )


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans(), st.booleans()), max_size=8))
def test_decisions_packed_together_equal_those_packed_alone(shapes: list[tuple[int, int, bool, bool]]) -> None:
    batch = []
    for size, count, product, bootstrap in shapes:
        random = np.random.default_rng(size)
        factors = random.choice([1.0, 2.5, 1 / 3, -0.0, 1e90], (count, size))
        weight = np.multiply.reduce(factors, axis=0) if product else random.random(size)
        own_legend = legend("AAB", factors=("f", "g", "h")[:count])
        flags = np.full(size, bootstrap)
        batch.append(ChosenCandidates(np.arange(size) % 3, np.where(flags, 0.0, weight), factors, flags, own_legend))
    packed = pack_candidates(batch)
    assert packed == [pack_candidates([candidates])[0] for candidates in batch]
    for candidates, data in zip(batch, packed, strict=True):
        decoded = unpack_candidates(candidates.legend, data)
        assert (decoded == tuple(candidates), repr(decoded)) == (True, repr(candidates) if len(candidates) else "()")
        assert unpack_places(candidates.legend, data) == tuple(candidates.place.tolist())


@settings(max_examples=40)
@given(st.lists(any_reasons(), max_size=6))
def test_reasons_packed_together_equal_those_packed_alone(batch: list[Reasons]) -> None:
    assert pack_reasons(batch) == [pack_reasons([reasons])[0] for reasons in batch]


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
    candidates = (Candidate("A", 2.5, {"f": 2.5}, True), Candidate("B", 1.0, {}))
    assert unpack_candidates(None, pack_named_candidates(candidates)) == candidates
    assert unpack_places(None, pack_named_candidates(candidates)) is None


PACKED = pack_candidates(
    [ChosenCandidates(np.array([1]), np.ones(1), np.ones((1, 1)), np.array([True]), legend("AB", factors=("f",)))]
)[0]
assert PACKED is not None


@pytest.mark.parametrize(
    ("data", "candidate_legend"),
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
def test_damaged_candidates_are_refused(data: bytes, candidate_legend: Legend | None) -> None:
    for unpack in (unpack_candidates, unpack_places):
        with pytest.raises(CandidatesCorruptError):
            unpack(candidate_legend, data)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 2), NUMBERS, NUMBERS), max_size=9))
def test_remarks_are_formatted_when_read(rows: list[tuple[int, float, float]]) -> None:
    common_legend = legend("AAB")
    stats = np.array([row[1:] for row in rows], dtype=np.float64).reshape(-1, 2).T
    remarks = Remarks(common_legend, np.array([row[0] for row in rows], dtype=np.int64), stats)
    expected = tuple(f"seen:{common_legend.names[place]} nQ={first:g} nR={second:g}" for place, first, second in rows)
    assert Notes(("first",), remarks) == ("first", *expected)
    assert len(Notes((), remarks)) == len(rows)
    packed = pack_remarks([remarks])[0]
    assert pack_remarks([remarks, Remarks(common_legend, remarks.place[:0], stats[:, :0]), remarks]) == [
        packed,
        None,
        packed,
    ]
    assert (packed is None) == (not rows)
    if packed is not None:
        assert unpack_remarks(common_legend, packed).notes == expected
        assert unpack_remarks(common_legend, packed).stats.tobytes() == stats.tobytes()
        for damaged in (packed[:-2], b"", b"\x07" + packed[1:], packed[:7], packed[:-1] + bytes((packed[-1] ^ 1,))):
            with pytest.raises(RemarksCorruptError):
                unpack_remarks(common_legend, damaged)
        with pytest.raises(RemarksCorruptError):
            unpack_remarks(None, packed)


def test_remarks_of_earlier_releases_are_read() -> None:
    stats = np.array([[2.5, 7.0], [0.1, 3.0]])
    octets = stats.view("u1").reshape(-1, 8).T.tobytes()
    stored = b"\x01\x02\x00\x02\x00" + zlib.compress(b"\x02\x00\x00\x00" + octets)
    decoded = unpack_remarks(legend("AAB"), stored)
    assert (decoded.place.tolist(), decoded.stats.tolist()) == ([2, 0], stats.tolist())
    for damaged in (stored[:-2], stored[:5] + zlib.compress(b"\x02")):
        with pytest.raises(RemarksCorruptError):
            unpack_remarks(legend("AAB"), damaged)


@settings(max_examples=60)
@given(st.lists(st.lists(NUMBERS | st.integers(-1, 257).map(float) | st.just(float("nan")), max_size=9), max_size=5))
def test_small_integers_take_a_byte_and_other_numbers_keep_every_bit(pieces: list[list[float]]) -> None:
    columns = [np.array(piece, dtype=np.float64) for piece in pieces]
    sizes = np.array([len(column) for column in columns], dtype=np.int64)
    for column, data in zip(columns, pack_small(np.concatenate([np.zeros(0), *columns]), sizes), strict=True):
        assert unpack_small(data, len(column)).tobytes() == column.tobytes()
        with pytest.raises(ValueError, match=r"figures|too early"):
            unpack_small(data + b"0", len(column))
    assert len(pack_small(np.arange(16.0), np.array([16]))[0]) == 18


def test_a_legend_is_decoded_and_has_a_unique_digest() -> None:
    original = legend("AAB", factors=("f",))
    assert Legend.from_json(json.loads(original.text)) == original
    assert original.sha256 == legend("AAB", factors=("f",)).sha256 != legend("AAC", factors=("f",)).sha256


@pytest.mark.parametrize(
    "document", [{}, {"names": 5}, {"names": ["A"], "groups": ["A", "B"]}, {"names": ["A"], "codes": 1}]
)
def test_a_damaged_legend_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(LegendCorruptError):
        Legend.from_json(document)
