"""Where the output and log datasets of tasks would be stored, nucleus by nucleus."""

from __future__ import annotations

from dataclasses import dataclass

from broker.domain.arrays import Bools, Ints


@dataclass(frozen=True)
class OutputEndpoints:
    """The endpoint for each output or log dataset at each nucleus.

    ``token`` (O,) points from the datasets of an :class:`~broker.domain.task_work.OutputTable` into the rows of the
    tables, -1 for a distributed dataset, which has no place of its own. Tables (K, N) hold positions in the storage
    table, -1 for none: ``own`` at the nucleus itself, ``secondary`` at its secondary nucleus, ``written`` like ``own``
    but for a satellite without one, which takes its default output endpoint.
    """

    token: Ints
    own: Ints
    secondary: Ints
    written: Ints
    has_secondary: Bools  # (N,)
