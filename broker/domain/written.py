"""The result of a write-back that decisions need: which of their rows were written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from broker.domain.arrays import Bools


class Written(Protocol):
    """The outcome of writing the rows of a batch. A brokerage whose rows are not jobs has no ``kept``."""

    @property
    def kept(self) -> Bools | None:
        """(J,) for each job of the batch whether it was written; None where rows are not jobs."""
        ...

    @property
    def tasks_skipped(self) -> frozenset[int]:
        """Tasks that had changed or were locked, so that nothing of theirs was written."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts of written rows by name, for the agent's report."""
        ...
