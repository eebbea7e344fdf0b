"""The work of chunks as bytes, stored with their decisions, so that a decision can be repeated."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from broker.codec.column_texts import RowOfEach, RowsOfEach, to_json
from broker.codec.compression import pack_work, unpack_work
from broker.codec.work_texts import JoinedTable, WorkText, cut_text, read_json
from broker.domain.analysis import AnalysisWork
from broker.domain.arrays import CLASS, LATER, Ints, objects, taken
from broker.domain.counted_load import CountedLoad, QueueJobs, forms_of, stored_part
from broker.domain.work import InputTable, ReplicaTable, Work, WorkTable

#: Version of the stored form. Work without one is older: it has texts where this version has objects.
VERSION = 1
#: Current names of columns, by the names that they had in work without a version.
_RENAMED: Mapping[str, str] = {"asked_places": "placement_constraints", "taken_back": "rebrokered_from"}
NO_LOAD = CountedLoad()

#: Bytes that the work of one chunk may unpack to.
MAX_WORK_BYTES = 64 * 1024 * 1024

TableT = TypeVar("TableT")

Body = Mapping[str, Any]
"""Stored work, unpacked but not yet decoded."""


class WorkCorruptError(Exception):
    """Stored work that cannot be read back."""


@dataclass(frozen=True)
class StoredWork:
    """The work of several chunks, with the values stored alongside.

    Attributes:
        work: of the chunks.
        placed: for each chunk the load counted before it, in its stored form; text where it was not read yet.
        cuts: for each chunk how it is cut into jobs (see :mod:`broker.codec.cut_codec`); None where not stored.
    """

    work: Work
    placed: tuple[Any, ...]
    cuts: tuple[Mapping[str, Any] | None, ...]

    @cached_property
    def load(self) -> tuple[CountedLoad, ...]:
        """The load that the cycle had counted before each chunk.

        Raises:
            WorkCorruptError: a stored load is damaged.
        """
        return tuple(map(_load, self.placed))

    @property
    def has_plan(self) -> bool:
        """Whether chunks were decided together, by a plan that is stored with them."""
        return any(isinstance(one, Mapping) and bool(one.get("plan")) for one in self.placed)


def chunk_of(work: Work, row: int) -> Work:
    """The work of the chunk at ``row`` alone."""
    inputs = np.flatnonzero(work.inputs.chunk == row)
    first = int(inputs[0]) if len(inputs) else 0
    # the inputs of a chunk are neighbours, so their replicas are found by position
    replicas = np.flatnonzero((work.replicas.input >= first) & (work.replicas.input < first + len(inputs)))
    own_inputs = taken(work.inputs, inputs)
    own_replicas = taken(work.replicas, replicas)
    return Work(
        taken(work.chunks, slice(row, row + 1)),
        dataclasses.replace(own_inputs, chunk=np.zeros(len(inputs), dtype=np.int64)),
        dataclasses.replace(own_replicas, input=own_replicas.input - first),
        analysis_request=None if work.analysis_request is None else taken(work.analysis_request, slice(row, row + 1)),
    )


def encode_work(work: Work, load: CountedLoad = NO_LOAD, cut: str | None = None) -> bytes:
    """The work as compressed JSON; NaN is null.

    Args:
        work: of one chunk.
        load: the load that the cycle had counted before the chunk.
        cut: how the chunk is cut into jobs, as JSON.
    """
    tables = {
        name: plain_columns(table) for name, table in (("c", work.chunks), ("i", work.inputs), ("r", work.replicas))
    }
    body: dict[str, Any] = {**tables, "v": VERSION, "placed": load.stored()}
    if work.analysis_request is not None:
        body["a"] = plain_columns(work.analysis_request)
    text = to_json(body)
    return pack_work((text if cut is None else f'{text[:-1]},"cut":{cut}}}').encode())


def plain_columns(table: Any) -> dict[str, list[Any]]:
    """The columns of a table in JSON form: NaN is null."""
    columns: dict[str, list[Any]] = {}
    for field in dataclasses.fields(table):
        column = getattr(table, field.name)
        values: list[Any] = column.tolist()
        if CLASS in field.metadata:
            values = [None if value is None else value.stored() for value in values]
        elif column.dtype.kind == "O" or (column.dtype.kind == "f" and np.isnan(column).any()):
            values = [None if isinstance(value, float) and value != value else value for value in values]
        columns[field.name] = values
    return columns


def decode_work(data: bytes) -> Work:
    """Decode the work from :func:`encode_work`.

    Raises:
        WorkCorruptError: it is damaged, too large, or of an engine with other columns; the message names the column.
    """
    return joined_work([unpacked(data)]).work


def decode_load(data: bytes) -> CountedLoad:
    """Decode the load that was passed to :func:`encode_work`.

    Raises:
        WorkCorruptError: it is damaged or too large.
    """
    return _load(unpacked(data).get("placed", {}))


def unpacked(data: bytes) -> Body:
    """The body of stored work of any kind.

    Raises:
        WorkCorruptError: it is damaged or too large.
    """
    return _read_whole(_unpacked_text(data))


def unpacked_for_many(data: bytes) -> Body:
    """Like :func:`unpacked` for a body that is read with many others: shared parts are decoded once.

    Raises:
        WorkCorruptError: it is damaged or too large.
    """
    text = _unpacked_text(data)
    body = cut_text(text)
    return _read_whole(text) if body is None else body


def _unpacked_text(data: bytes) -> bytes:
    try:
        return unpack_work(data, MAX_WORK_BYTES)
    except zlib.error as error:
        raise WorkCorruptError(f"the stored work of a decision cannot be read: {error}") from error


def _read_whole(text: bytes) -> Body:
    try:
        body = read_json(text)
    except ValueError as error:
        raise WorkCorruptError(f"the stored work of a decision cannot be read: {error}") from error
    if not isinstance(body, dict):
        raise WorkCorruptError("the stored work of a decision cannot be read: it is no object")
    return body


def joined_work(bodies: Sequence[Body], *, fill: bool = False) -> StoredWork:
    """The chunks of several bodies, in this order, as one work. All of them have columns of analysis, or none has.

    With ``fill``, missing columns hold NULL, as for work of an engine that did not have them yet.

    Raises:
        WorkCorruptError: a body is damaged, or of an engine with other columns; the message names the column.
    """
    try:
        joined = {name: _joined(bodies, name) for name in ("c", "i", "r")}
        chunks = table_of(WorkTable, _renamed(joined["c"].columns()), fill=fill)
        inputs, replicas = _renamed(joined["i"].columns()), _renamed(joined["r"].columns())
        inputs["chunk"] = _moved(joined["i"].by_body("chunk"), joined["c"].by_body("jeditaskid"))
        replicas["input"] = _moved(joined["r"].by_body("input"), joined["i"].by_body("datasetid"))
        analysis_request = None
        if any("a" in body for body in bodies):
            analysis_request = table_of(AnalysisWork, joined_columns(bodies, "a"), fill=fill)
        tables = table_of(InputTable, inputs, fill=fill), table_of(ReplicaTable, replicas, fill=fill)
        work = Work(chunks, *tables, analysis_request=analysis_request)
        return StoredWork(work, tuple(map(_placed, bodies)), _cuts(bodies))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise WorkCorruptError(f"the stored work of a decision cannot be read: {error}") from error


def _placed(body: Body) -> Any:
    """The load that the cycle had counted before a chunk; a text without a plan stays unparsed."""
    return body.parts["placed"] if isinstance(body, WorkText) else body.get("placed", {})


def _cuts(bodies: Sequence[Body]) -> tuple[Any, ...]:
    """The stored cuts of each chunk, None for none; chunks with equal texts share one object, never changed."""
    known: dict[bytes, Any] = {}
    cuts = []
    for body in bodies:
        text = body.parts.get("cut") if isinstance(body, WorkText) else None
        if not isinstance(text, bytes):
            cuts.append(body.get("cut"))
            continue
        if text not in known:
            known[text] = body["cut"]
        cuts.append(known[text])
    return tuple(cuts)


def _joined(bodies: Sequence[Body], table: str) -> JoinedTable:
    return JoinedTable([body[table] for body in bodies])


def _renamed(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {_RENAMED.get(name, name): values for name, values in columns.items()}


def joined_columns(bodies: Sequence[Body], table: str) -> dict[str, list[Any]]:
    """The columns of one table of several bodies, one body after the other."""
    return _renamed(_joined(bodies, table).columns())


def shifted(bodies: Sequence[Body], index: tuple[str, str], into: tuple[str, str]) -> list[int]:
    """A joined column of positions in another table, counted from the start of all bodies.

    Args:
        bodies: the joined bodies.
        index: table and column that hold the positions.
        into: the table that they point into, and a column of it.
    """
    return _moved(*([body[table][column] for body in bodies] for table, column in (index, into)))


def _moved(positions: Sequence[list[int]], into: Sequence[list[Any]]) -> list[int]:
    """Positions of each body in one of its tables, counted from the start of all bodies."""
    moved: list[int] = []
    first = 0
    for own, rows in zip(positions, into, strict=True):
        moved += [first + position for position in own]
        first += len(rows)
    return moved


def _load(placed: Any) -> CountedLoad:
    try:
        return CountedLoad.of_stored(read_json(placed) if isinstance(placed, bytes) else placed)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise WorkCorruptError(f"the stored work of a decision cannot be read: {error}") from error


def table_of(kind: type[TableT], columns: dict[str, list[Any]], *, fill: bool = False) -> TableT:
    """The table of columns from :func:`plain_columns`; with ``fill``, a missing column holds NULL.

    Raises:
        WorkCorruptError: a column is missing, or not as long as the others.
    """
    arrays = {}
    size = len(next(iter(columns.values()), []))
    for field in dataclasses.fields(cast(Any, kind)):
        if LATER in field.metadata and field.name not in columns:
            columns = columns | {field.name: [field.metadata[LATER]] * _rows_of(columns)}
        if field.name not in columns and not fill:
            raise WorkCorruptError(f"the stored work has no column {field.name}: it is of another engine version")
        values = columns.get(field.name, [_NULL.get(str(field.type))] * size)
        arrays[field.name] = _column(str(field.type), values, field.metadata.get(CLASS))
    if len({len(column) for column in arrays.values()}) > 1:
        raise WorkCorruptError("the stored work of a decision has columns of different lengths")
    return kind(**arrays)


def _rows_of(columns: dict[str, list[Any]]) -> int:
    return max((len(column) for column in columns.values()), default=0)


#: The value of NULL in a column that is not stored, where it is not None.
_NULL: Mapping[str, int | bool] = {"Ints": 0, "Bools": False}


def missing_columns(body: Body) -> tuple[str, ...]:
    """Columns of chunks missing from a body, as it is of an engine that did not have them yet."""
    tables = (("c", WorkTable), ("i", InputTable), ("r", ReplicaTable), ("a", AnalysisWork))
    return tuple(
        field.name
        for name, kind in tables
        if isinstance(body.get(name), Mapping)
        for field in dataclasses.fields(kind)
        if field.name not in {_RENAMED.get(stored, stored) for stored in body[name]}
    )


def _column(type_name: str, values: list[Any], kind: Any = None) -> Any:
    if kind is not None:
        return objects(None if value is None else kind.of_stored(value) for value in values)
    if type_name == "Floats":
        return np.array(values, dtype=np.float64)  # None becomes NaN
    if type_name == "Texts":
        column = np.empty(len(values), dtype=np.object_)
        column[:] = values
        return column
    dtype: type[np.bool_] | type[np.int64] = np.bool_ if type_name == "Bools" else np.int64
    return cast(Ints, np.array(values, dtype=dtype))


class WorkEncoder:
    """Encodes each chunk of a work to the bytes that :func:`broker.codec.work_codec.encode_work` gives for it alone."""

    def __init__(self, work: Work) -> None:
        # the inputs of a chunk are neighbours, and so are the replicas of an input
        inputs = np.searchsorted(work.inputs.chunk, np.arange(len(work.chunks) + 1))
        self._starts: list[int] = inputs.tolist()
        self._replica_starts: list[int] = np.searchsorted(work.replicas.input, inputs).tolist()
        self._input_of = work.replicas.input
        self._chunks = RowOfEach(work.chunks, len(work.chunks))
        self._inputs = RowsOfEach(work.inputs, self._starts)
        self._replicas = RowsOfEach(work.replicas, self._replica_starts)
        request = work.analysis_request
        self._request = None if request is None else RowOfEach(request, len(work.chunks))
        self._names: Sequence[str] = ()
        self._forms: list[str] = []

    def encode(self, row: int, load: CountedLoad = NO_LOAD, cut: str | None = None) -> bytes:
        """Encode the chunk at ``row``.

        Args:
            row: position of the chunk.
            load: the load that the cycle had counted before the chunk.
            cut: how the chunk is cut into jobs, as JSON.
        """
        first, end = self._starts[row], self._starts[row + 1]
        owner = self._input_of[self._replica_starts[row] : self._replica_starts[row + 1]] - first
        inputs = self._inputs.text(row, [0] * (end - first))
        tables = f'"c":{self._chunks.text(row)},"i":{inputs},"r":{self._replicas.text(row, owner.tolist())}'
        text = f'{{{tables},"v":{VERSION},"placed":{self._placed(load)}'
        if self._request is not None:
            text += f',"a":{self._request.text(row)}'
        if cut is not None:
            text += f',"cut":{cut}'
        return pack_work(f"{text}}}".encode())

    def _placed(self, load: CountedLoad) -> str:
        """The JSON of the load; nearly all loads of a cycle are over the same queues, though in different lists."""
        texts = []
        for name, part in load.parts():
            if isinstance(part, QueueJobs):
                if part.names is not self._names and part.names != self._names:
                    self._names, self._forms = part.names, forms_of(part.names)
                texts.append(f'"{name}":{part.text(self._forms)}')
            else:
                texts.append(f'"{name}":{to_json(stored_part(part))}')
        return "{" + ",".join(texts) + "}"
