"""What is written to Rucio: datasets with their rules, and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from broker.errors import BrokerError
from broker.feeds.model.rucio.answers import Did

CLOSED, MISMATCH, NOT_VALID, NO_RSE, NO_DID = (
    "UnsupportedOperation",
    "FileConsistencyMismatch",
    "InvalidObject",
    "RSENotFound",
    "DataIdentifierNotFound",
)
"""Kinds of :class:`RucioRefused`: names of Rucio's exceptions."""
EXISTS = ("DataIdentifierAlreadyExists", "DuplicateContent", "FileAlreadyExists", "DuplicateRule")


class RucioRefused(BrokerError):
    """Rucio did not carry out the request.

    Attributes:
        kind: name of its exception.
    """

    def __init__(self, kind: str, what: str) -> None:
        """``what``: in Rucio's words."""
        super().__init__(f"{kind}: {what}", "Rucio")
        self.kind = kind


@dataclass(frozen=True)
class DatasetState:
    """The state of a dataset in Rucio: whether files may be added, how many there are, and their bytes."""

    is_dataset: bool
    is_open: bool
    files: int
    bytes: int


@dataclass(frozen=True)
class Rule:
    """A replication rule of a dataset; ``account`` None: that of the client; ``lifetime_s`` None: for ever."""

    rse_expression: str
    copies: int = 1
    lifetime_s: int | None = None
    account: str | None = None


class RucioWriter(Protocol):
    """What the broker writes to Rucio.

    Every method raises :class:`broker.feeds.model.rucio.questions.RucioUnavailable` or :class:`RucioRefused`.
    """

    def add_dataset(self, did: Did, rule: Rule | None) -> None:
        """Create a dataset with its rule; an existing one gets the rule if it has none such."""

    def add_to_container(self, container: Did, did: Did) -> None:
        """Attach a dataset to a container, which is created if it does not exist."""

    def add_files(self, did: Did, rse: str, files: Sequence[Mapping[str, Any]]) -> None:
        """Register files at an RSE and attach them to a dataset: all of them, or none."""

    def about_files(self, dids: Sequence[Did]) -> dict[Did, Mapping[str, Any]]:
        """The metadata of those files that Rucio knows."""

    def files_of(self, did: Did) -> Iterator[Mapping[str, Any]]:
        """The files of a dataset."""

    def state_of(self, did: Did) -> DatasetState:
        """The current state of a dataset, counted anew."""

    def set_open(self, did: Did, is_open: bool) -> None:
        """Close a dataset, or open it again; nothing if it already is so."""
