"""The first number that numpy's default generator draws from each of many seeds, in one pass over all of them.

Making a generator takes longer than what else is done to draw once. Source: numpy, SeedSequence and PCG64 (O'Neill,
PCG: setseq, XSL-RR, 128 bits); as :mod:`broker.engine.compiled.random_stream`, which draws more than one number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from broker.domain.arrays import Floats, Ints

Words = NDArray[np.uint64]

#: A seed that is larger takes more than one word of the pool.
ONE_WORD = 2**32
_POOL = 4
_WORD = np.uint64(ONE_WORD - 1)
_1, _11, _16, _32, _58, _63, _64 = (np.uint64(one) for one in (1, 11, 16, 32, 58, 63, 64))
_INIT_A, _MULT_A = 0x43B0D7E5, 0x931E8875
_INIT_B, _MULT_B = 0x8B51F9DD, 0x58F38DED
_MIX_LEFT, _MIX_RIGHT = np.uint64(0xCA01F9DD), np.uint64(0x4973F715)
_HIGH, _LOW = np.uint64(2549297995355413924), np.uint64(4865540595714422341)
_DOUBLE = 1.0 / 9007199254740992.0


def first_fractions(first: int, second: int, last: Ints) -> Floats:
    """(T,): the first draw of ``numpy.random.default_rng([first, second, one])`` for each ``one`` of ``last``.

    Args:
        first: not negative.
        second: not negative.
        last: (T,), not negative.

    >>> first_fractions(7, 8, np.array([9])).tolist() == [np.random.default_rng([7, 8, 9]).random()]
    True
    """
    if max(first, second, *last.tolist(), 0) >= ONE_WORD:
        return np.array([np.random.default_rng([first, second, one]).random() for one in last.tolist()])
    words = [np.full(last.shape, word, dtype=np.uint64) for word in (first, second, 0, 0)]
    words[2][:] = last
    pool = _mixed(words)
    made, constant = [], _INIT_B
    for at in range(2 * _POOL):
        word, constant = _hashed(pool[at % _POOL], constant, _MULT_B)
        made.append(word)
    seed, stream = ((made[at] | made[at + 1] << _32, made[at + 2] | made[at + 3] << _32) for at in (0, 4))
    increment = stream[0] << _1 | stream[1] >> _63, stream[1] << _1 | _1
    # the state begins at 0, so that the first step leaves the increment
    state = _stepped(_sum(increment, seed), increment)
    high, low = _stepped(state, increment)
    mixed, turn = high ^ low, high >> _58
    return np.asarray((mixed >> turn | mixed << (_64 - turn & _63)) >> _11) * _DOUBLE


def _hashed(value: Words, constant: int, factor: int) -> tuple[Words, int]:
    following = constant * factor & (ONE_WORD - 1)
    value = (value ^ np.uint64(constant)) * np.uint64(following) & _WORD
    return value ^ value >> _16, following


def _mixed(words: list[Words]) -> list[Words]:
    """The pool of entropy of four words."""
    pool, constant = [], _INIT_A
    for word in words:
        hashed, constant = _hashed(word, constant, _MULT_A)
        pool.append(hashed)
    for source in range(_POOL):
        for at in range(_POOL):
            if source != at:
                other, constant = _hashed(pool[source], constant, _MULT_A)
                mixed = (_MIX_LEFT * pool[at]) - (_MIX_RIGHT * other) & _WORD
                pool[at] = mixed ^ mixed >> _16
    return pool


def _sum(one: tuple[Words, Words], other: tuple[Words, Words]) -> tuple[Words, Words]:
    """The sum of two 128-bit numbers, as high and low halves."""
    low = one[1] + other[1]
    return one[0] + other[0] + (low < other[1]), low


def _stepped(state: tuple[Words, Words], increment: tuple[Words, Words]) -> tuple[Words, Words]:
    high, low = state
    product = _high_of_product(low) + high * _LOW + low * _HIGH, low * _LOW
    return _sum(product, increment)


def _high_of_product(one: Words) -> Any:
    """The high half of ``one`` times the low half of the multiplier."""
    a, b, c, d = one & _WORD, one >> _32, _LOW & _WORD, _LOW >> _32
    low, left, right = a * c, a * d, b * c
    middle = (low >> _32) + (left & _WORD) + (right & _WORD)
    return b * d + (left >> _32) + (right >> _32) + (middle >> _32)
