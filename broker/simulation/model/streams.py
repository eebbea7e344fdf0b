"""Random streams: one for each seed, entity and purpose.

A policy that starts more jobs at one queue must not change the failures of another one: otherwise two policies are
compared on different draws, and pairing by seed is lost.
"""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, entity: str | int, purpose: str) -> np.random.Generator:
    """The stream of one entity for one purpose; equal arguments give equal draws.

    Args:
        seed: seed of the simulation, not negative.
        entity: name of a queue, site or user, or number of a task.
        purpose: purpose of the draws, such as ``outage``.
    """
    number = entity if isinstance(entity, int) else zlib.crc32(entity.encode())
    key = (int(isinstance(entity, int)), number, zlib.crc32(purpose.encode()))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
