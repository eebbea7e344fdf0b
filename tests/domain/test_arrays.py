"""Columns and tables of columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from broker.domain.arrays import (
    Floats,
    Texts,
    as_column,
    as_row,
    codes_of,
    distinct,
    floats,
    frozen,
    taken,
    texts,
)


@dataclass(frozen=True)
class Pair:
    number: Floats
    word: Texts
    note: str = "kept"


def pair() -> Pair:
    return Pair(floats([1, None, 3]), texts(["a", None, "c"]))


def test_null_is_nan_or_none() -> None:
    table = pair()
    assert (table.number[0], table.word[1]) == (1.0, None)
    assert math.isnan(table.number[1])
    assert texts([]).shape == floats([]).shape == (0,)


def test_texts_of_equal_length_stay_texts() -> None:
    # numpy would turn them into an array of characters
    assert texts(["ab", "cd"]).tolist() == ["ab", "cd"]
    assert texts(["ab", "cd"]).dtype == np.object_


def test_shapes() -> None:
    assert as_column(pair()).number.shape == as_column(pair()).word.shape == (3, 1)
    assert as_row(pair()).word.shape == (1, 3)
    assert as_row(pair()).note == "kept"
    table = pair()
    assert np.shares_memory(as_row(table).number, table.number)


@pytest.mark.parametrize("index", [[2, 0], np.array([2, 0]), slice(2, None, -2)])
def test_taken(index: object) -> None:
    assert taken(pair(), index).word.tolist() == ["c", "a"]  # type: ignore[arg-type]


def test_codes() -> None:
    assert codes_of(texts(["b", None, "x", "a"]), ["a", "b"]).tolist() == [1, -1, -1, 0]
    assert codes_of(texts(["b", None]).reshape(2, 1), [None, "b"]).tolist() == [[1], [0]]


def test_distinct() -> None:
    names, codes = distinct(texts(["b", None, "b", "a"]))
    assert (names, codes.tolist()) == (["b", None, "a"], [0, 1, 0, 2])
    assert distinct(texts([]))[0] == []


def test_a_frozen_column_cannot_be_written() -> None:
    column = frozen(floats([1]))
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 2
