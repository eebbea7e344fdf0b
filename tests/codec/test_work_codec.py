"""The encoding of the work of a chunk as bytes."""

from __future__ import annotations

import dataclasses
import json
import zlib
from typing import Any

import numpy as np
import pytest

from broker.codec import work_codec
from broker.codec.compression import pack_work, unpack_work
from broker.codec.work_codec import (
    WorkCorruptError,
    WorkEncoder,
    chunk_of,
    decode_work,
    encode_work,
    joined_work,
    unpacked,
    unpacked_for_many,
)
from broker.codec.work_texts import WorkText, cut_text
from broker.domain.counted_load import CountedLoad
from broker.domain.work import InputTable, RebrokeredFrom, ReplicaTable, Work
from tests.engine.small_work import Dataset, replica, work_of


def work() -> Work:
    return work_of(
        [Dataset([replica("A"), replica("B", found=5)]), Dataset([replica("A")], is_master=False)],
        [],
        [Dataset([replica("C", is_tape=True)])],
        chunks={"site": ["Zürich '%s\n", None, ""], "iointensity": [np.nan, 1e300, -0.0], "datasetid": [1, 2, 2**62]},
    )


def assert_same(left: Work, right: Work) -> None:
    for table in ("chunks", "inputs", "replicas"):
        for field in dataclasses.fields(getattr(left, table)):
            left_column, right_column = (getattr(getattr(each_work, table), field.name) for each_work in (left, right))
            np.testing.assert_array_equal(left_column, right_column, err_msg=field.name)
            assert left_column.dtype == right_column.dtype, field.name


def test_encoding_round_trip() -> None:
    assert_same(decode_work(encode_work(work())), work())


@pytest.mark.parametrize(("row", "inputs", "rses"), [(0, 2, ["A", "B", "A"]), (1, 0, []), (2, 1, ["C"])])
def test_one_chunk(row: int, inputs: int, rses: list[str]) -> None:
    all_chunks = work()
    single = chunk_of(all_chunks, row)
    assert len(single.chunks) == 1
    assert single.chunks.datasetid[0] == all_chunks.chunks.datasetid[row]
    assert single.inputs.chunk.tolist() == [0] * inputs
    assert single.replicas.rse.tolist() == rses
    assert set(single.replicas.input.tolist()) == set(range(inputs))
    assert_same(decode_work(encode_work(single)), single)
    load = CountedLoad(of_share={"A": 2})
    assert WorkEncoder(all_chunks).encode(row, load, '{"settings":{}}') == encode_work(single, load, '{"settings":{}}')


def stored() -> Any:
    return json.loads(unpack_work(encode_work(work()), 10**7))


def damaged(change: str) -> bytes:
    body = stored()
    if change == "no column":
        del body["c"]["gshare"]
    elif change == "lengths":
        body["c"]["gshare"].pop()
    elif change == "text for number":
        body["c"]["currentpriority"][0] = "high"
    elif change == "null for a whole number":
        body["i"]["datasetid"][0] = None
    elif change == "no table":
        del body["r"]
    elif change == "a number for a table":
        body["r"] = 5
    elif change == "a list":
        body = []
    elif change == "deep":
        return zlib.compress(b"[" * 200_000)
    return zlib.compress(json.dumps(body).encode())


DAMAGES = ("no column", "lengths", "text for number", "null for a whole number", "no table", "a number for a table")


@pytest.mark.parametrize("change", [*DAMAGES, "a list", "deep"])
def test_damaged_work_is_refused(change: str) -> None:
    with pytest.raises(WorkCorruptError):
        decode_work(damaged(change))
    assert_same(decode_work(damaged("nothing")), work())


def test_an_older_engine_is_named() -> None:
    with pytest.raises(WorkCorruptError, match="gshare"):
        decode_work(damaged("no column"))


