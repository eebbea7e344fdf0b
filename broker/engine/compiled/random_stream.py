"""The numbers that numpy's default generator draws from a seed of four words, without creating a generator.

Source: numpy, SeedSequence and PCG64 (O'Neill, PCG: setseq, XSL-RR, 128 bits), bounded integers by Lemire's method.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import AnyArray, Ints
from broker.engine.compiled.jit import compiled

_WORD = np.uint64(0xFFFFFFFF)
_0, _1, _11, _16, _32, _58, _63, _64 = (np.uint64(one) for one in (0, 1, 11, 16, 32, 58, 63, 64))
_INIT_A, _MULT_A = np.uint64(0x43B0D7E5), np.uint64(0x931E8875)
_INIT_B, _MULT_B = np.uint64(0x8B51F9DD), np.uint64(0x58F38DED)
_MIX_LEFT, _MIX_RIGHT = np.uint64(0xCA01F9DD), np.uint64(0x4973F715)
_HIGH, _LOW = np.uint64(2549297995355413924), np.uint64(4865540595714422341)
_DOUBLE = 1.0 / 9007199254740992.0
_POOL = 4


@compiled
def _hashed(value: np.uint64, constant: np.uint64, factor: np.uint64) -> tuple[np.uint64, np.uint64]:
    value = value ^ constant
    constant = (constant * factor) & _WORD
    value = (value * constant) & _WORD
    return value ^ (value >> _16), constant


@compiled
def seeded(words: Ints, state: AnyArray) -> None:
    """Fill ``state`` (6,) with the generator of four ``words`` below 2**32: state, increment, half a word left over."""
    pool = np.empty(_POOL, dtype=np.uint64)
    constant = _INIT_A
    for at in range(_POOL):
        pool[at], constant = _hashed(np.uint64(words[at]), constant, _MULT_A)
    for source in range(_POOL):
        for at in range(_POOL):
            if source != at:
                other, constant = _hashed(pool[source], constant, _MULT_A)
                mixed = ((_MIX_LEFT * pool[at]) & _WORD) - ((_MIX_RIGHT * other) & _WORD)
                mixed = mixed & _WORD
                pool[at] = mixed ^ (mixed >> _16)
    hashes = np.empty(2 * _POOL, dtype=np.uint64)
    constant = _INIT_B
    for at in range(2 * _POOL):
        hashes[at], constant = _hashed(pool[at % _POOL], constant, _MULT_B)
    high, low = hashes[0] | (hashes[1] << _32), hashes[2] | (hashes[3] << _32)
    first, second = hashes[4] | (hashes[5] << _32), hashes[6] | (hashes[7] << _32)
    state[2], state[3] = (first << _1) | (second >> _63), (second << _1) | _1
    state[0], state[1], state[4], state[5] = _0, _0, _0, _0
    _step(state)
    total = state[1] + low
    state[0] = state[0] + high + (_1 if total < low else _0)
    state[1] = total
    _step(state)


@compiled
def _high_of_product(one: np.uint64, other: np.uint64) -> np.uint64:
    a, b, c, d = one & _WORD, one >> _32, other & _WORD, other >> _32
    low, left, right = a * c, a * d, b * c
    middle = (low >> _32) + (left & _WORD) + (right & _WORD)
    return b * d + (left >> _32) + (right >> _32) + (middle >> _32)


@compiled
def _step(state: AnyArray) -> None:
    low = state[1] * _LOW
    high = _high_of_product(state[1], _LOW) + state[0] * _LOW + state[1] * _HIGH
    total = low + state[3]
    state[0] = high + state[2] + (_1 if total < low else _0)
    state[1] = total


@compiled
def _next(state: AnyArray) -> np.uint64:
    _step(state)
    mixed, turn = state[0] ^ state[1], state[0] >> _58
    return np.uint64((mixed >> turn) | (mixed << ((_64 - turn) & _63)))


@compiled
def fraction(state: AnyArray) -> float:
    """A number in [0, 1), as ``Generator.random``."""
    return (_next(state) >> _11) * _DOUBLE


@compiled
def _half(state: AnyArray) -> np.uint64:
    if state[4]:
        state[4] = _0
        return np.uint64(state[5])
    word = _next(state)
    state[4], state[5] = _1, word >> _32
    return word & _WORD


@compiled
def below(state: AnyArray, count: int) -> int:
    """A whole number from 0 to below ``count``, as ``Generator.integers``; nothing is drawn if ``count`` is 1."""
    if count <= 1:
        return 0
    size = np.uint64(count)
    product = _half(state) * size
    if (product & _WORD) < size:
        least = (_WORD - (size - _1)) % size
        while (product & _WORD) < least:
            product = _half(state) * size
    return int(np.int64(product >> _32))
