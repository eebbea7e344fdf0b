"""Query Rucio about one dataset or container completely, with as few requests as possible."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from broker.errors import BrokerError
from broker.feeds.model.rucio.answers import DatasetReply, Did, RawAnswer, read_answer


class RucioUnavailable(BrokerError):
    """Rucio gave no answer."""


class NotAtRucio(BrokerError):
    """Rucio does not know what was requested."""


class Rucio(Protocol):
    """The queries of feeds to Rucio; every method raises :class:`RucioUnavailable` without an answer."""

    def metadata(self, did: Did) -> Mapping[str, Any]:
        """Metadata of a DID; raises :class:`NotAtRucio`."""

    def dataset_replicas(self, did: Did, *, deep: bool) -> list[Mapping[str, Any]]:
        """Replicas of a dataset, ``deep`` from its files; raises :class:`NotAtRucio`."""

    def virtual_placements(self, did: Did, *, deep: bool) -> list[Mapping[str, Any]]:
        """Virtual placements of a dataset that can be read from somewhere, ``deep`` by its files."""

    def contents(self, did: Did) -> list[Mapping[str, Any]]:
        """Constituents of a container; raises :class:`NotAtRucio`."""

    def files(self, did: Did) -> Iterator[Mapping[str, Any]]:
        """Files of a dataset, or of all datasets of a container, as they come; raises :class:`NotAtRucio`."""

    def rule_groupings(self, did: Did) -> tuple[str, ...]:
        """Groupings of the replication rules of a DID."""

    def file_replicas(self, did: Did) -> list[Mapping[str, Any]]:
        """Replicas of the files of a dataset; raises :class:`NotAtRucio`."""

    def tape_endpoints(self) -> dict[str, bool]:
        """Whether each RSE is tape."""

    def space(self, rse: str) -> list[Mapping[str, Any]]:
        """Rows of the usage of an RSE; raises :class:`NotAtRucio`."""

    def local_usage(self, account: str) -> list[Mapping[str, Any]]:
        """Usage and limits of an account by RSE; raises :class:`NotAtRucio`."""

    def global_usage(self, account: str) -> list[Mapping[str, Any]]:
        """Usage and limits of an account by RSE expression; raises :class:`NotAtRucio`."""


_CONTAINER = "CONTAINER"


@dataclass(frozen=True)
class LastReply:
    """What is known of a DID from the last answer.

    Attributes:
        replicas_digest: of the rows of its replicas.
        settled: whether it is a closed dataset, of which only the replicas change.
    """

    replicas_digest: str | None = None
    settled: bool = False


@dataclass(frozen=True)
class DatasetUpdate:
    """The response for a DID: an answer, or that nothing has changed.

    Attributes:
        did: scope and name.
        replicas_digest: of the rows of its replicas.
        answer: None when the replicas of a closed dataset are unchanged.
    """

    did: Did
    replicas_digest: str
    answer: DatasetReply | None


@dataclass(frozen=True)
class Questions:
    """Which queries are made.

    Attributes:
        virtual_placement: query virtual placements.
        most_files: most files of a dataset that is looked up file by file.
    """

    virtual_placement: bool = False
    most_files: int = 10_000


def ask(rucio: Rucio, did: Did, known: LastReply, tape: Mapping[str, bool], questions: Questions) -> DatasetUpdate:
    """Query Rucio about ``did``.

    Replicas are queried first: while they are unchanged, a closed dataset needs no other query.

    Raises:
        RucioUnavailable: there was no answer.
    """
    if known.settled:
        try:
            replicas, _ = _replicas(rucio, did)
        except NotAtRucio:
            return DatasetUpdate(did, "", read_answer(RawAnswer(did, None), tape))
        digest = digest_of(replicas)
        if digest == known.replicas_digest and not questions.virtual_placement:
            return DatasetUpdate(did, digest, None)
    try:
        metadata = rucio.metadata(did)
        if str(metadata.get("did_type")).upper().endswith(_CONTAINER):
            raw = RawAnswer(did, metadata, contents=tuple(rucio.contents(did)), rules=rucio.rule_groupings(did))
            return DatasetUpdate(did, digest_of([]), read_answer(raw, tape))
        replicas, deep = _replicas(rucio, did)
        virtual = tuple(rucio.virtual_placements(did, deep=deep)) if questions.virtual_placement else ()
        raw = RawAnswer(did, metadata, tuple(replicas), virtual=virtual, rules=rucio.rule_groupings(did))
        return DatasetUpdate(did, digest_of(replicas), _with_files(rucio, raw, tape, questions))
    except NotAtRucio:
        return DatasetUpdate(did, "", read_answer(RawAnswer(did, None), tape))


def _with_files(rucio: Rucio, raw: RawAnswer, tape: Mapping[str, bool], questions: Questions) -> DatasetReply:
    """The answer, with single files where they matter."""
    answer = read_answer(raw, tape)
    if not answer.needs_files or (answer.length or 0) > questions.most_files:
        return answer
    return read_answer(replace(raw, files=tuple(rucio.file_replicas(raw.did))), tape)


def _replicas(rucio: Rucio, did: Did) -> tuple[list[Mapping[str, Any]], bool]:
    """Return the replicas as recorded by Rucio's daemons, else as counted from files; and whether they were counted.

    Of a dataset created with its rule, daemons have recorded only the locations until they have counted its files.
    """
    recorded = rucio.dataset_replicas(did, deep=False)
    if any(row.get("available_length") for row in recorded):
        return recorded, False
    counted = rucio.dataset_replicas(did, deep=True)
    return (counted, True) if counted else (recorded, False)


def digest_of(rows: list[Mapping[str, Any]]) -> str:
    """Return a digest that is equal for rows with the same locations of a dataset."""
    keys = ("rse", "length", "available_length", "bytes", "available_bytes", "state")
    lines = sorted(json.dumps([row.get(key) for key in keys], default=str) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
