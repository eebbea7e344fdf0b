"""Asking Rucio everything about one dataset or container, with as few questions as will do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from broker.feeds.model.rucio.answers import Answer, Did, RawAnswer, read_answer
from broker.feeds.model.rucio.client import NotAtRucio, Rucio

_CONTAINER = "CONTAINER"


@dataclass(frozen=True)
class Known:
    """What the last answer said of a DID.

    Attributes:
        replicas_digest: of the rows of its replicas.
        settled: it is a closed dataset, of which nothing but the replicas changes.
    """

    replicas_digest: str | None = None
    settled: bool = False


@dataclass(frozen=True)
class Heard:
    """What was heard of a DID: an answer, or that everything is as before.

    Attributes:
        did: scope and name.
        replicas_digest: of the rows of its replicas.
        answer: None when the replicas of a closed dataset are as before.
    """

    did: Did
    replicas_digest: str
    answer: Answer | None


@dataclass(frozen=True)
class Questions:
    """Which questions are asked.

    Attributes:
        virtual_placement: ask for virtual placements.
        most_files: files of a dataset that are looked up one by one; a larger one is not.
    """

    virtual_placement: bool = False
    most_files: int = 10_000


def ask(rucio: Rucio, did: Did, known: Known, tape: Mapping[str, bool], questions: Questions) -> Heard:
    """What Rucio says of ``did``.

    Replicas are asked for first: as long as they are as before, a closed dataset needs no other question.

    Raises:
        RucioUnavailable: there was no answer.
    """
    if known.settled:
        try:
            replicas, _ = _replicas(rucio, did)
        except NotAtRucio:
            return Heard(did, "", read_answer(RawAnswer(did, None), tape))
        digest = digest_of(replicas)
        if digest == known.replicas_digest and not questions.virtual_placement:
            return Heard(did, digest, None)
    try:
        metadata = rucio.metadata(did)
        if str(metadata.get("did_type")).upper().endswith(_CONTAINER):
            raw = RawAnswer(did, metadata, contents=tuple(rucio.contents(did)), rules=rucio.rule_groupings(did))
            return Heard(did, digest_of([]), read_answer(raw, tape))
        found, deep = _replicas(rucio, did)
        virtual = tuple(rucio.virtual_placements(did, deep=deep)) if questions.virtual_placement else ()
        raw = RawAnswer(did, metadata, tuple(found), virtual=virtual, rules=rucio.rule_groupings(did))
    except NotAtRucio:
        return Heard(did, "", read_answer(RawAnswer(did, None), tape))
    return Heard(did, digest_of(found), _with_files(rucio, raw, tape, questions))


def _with_files(rucio: Rucio, raw: RawAnswer, tape: Mapping[str, bool], questions: Questions) -> Answer:
    """The answer, with single files where they matter."""
    answer = read_answer(raw, tape)
    if not answer.needs_files or (answer.length or 0) > questions.most_files:
        return answer
    return read_answer(replace(raw, files=tuple(rucio.file_replicas(raw.did))), tape)


def _replicas(rucio: Rucio, did: Did) -> tuple[list[Mapping[str, Any]], bool]:
    """The replicas as daemons have noted them, else as the files say; and whether it was the files.

    Of a dataset that was made with its rule, daemons have noted nothing but its places until they have counted.
    """
    noted = rucio.dataset_replicas(did, deep=False)
    if any(row.get("available_length") for row in noted):
        return noted, False
    counted = rucio.dataset_replicas(did, deep=True)
    return (counted, True) if counted else (noted, False)


def digest_of(rows: list[Mapping[str, Any]]) -> str:
    """Equal for rows that say the same of where a dataset is."""
    keys = ("rse", "length", "available_length", "bytes", "available_bytes", "state")
    said = sorted(json.dumps([row.get(key) for key in keys], default=str) for row in rows)
    return hashlib.sha256("\n".join(said).encode()).hexdigest()
