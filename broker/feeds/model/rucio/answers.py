"""Rucio's answer about one dataset or container as a record of the replica catalogue, and when it is requested again.

:func:`read_answer` checks an answer. :func:`due` chooses which datasets are requested next; the interval of a dataset
grows while its answers stay the same (:class:`Pace`, in s).

Source: Rucio client, list_dataset_replicas, list_dataset_replicas_vp, list_content, get_metadata, list_replicas.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from broker.domain.work import DroppedRow
from broker.feeds.model.rows import dropped_row, named, whole_number
from broker.snapshot.raw import BadValueError

Did = tuple[str, str]

FOUND, NOT_FOUND = "found", "not_found"
#: State and name of a virtual placement. Source: PanDA data model, look-up of endpoints.
VIRTUAL_PLACEMENT, _VP_SUFFIX = "VP", "_VP_DISK"
AVAILABLE = "AVAILABLE"
_LONGEST_RSE, _LONGEST_NAME = 256, 500
_CONTAINER, _DATASET = "CONTAINER", "DATASET"


@dataclass(frozen=True)
class RawAnswer:
    """Rucio's answer about a DID, unchecked.

    Attributes:
        did: scope and name.
        metadata: its metadata; None when Rucio does not know it.
        replicas: rows of its replicas, if it is a dataset.
        contents: its constituents, if it is a container.
        virtual: rows of virtual placement.
        files: rows of the replicas of its files; None when not requested.
        rules: groupings of its replication rules; None when not requested.
    """

    did: Did
    metadata: Mapping[str, Any] | None
    replicas: tuple[Mapping[str, Any], ...] = ()
    contents: tuple[Mapping[str, Any], ...] = ()
    virtual: tuple[Mapping[str, Any], ...] = ()
    files: tuple[Mapping[str, Any], ...] | None = None
    rules: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Replica:
    """A row of ``dataset_replicas`` without the DID. NULL is None."""

    rse: str
    is_tape: bool | None
    available_files: int | None
    total_files: int | None
    available_bytes: int | None
    total_bytes: int | None
    state: str | None


@dataclass(frozen=True)
class DatasetReply:
    """The record of a DID for the catalogue.

    Attributes:
        did: scope and name.
        outcome: ``found`` or ``not_found``.
        did_type: DATASET or CONTAINER.
        length: number of files, None when unknown.
        is_open: whether files may still be added.
        rules: groupings of its replication rules, None when not requested.
        replicas: by endpoint.
        contents: constituents of a container.
        files: (scope, name, endpoint) of available files; None when not requested.
        file_names: (scope, name) of all requested files.
        dropped_rows: rows that cannot be used.
    """

    did: Did
    outcome: str
    did_type: str | None = None
    length: int | None = None
    is_open: bool | None = None
    rules: tuple[str, ...] | None = None
    replicas: tuple[Replica, ...] = ()
    contents: tuple[Did, ...] = ()
    files: frozenset[tuple[str, str, str]] | None = None
    file_names: tuple[Did, ...] = ()
    dropped_rows: tuple[DroppedRow, ...] = field(default=())

    @property
    def is_container(self) -> bool:
        """Whether the DID is a container: its constituents are requested in turn."""
        return self.did_type == _CONTAINER

    @property
    def needs_files(self) -> bool:
        """Whether single files matter: some endpoint holds a part, and no disk holds everything."""
        stored = [row for row in self.replicas if row.state != VIRTUAL_PLACEMENT and row.available_files]
        whole_on_disk = any(row.available_files == row.total_files and not row.is_tape for row in stored)
        return not whole_on_disk and any(row.available_files != row.total_files for row in stored)

    def digest(self) -> str:
        """Return a digest that is equal for equal answers."""
        files = None if self.files is None else sorted(self.files)
        replicas = sorted(
            (
                one.rse,
                one.is_tape,
                one.available_files,
                one.total_files,
                one.available_bytes,
                one.total_bytes,
                one.state,
            )
            for one in self.replicas
        )
        about = (self.outcome, self.did_type, self.length, self.is_open, self.rules, replicas, self.contents, files)
        return hashlib.sha256(json.dumps(about, default=list).encode()).hexdigest()


def read_answer(raw: RawAnswer, tape: Mapping[str, bool]) -> DatasetReply:
    """Check the values of an answer; ``tape`` tells which endpoints are tape."""
    if raw.metadata is None:
        return DatasetReply(raw.did, NOT_FOUND)
    dropped_rows: list[DroppedRow] = []
    identifier = ":".join(raw.did)
    try:
        length = whole_number(raw.metadata.get("length"), "length")
    except BadValueError as bad:
        dropped_rows.append(dropped_row("rucio", identifier, bad))
        length = None
    replicas = [*_replicas(raw, tape, dropped_rows), *_virtual(raw, length, dropped_rows)]
    is_open = raw.metadata.get("is_open")
    return DatasetReply(
        raw.did,
        FOUND,
        did_type=_CONTAINER if str(raw.metadata.get("did_type")).upper().endswith(_CONTAINER) else _DATASET,
        length=length,
        is_open=is_open if isinstance(is_open, bool) else None,
        rules=raw.rules,
        replicas=tuple({one.rse: one for one in replicas}.values()),
        contents=_contents(raw, dropped_rows),
        files=None if raw.files is None else frozenset(_files(raw.files, identifier, dropped_rows)),
        file_names=_file_names(raw.files or ()),
        dropped_rows=tuple(dropped_rows),
    )


def _replicas(raw: RawAnswer, tape: Mapping[str, bool], dropped_rows: list[DroppedRow]) -> Iterable[Replica]:
    for row in raw.replicas:
        try:
            yield _replica(row, tape)
        except BadValueError as bad:
            dropped_rows.append(dropped_row("rucio", ":".join(raw.did), bad))


def _replica(row: Mapping[str, Any], tape: Mapping[str, bool]) -> Replica:
    rse = named(row.get("rse"), "rse", _LONGEST_RSE)
    keys = ("available_length", "length", "available_bytes", "bytes")
    available, total, available_bytes, total_bytes = (whole_number(row.get(key), key) for key in keys)
    if available is not None and total is not None and available > total:
        raise BadValueError("out_of_range", "available_length", available)
    state = row.get("state")
    return Replica(rse, tape.get(rse), available, total, available_bytes, total_bytes, _state(state))


def _state(value: Any) -> str | None:
    return None if value is None else str(getattr(value, "name", value))[:40]


def _virtual(raw: RawAnswer, length: int | None, dropped_rows: list[DroppedRow]) -> Iterable[Replica]:
    for row in raw.virtual:
        if row.get("vp") is not True:
            continue
        try:
            site = named(row.get("site"), "site", _LONGEST_RSE)
        except BadValueError as bad:
            dropped_rows.append(dropped_row("rucio", ":".join(raw.did), bad))
            continue
        yield Replica(f"{site}{_VP_SUFFIX}", False, length, length, None, None, VIRTUAL_PLACEMENT)


def _contents(raw: RawAnswer, dropped_rows: list[DroppedRow]) -> tuple[Did, ...]:
    dids: set[Did] = set()
    for row in raw.contents:
        try:
            dids.add((named(row.get("scope"), "scope", _LONGEST_NAME), named(row.get("name"), "name", _LONGEST_NAME)))
        except BadValueError as bad:
            dropped_rows.append(dropped_row("rucio", ":".join(raw.did), bad))
    return tuple(sorted(dids - {raw.did}))


def _files(
    rows: Iterable[Mapping[str, Any]], identifier: str, dropped_rows: list[DroppedRow]
) -> Iterable[tuple[str, str, str]]:
    for row in rows:
        try:
            scope = named(row.get("scope"), "scope", _LONGEST_NAME)
            name = named(row.get("name"), "name", _LONGEST_NAME)
            for rse, state in _states(row).items():
                if state == AVAILABLE:
                    yield scope, name, named(rse, "rse", _LONGEST_RSE)
        except BadValueError as bad:
            dropped_rows.append(dropped_row("rucio", identifier, bad))


def _file_names(rows: Iterable[Mapping[str, Any]]) -> tuple[Did, ...]:
    pairs = ((row.get("scope"), row.get("name")) for row in rows)
    return tuple(sorted({(scope, name) for scope, name in pairs if isinstance(scope, str) and isinstance(name, str)}))


def _states(row: Mapping[str, Any]) -> Mapping[Any, Any]:
    """The state by endpoint; without states, every named endpoint holds the file."""
    states, rses = row.get("states"), row.get("rses")
    if isinstance(states, Mapping) and states:
        return states
    return {} if not isinstance(rses, Mapping) else dict.fromkeys(rses, AVAILABLE)


SAME_TIME_S = 300
"""Seconds within which datasets count as due together; among them the most urgent are requested first."""


@dataclass(frozen=True)
class Pace:
    """How often a dataset is requested.

    Attributes:
        first_s: seconds until the second request, and after each change.
        longest_s: most seconds between two requests.
        growth: factor by which the interval grows while nothing changes.
        failed_s: seconds until the next attempt after one without an answer, doubled each time up to ``longest_s``.
    """

    first_s: float = 300.0
    longest_s: float = 1500.0
    growth: float = 2.0
    failed_s: float = 60.0


PACE = Pace()


@dataclass(frozen=True)
class RequestRecord:
    """The record of the requests for a DID.

    Attributes:
        did: scope and name.
        next_at: when it is to be requested again (aware).
        interval_s: the last interval between requests.
        digest: of the last answer; None without one.
        failures: attempts in a row without an answer.
    """

    did: Did
    next_at: datetime
    interval_s: float
    digest: str | None
    failures: int = 0


@dataclass(frozen=True)
class Needed:
    """A DID that brokerage needs; those with the lowest urgency value are needed soonest."""

    did: Did
    urgency: int


def due(
    needed: Iterable[Needed], records: dict[Did, RequestRecord], now: datetime, most: int, pace: Pace = PACE
) -> list[Did]:
    """Return up to ``most`` DIDs to request now: those without an answer first, by urgency, then those that are due.

    DIDs that became due in the same few minutes are ordered by urgency as well. None waits behind others that became
    due later, so all stay fresh when there is more to request than there is time. A time further ahead than the longest
    interval was set by a wrong clock: such a DID is due.

    Args:
        needed: the DIDs that brokerage needs; the lowest urgency is needed soonest.
        records: the records of requests, by DID.
        now: the instant (aware).
        most: the number of DIDs at most.
        pace: how often DIDs are requested.
    """
    furthest = now + timedelta(seconds=max(pace.first_s, pace.longest_s))
    ranks: dict[Did, tuple[bool, int, int]] = {}
    for need in needed:
        record = records.get(need.did)
        if record is not None and now < record.next_at <= furthest:
            continue
        answered = record is not None and record.digest is not None
        due_slot = 0 if record is None or not answered else int(record.next_at.timestamp() // SAME_TIME_S)
        rank = (answered, due_slot, need.urgency)
        ranks[need.did] = min(ranks.get(need.did, rank), rank)
    return sorted(ranks, key=lambda did: (ranks[did], did))[:most]


def after_answer(did: Did, before: RequestRecord | None, digest: str, now: datetime, pace: Pace) -> RequestRecord:
    """Return the record after an answer at ``now``: the interval grows while the answers stay the same."""
    same = before is not None and before.digest == digest
    interval_s = min(pace.longest_s, before.interval_s * pace.growth) if same and before is not None else pace.first_s
    return RequestRecord(did, now + timedelta(seconds=interval_s), interval_s, digest)


def after_failure(did: Did, before: RequestRecord | None, now: datetime, pace: Pace) -> RequestRecord:
    """Return the record after an attempt at ``now`` without an answer: the last digest stays."""
    failures = 1 if before is None else before.failures + 1
    wait_s = min(pace.longest_s, pace.failed_s * 2.0 ** min(failures - 1, 30))
    interval_s = pace.first_s if before is None else before.interval_s
    return RequestRecord(
        did, now + timedelta(seconds=wait_s), interval_s, None if before is None else before.digest, failures
    )