def test_invalid_bytes_are_refused() -> None:
    data = encode_work(work())
    for broken in (b"", b"no zlib", data[: len(data) // 2]):
        with pytest.raises(WorkCorruptError):
            decode_work(broken)


def test_a_compression_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_codec, "MAX_WORK_BYTES", 1000)
    with pytest.raises(WorkCorruptError):
        decode_work(encode_work(work()))


def test_every_column_of_work_has_a_known_kind() -> None:
    kinds = {str(field.type) for table in (InputTable, ReplicaTable) for field in dataclasses.fields(table)}
    assert kinds <= {"Floats", "Ints", "Bools", "Texts", "Objects"}


@pytest.mark.parametrize(
    "text",
    [b'{"a":[1.1e-7,-0.0,1e22,NaN,null,9223372036854775808,true],"b":"\\u00e9\\ud83d\\ude00"}', b'{"a":"\\ud800"}'],
)
def test_unpacked_values_equal_those_of_json(text: bytes) -> None:
    assert repr(unpacked(pack_work(text))) == repr(json.loads(text))


CUT = {"settings": {}, "inputs": [[True, 1, {}]], "names": None, "files": {}, "held": {"0": [1], "1": [0, 1]}}
LOAD = CountedLoad(of_share={"A": 2, "],": 1})


def encoded_chunks(**columns: list[Any]) -> list[bytes]:
    """Three chunks with the given columns, each encoded alone."""
    all_chunks = work_of(
        [Dataset([replica("A"), replica('],"B', found=5)]), Dataset([replica("A")])],
        [],
        [Dataset([replica("C", is_tape=True)])],
        chunks=columns,
    )
    return [encode_work(chunk_of(all_chunks, row), LOAD, json.dumps(CUT, separators=(",", ":"))) for row in range(3)]


@pytest.mark.parametrize(
    "columns",
    [
        {"site": ["Zürich '%s\n", None, ""], "iointensity": [np.nan, 1e300, -0.0], "datasetid": [1, 2, 2**62]},
        {"site": ['],"status":["', "],", ']},"i":{"chunk":['], "username": ["\ud800", 'a"],"', "b"]},
        {"rebrokered_from": [RebrokeredFrom((("],", 1.5),)), None, None]},
    ],
)
def test_bodies_decoded_together_equal_those_decoded_alone(columns: dict[str, list[Any]]) -> None:
    data = encoded_chunks(**columns)
    alone, together = (joined_work([unpack(body) for body in data]) for unpack in (unpacked, unpacked_for_many))
    assert_same(together.work, alone.work)
    assert together.cuts == alone.cuts and len({id(cut) for cut in together.cuts}) == 1
    assert together.load == alone.load == (LOAD,) * 3
    for body in data:
        assert dict(unpacked_for_many(body)) == unpacked(body)


def test_only_text_of_the_usual_form_is_split() -> None:
    text = unpack_work(encoded_chunks()[0], 10**7)
    assert isinstance(cut_text(text), WorkText)
    for part, replacement in (
        (b'"held"', b'"x":{},"cut":{"settings":{}},"held"'),
        (b'"of_share"', b'"plan":{},"of_share"'),
    ):
        assert cut_text(text.replace(part, replacement)) is None
    assert cut_text(unpack_work(encode_work(work()), 10**7)) is None
    for damaged_text in (text[:-2], text[: len(text) // 2], text.replace(b'"r"', b'"q"'), b"", b"[]"):
        assert cut_text(damaged_text) is None


def test_a_damaged_column_of_many_is_refused() -> None:
    texts = [unpack_work(text, 10**7) for text in encoded_chunks()]
    for part, replacement in (
        (b'"status":["', b'"status":[{"'),
        (b'"status":', b'"stature":'),
        (b'"status":["', b'"status":[1],["'),
    ):
        bodies = [unpacked_for_many(pack_work(text.replace(part, replacement))) for text in texts]
        with pytest.raises(WorkCorruptError):
            joined_work(bodies)
