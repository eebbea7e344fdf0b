"""The work of one chunk as bytes."""

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


def assert_same(one: Work, other: Work) -> None:
    for table in ("chunks", "inputs", "replicas"):
        for field in dataclasses.fields(getattr(one, table)):
            mine, theirs = (getattr(getattr(each, table), field.name) for each in (one, other))
            np.testing.assert_array_equal(mine, theirs, err_msg=field.name)
            assert mine.dtype == theirs.dtype, field.name


def test_what_is_stored_comes_back() -> None:
    assert_same(decode_work(encode_work(work())), work())


@pytest.mark.parametrize(("row", "inputs", "rses"), [(0, 2, ["A", "B", "A"]), (1, 0, []), (2, 1, ["C"])])
def test_one_chunk(row: int, inputs: int, rses: list[str]) -> None:
    whole = work()
    one = chunk_of(whole, row)
    assert len(one.chunks) == 1
    assert one.chunks.datasetid[0] == whole.chunks.datasetid[row]
    assert one.inputs.chunk.tolist() == [0] * inputs
    assert one.replicas.rse.tolist() == rses
    assert set(one.replicas.input.tolist()) == set(range(inputs))
    assert_same(decode_work(encode_work(one)), one)
    load = CountedLoad(of_share={"A": 2})
    assert WorkEncoder(whole).encode(row, load, '{"settings":{}}') == encode_work(one, load, '{"settings":{}}')


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
def test_damaged_work(change: str) -> None:
    with pytest.raises(WorkCorruptError):
        decode_work(damaged(change))
    assert_same(decode_work(damaged("nothing")), work())


def test_an_older_engine_is_named() -> None:
    with pytest.raises(WorkCorruptError, match="gshare"):
        decode_work(damaged("no column"))


def test_bytes_that_are_none() -> None:
    data = encode_work(work())
    for broken in (b"", b"no zlib", data[: len(data) // 2]):
        with pytest.raises(WorkCorruptError):
            decode_work(broken)


def test_a_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_what_is_read_is_what_json_says(text: bytes) -> None:
    assert repr(unpacked(pack_work(text))) == repr(json.loads(text))


CUT = {"settings": {}, "inputs": [[True, 1, {}]], "names": None, "files": {}, "held": {"0": [1], "1": [0, 1]}}
LOAD = CountedLoad(of_share={"A": 2, "],": 1})


def chunks(**columns: list[Any]) -> list[bytes]:
    """Three chunks that hold some values, each by itself."""
    whole = work_of(
        [Dataset([replica("A"), replica('],"B', found=5)]), Dataset([replica("A")])],
        [],
        [Dataset([replica("C", is_tape=True)])],
        chunks=columns,
    )
    return [encode_work(chunk_of(whole, row), LOAD, json.dumps(CUT, separators=(",", ":"))) for row in range(3)]


@pytest.mark.parametrize(
    "columns",
    [
        {"site": ["Zürich '%s\n", None, ""], "iointensity": [np.nan, 1e300, -0.0], "datasetid": [1, 2, 2**62]},
        {"site": ['],"status":["', "],", ']},"i":{"chunk":['], "username": ["\ud800", 'a"],"', "b"]},
        {"rebrokered_from": [RebrokeredFrom((("],", 1.5),)), None, None]},
    ],
)
def test_many_bodies_read_together_are_as_each_read_alone(columns: dict[str, list[Any]]) -> None:
    data = chunks(**columns)
    alone, together = (joined_work([read(one) for one in data]) for read in (unpacked, unpacked_for_many))
    assert_same(together.work, alone.work)
    assert together.cuts == alone.cuts and len({id(cut) for cut in together.cuts}) == 1
    assert together.load == alone.load == (LOAD,) * 3
    for one in data:
        assert dict(unpacked_for_many(one)) == unpacked(one)


def test_only_text_of_the_usual_form_is_cut() -> None:
    text = unpack_work(chunks()[0], 10**7)
    assert isinstance(cut_text(text), WorkText)
    for part, other in ((b'"held"', b'"x":{},"cut":{"settings":{}},"held"'), (b'"of_share"', b'"plan":{},"of_share"')):
        assert cut_text(text.replace(part, other)) is None
    assert cut_text(unpack_work(encode_work(work()), 10**7)) is None
    for damaged_text in (text[:-2], text[: len(text) // 2], text.replace(b'"r"', b'"q"'), b"", b"[]"):
        assert cut_text(damaged_text) is None


def test_a_damaged_column_of_many() -> None:
    texts = [unpack_work(one, 10**7) for one in chunks()]
    for part, other in (
        (b'"status":["', b'"status":[{"'),
        (b'"status":', b'"stature":'),
        (b'"status":["', b'"status":[1],["'),
    ):
        bodies = [unpacked_for_many(pack_work(one.replace(part, other))) for one in texts]
        with pytest.raises(WorkCorruptError):
            joined_work(bodies)
