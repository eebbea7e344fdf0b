"""The chosen candidates of decisions as bytes: places, weights and factors, a batch at once.

Factors are stored by factor, not by candidate: neighbours are alike, so they form runs of few values, without loss. A
weight that is the product of its factors to the bit is not stored.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from broker.codec.compression import inflate
from broker.codec.runs import pack_joined_runs, unpack_runs
from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.chosen_candidates import (
    CandidateColumns,
    ChosenCandidates,
    Legend,
    TableCandidates,
    columns_of,
    joined_columns,
)
from broker.domain.decisions import Candidate

#: Version 3 has runs of figures and a checksum; earlier ones are compressed, and version 1 stores figures byte by byte.
_VERSION, _COMPRESSED, _BY_BYTES = 3, 2, 1
_NAMED, _PRODUCT, _BOOTSTRAP = 1, 2, 4
_HEAD = 6
#: Version, flags, number of candidates, number of factors, checksum of all that follows.
_PACKED_HEAD = struct.Struct("<BBHHI")


class CandidatesCorruptError(Exception):
    """Packed candidates that cannot be read."""


def pack_candidates(chosen: Sequence[ChosenCandidates]) -> list[bytes | None]:
    """The candidates of each decision as bytes; None for none.

    The layout is a version, flags, the numbers of candidates and factors, a checksum of the rest, the places, the mask
    of bootstrap candidates if there are any, and the figures. All decisions of a batch are packed at once.
    """
    packed: list[bytes | None] = [None] * len(chosen)
    for rows, columns in _groups(chosen):
        for row, data in zip(rows, _packed(columns), strict=True):
            packed[row] = data
    return packed


def _groups(chosen: Sequence[ChosenCandidates]) -> Iterator[tuple[list[int], CandidateColumns]]:
    """Yield the decisions with candidates, grouped by number of factors; their order may change."""
    of_tables: dict[int, list[int]] = {}
    plain: dict[int, list[int]] = {}
    for row, one in enumerate(chosen):
        if isinstance(one, TableCandidates):
            if one.size:
                of_tables.setdefault(id(one.table), []).append(row)
        elif len(one):
            plain.setdefault(len(one.factors), []).append(row)
    parts: dict[int, list[tuple[list[int], CandidateColumns]]] = {}
    for rows in of_tables.values():
        some = [one for row in rows if isinstance(one := chosen[row], TableCandidates)]
        table = some[0].table
        parts.setdefault(table.factors.shape[1], []).append((rows, table.columns([one.at for one in some])))
    for count, rows in plain.items():
        parts.setdefault(count, []).append((rows, columns_of([chosen[row] for row in rows])))
    for group in parts.values():
        yield [row for rows, _ in group for row in rows], joined_columns([columns for _, columns in group])


def _packed(columns: CandidateColumns) -> list[bytes]:
    """Pack the candidates of each decision; all have the same number of factors."""
    count, size = len(columns.factors), columns.size
    first = np.cumsum(size) - size
    follows = _follows(columns, first)
    figures = pack_joined_runs(*_figures(columns, follows, first))
    places = columns.place.astype("<u2").tobytes()
    starting = np.logical_or.reduceat(columns.bootstrap, first).tolist()
    packed = []
    of_each = zip(first.tolist(), size.tolist(), follows.tolist(), starting, figures, strict=True)
    for at, own, short, starts, stats in of_each:
        flags = _PRODUCT if short else 0
        body = places[2 * at : 2 * (at + own)] + stats
        if starts:
            flags |= _BOOTSTRAP
            mask = np.packbits(columns.bootstrap[at : at + own]).tobytes()
            body = places[2 * at : 2 * (at + own)] + mask + stats
        packed.append(_PACKED_HEAD.pack(_VERSION, flags, own, count, zlib.crc32(body)) + body)
    return packed


def _follows(columns: CandidateColumns, first: Ints) -> Bools:
    """(D,) whether all weights of a decision follow from its factors to the bit."""
    weight, product = columns.weight, _product(columns.factors, columns.bootstrap)
    # NaN may come out with other bits
    same = (product.view(np.int64) == weight.view(np.int64)) & (product == product)
    return np.asarray(np.logical_and.reduceat(same, first))


def _figures(columns: CandidateColumns, follows: Bools, first: Ints) -> tuple[Floats, Ints]:
    """Weights that do not follow from factors, then factor by factor; and the number of figures per decision."""
    count, size = len(columns.factors), columns.size
    sizes = (count + ~follows) * size
    figures = np.empty(int(sizes.sum()))
    within = np.arange(len(columns.place)) - np.repeat(first, size)
    place = within + np.repeat(np.cumsum(sizes) - sizes, size)
    step = np.repeat(size, size)
    if not follows.all():
        with_weight = np.repeat(~follows, size)
        figures[place[with_weight]] = columns.weight[with_weight]
        place += step * with_weight
    for factor in columns.factors:
        figures[place] = factor
        place += step
    return figures, sizes


def _product(factors: Floats, bootstrap: Bools) -> Floats:
    """(C,) the weights that follow from the factors, multiplied in their order, as the ranking does."""
    if not len(factors):
        return np.where(bootstrap, 0.0, 1.0)
    weight = factors[0]
    with np.errstate(all="ignore"):
        for column in factors[1:]:
            weight = weight * column
    return np.where(bootstrap, 0.0, weight)


def pack_named_candidates(candidates: Sequence[Candidate]) -> bytes | None:
    """Pack candidates that are known by name alone, without a legend; None for none."""
    if not candidates:
        return None
    reported = [[one.name, one.weight, one.factors, one.bootstrap] for one in candidates]
    size = min(len(candidates), 0xFFFF)
    head = bytes((_COMPRESSED, _NAMED)) + size.to_bytes(2, "little") + bytes(2)
    return head + zlib.compress(json.dumps(reported, separators=(",", ":")).encode(), 6)


def unpack_candidates(legend: Legend | None, data: bytes | None) -> Sequence[Candidate]:
    """The inverse of :func:`pack_candidates`, and of :func:`pack_named_candidates`, which needs no legend.

    Raises:
        CandidatesCorruptError: damaged, of a newer version, or of another legend.
    """
    if data is None:
        return ()
    if len(data) < _HEAD or not _BY_BYTES <= data[0] <= _VERSION:
        raise CandidatesCorruptError(f"candidates of version {data[0] if data else None}; this broker knows {_VERSION}")
    try:
        if data[0] == _VERSION:
            return _read(_legend(legend, data), data)
        body = inflate(data[_HEAD:])
        if data[1] & _NAMED:
            return tuple(Candidate(*one) for one in json.loads(body))
        return _read_compressed(_legend(legend, data), data, body)
    except (zlib.error, ValueError, TypeError) as error:
        raise CandidatesCorruptError(f"damaged candidates: {error}") from error


def unpack_names(legend: Legend | None, data: bytes | None) -> tuple[str, ...]:
    """The names of the candidates that :func:`unpack_candidates` returns, without their figures.

    Raises:
        CandidatesCorruptError: damaged, of a newer version, or of another legend.
    """
    if data is None or data[:1] != bytes((_VERSION,)):
        return tuple(one.name for one in unpack_candidates(legend, data))
    places = unpack_places(legend, data) or ()
    return tuple(legend.names[at] for at in places) if legend is not None else ()


def unpack_places(legend: Legend | None, data: bytes | None) -> tuple[int, ...] | None:
    """Positions in the legend of the candidates that :func:`unpack_candidates` returns; None if they have only names.

    Raises:
        CandidatesCorruptError: damaged, of a newer version, or of another legend.
    """
    if data is None or len(data) < _PACKED_HEAD.size or data[0] != _VERSION:
        chosen = unpack_candidates(legend, data)
        if isinstance(chosen, ChosenCandidates):
            return tuple(chosen.place.tolist())
        return None if chosen else ()
    _, _, size, _, checksum = _PACKED_HEAD.unpack_from(data)
    places = data[_PACKED_HEAD.size : _PACKED_HEAD.size + 2 * size]
    try:
        names = _legend(legend, data).names
        if len(places) != 2 * size or zlib.crc32(data[_PACKED_HEAD.size :]) != checksum:
            raise ValueError("their checksum is another one")
        positions = struct.unpack(f"<{size}H", places)
        if positions and max(positions) >= len(names):
            raise ValueError(f"candidate {max(positions)} of {len(names)}")
    except ValueError as error:
        raise CandidatesCorruptError(f"damaged candidates: {error}") from error
    return positions


def _legend(legend: Legend | None, data: bytes) -> Legend:
    if legend is None:
        raise ValueError("they have no legend")
    factors = int.from_bytes(data[4:6], "little")
    if factors and factors != len(legend.factors):
        raise ValueError(f"{factors} factors of {len(legend.factors)}")
    return legend


def _read(legend: Legend, data: bytes) -> ChosenCandidates:
    if len(data) < _PACKED_HEAD.size:
        raise ValueError("they end too early")
    _, flags, size, factors, checksum = _PACKED_HEAD.unpack_from(data)
    body = data[_PACKED_HEAD.size :]
    if zlib.crc32(body) != checksum:
        raise ValueError("their checksum is another one")
    at, bootstrap = 2 * size, np.zeros(size, dtype=np.bool_)
    place = np.frombuffer(body[:at], dtype="<u2").astype(np.int64)
    if len(place) != size:
        raise ValueError(f"{len(place)} of {size} places")
    if flags & _BOOTSTRAP:
        at, octets = at + (size + 7) // 8, np.frombuffer(body[at : at + (size + 7) // 8], dtype=np.uint8)
        bootstrap = np.unpackbits(octets, count=size).astype(np.bool_)
    columns = factors + (not flags & _PRODUCT)
    figures = unpack_runs(body[at:], columns * size).reshape(columns, size)
    return _chosen(legend, place, figures, factors, bootstrap)


def _read_compressed(legend: Legend, data: bytes, body: bytes) -> ChosenCandidates:
    """Read the form of earlier versions."""
    size, factors = int.from_bytes(data[2:4], "little"), int.from_bytes(data[4:6], "little")
    place = np.frombuffer(body[: 2 * size], dtype="<u2").astype(np.int64)
    bootstrap = np.frombuffer(body[2 * size : 3 * size], dtype="u1").astype(np.bool_)
    columns = _columns(data[0], body[3 * size :]).reshape(-1, size)
    if len(columns) != factors + (not data[1] & _PRODUCT):
        raise ValueError(f"{len(columns)} columns for {factors} factors")
    return _chosen(legend, place, columns, factors, bootstrap)


def _chosen(legend: Legend, place: Ints, columns: Floats, factors: int, bootstrap: Bools) -> ChosenCandidates:
    """Candidates from columns of factors, preceded by the weight where it does not follow from them."""
    if place.size and place.max() >= len(legend.names):
        raise ValueError(f"candidate {place.max()} of {len(legend.names)}")
    factor_columns = columns[len(columns) - factors :]
    weight = columns[0] if len(columns) > factors else _product(factor_columns, bootstrap)
    return ChosenCandidates(place, weight, factor_columns, bootstrap, legend)


def _columns(version: int, data: bytes) -> Floats:
    """Decode concatenated figures; the first version stored all first bytes, then all second ones, and so on."""
    if version == _BY_BYTES:
        data = np.ascontiguousarray(np.frombuffer(data, dtype="u1").reshape(8, -1).T).tobytes()
    return np.frombuffer(data, dtype="<f8").astype(np.float64)
