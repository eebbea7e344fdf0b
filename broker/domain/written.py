"""What a write-back did, as the decisions need it: which of their rows were kept."""

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
        """What was written, by name, for the report of the agent."""
        ...
