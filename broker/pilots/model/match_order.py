"""In which order the task queues that fit a pilot are tried, and with which random numbers.

Types of jobs are in tiers: nothing of a later tier is given while there is a job of an earlier one. Within a tier a
type is drawn by its weight, and within the type a task queue by its own, which comes from share, group, owner and
priority. Source: DiracX, ordering of matched jobs, v0.1 (code) and v0.2.
"""

from __future__ import annotations

import hashlib

import numpy as np

from broker.domain.arrays import Floats, Ints

LAST_TIER = 1000
"""Tier of types that have no tier of their own."""


def draw(weights: Floats, generator: np.random.Generator) -> Ints:
    """All positions in an order drawn at random: the first is each one with a chance in proportion to its weight."""
    # the least of independent exponential times is that of each one in proportion to its rate
    return np.argsort(generator.standard_exponential(len(weights)) / weights, kind="stable")


def draw_in_tiers(
    tiers: Ints, types: Ints, type_weights: Floats, weights: Floats, generator: np.random.Generator
) -> Ints:
    """The positions of task queues in the order in which they are tried; all arguments are of shape (K,).

    Args:
        tiers: tiers of their types; the least comes first.
        types: types of their jobs, as small numbers from 0 on.
        type_weights: positive weights of the types; task queues of one type have the same.
        weights: positive weights within their type.
        generator: random generator of the draw.
    """
    if not len(weights):
        return np.zeros(0, dtype=np.int64)
    times = generator.standard_exponential(len(weights)) / weights
    of_types = generator.standard_exponential(int(types.max()) + 1)[types] / type_weights
    return np.lexsort((times, types, of_types, tiers))


def seed_of(pilot: str, request_number: int) -> int:
    """The seed of a request that has a number: the same request draws the same among the same task queues."""
    return int.from_bytes(hashlib.blake2b(f"{request_number}:{pilot}".encode(), digest_size=8).digest())
