"""What Rucio answers about one dataset or container, to what the replica catalogue keeps of it.

Source: Rucio client, list_dataset_replicas, list_dataset_replicas_vp, list_content, get_metadata, list_replicas.

Which datasets are asked for next, and when one is asked for again.
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
    """What Rucio said of a DID.

    Attributes:
        did: scope and name.
        metadata: its metadata; None when Rucio does not know it.
        replicas: rows of its replicas, if it is a dataset.
        contents: its constituents, if it is a container.
        virtual: rows of virtual placement.
        files: rows of the replicas of its files; None when nobody asked.
        rules: groupings of its replication rules; None when nobody asked.
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
class Answer:
    """What the catalogue is to hold of a DID.

    Attributes:
        did: scope and name.
        outcome: ``found`` or ``not_found``.
        did_type: DATASET or CONTAINER.
        length: number of files, None when unknown.
        is_open: whether files may still be added.
        rules: groupings of its replication rules, None when nobody asked.
        replicas: by endpoint.
        contents: constituents of a container.
        files: (scope, name, endpoint) of files that are there; None when nobody asked.
        file_names: (scope, name) of all files that were asked for.
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
        """Whether the DID is a container: its constituents are asked for in turn."""
        return self.did_type == _CONTAINER

    @property
    def needs_files(self) -> bool:
        """Whether single files matter: some endpoint holds a part, and no disk holds everything."""
        stored = [one for one in self.replicas if one.state != VIRTUAL_PLACEMENT and one.available_files]
        whole_on_disk = any(one.available_files == one.total_files and not one.is_tape for one in stored)
        return not whole_on_disk and any(one.available_files != one.total_files for one in stored)

    def digest(self) -> str:
        """Equal for answers that say the same."""
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


def read_answer(raw: RawAnswer, tape: Mapping[str, bool]) -> Answer:
    """The answer with its values checked; ``tape`` says of endpoints whether they are tape."""
    if raw.metadata is None:
        return Answer(raw.did, NOT_FOUND)
    bad_ones: list[DroppedRow] = []
    identifier = ":".join(raw.did)
    try:
        length = whole_number(raw.metadata.get("length"), "length")
    except BadValueError as bad:
        bad_ones.append(dropped_row("rucio", identifier, bad))
        length = None
    replicas = [*_replicas(raw, tape, bad_ones), *_virtual(raw, length, bad_ones)]
    is_open = raw.metadata.get("is_open")
    return Answer(
        raw.did,
        FOUND,
        did_type=_CONTAINER if str(raw.metadata.get("did_type")).upper().endswith(_CONTAINER) else _DATASET,
        length=length,
        is_open=is_open if isinstance(is_open, bool) else None,
        rules=raw.rules,
        replicas=tuple({one.rse: one for one in replicas}.values()),
        contents=_contents(raw, bad_ones),
        files=None if raw.files is None else frozenset(_files(raw.files, identifier, bad_ones)),
        file_names=_file_names(raw.files or ()),
        dropped_rows=tuple(bad_ones),
    )


def _replicas(raw: RawAnswer, tape: Mapping[str, bool], bad_ones: list[DroppedRow]) -> Iterable[Replica]:
    for row in raw.replicas:
        try:
            yield _replica(row, tape)
        except BadValueError as bad:
            bad_ones.append(dropped_row("rucio", ":".join(raw.did), bad))


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


def _virtual(raw: RawAnswer, length: int | None, bad_ones: list[DroppedRow]) -> Iterable[Replica]:
    for row in raw.virtual:
        if row.get("vp") is not True:
            continue
        try:
            site = named(row.get("site"), "site", _LONGEST_RSE)
        except BadValueError as bad:
            bad_ones.append(dropped_row("rucio", ":".join(raw.did), bad))
            continue
        yield Replica(f"{site}{_VP_SUFFIX}", False, length, length, None, None, VIRTUAL_PLACEMENT)


def _contents(raw: RawAnswer, bad_ones: list[DroppedRow]) -> tuple[Did, ...]:
    found: set[Did] = set()
    for row in raw.contents:
        try:
            found.add((named(row.get("scope"), "scope", _LONGEST_NAME), named(row.get("name"), "name", _LONGEST_NAME)))
        except BadValueError as bad:
            bad_ones.append(dropped_row("rucio", ":".join(raw.did), bad))
    return tuple(sorted(found - {raw.did}))


def _files(
    rows: Iterable[Mapping[str, Any]], identifier: str, bad_ones: list[DroppedRow]
) -> Iterable[tuple[str, str, str]]:
    for row in rows:
        try:
            scope = named(row.get("scope"), "scope", _LONGEST_NAME)
            name = named(row.get("name"), "name", _LONGEST_NAME)
            for rse, state in _states(row).items():
                if state == AVAILABLE:
                    yield scope, name, named(rse, "rse", _LONGEST_RSE)
        except BadValueError as bad:
            bad_ones.append(dropped_row("rucio", identifier, bad))


def _file_names(rows: Iterable[Mapping[str, Any]]) -> tuple[Did, ...]:
    pairs = ((row.get("scope"), row.get("name")) for row in rows)
    return tuple(sorted({(scope, name) for scope, name in pairs if isinstance(scope, str) and isinstance(name, str)}))


def _states(row: Mapping[str, Any]) -> Mapping[Any, Any]:
    """State by endpoint; without states every endpoint named holds the file."""
    states, rses = row.get("states"), row.get("rses")
    if isinstance(states, Mapping) and states:
        return states
    return {} if not isinstance(rses, Mapping) else dict.fromkeys(rses, AVAILABLE)


SAME_TIME_S = 300
"""Seconds within which datasets count as due together; among them the most urgent are requested first."""


@dataclass(frozen=True)
class Pace:
    """How often a dataset is asked for.

    Attributes:
        first_s: seconds until the second time, and after each change.
        longest_s: seconds between two times at most.
        growth: by which the time grows while nothing changes.
        failed_s: seconds until another try after one that got no answer, doubled each time up to ``longest_s``.
    """

    first_s: float = 300.0
    longest_s: float = 1500.0
    growth: float = 2.0
    failed_s: float = 60.0


PACE = Pace()


@dataclass(frozen=True)
class Asked:
    """What is on record of a DID that was asked for.

    Attributes:
        did: scope and name.
        next_at: when it is to be asked for again (aware).
        interval_s: the time that was waited last.
        digest: of the last answer; None without one.
        failures: tries in a row that got no answer.
    """

    did: Did
    next_at: datetime
    interval_s: float
    digest: str | None
    failures: int = 0


@dataclass(frozen=True)
class Needed:
    """A DID that brokerage needs: the soonest needed ones come first."""

    did: Did
    urgency: int


def due(needed: Iterable[Needed], asked: dict[Did, Asked], now: datetime, most: int, pace: Pace = PACE) -> list[Did]:
    """The DIDs to ask for now, at most ``most``: those without an answer first, by urgency, then those that are due.

    Those that became due in the same few minutes are asked for by urgency as well; but none waits behind others that
    became due later, so that all stay fresh when there is more to ask for than there is time. A time that lies further
    ahead than anybody waits was set by a wrong clock: such a DID is due.

    Args:
        needed: what brokerage needs; a small urgency is needed soonest.
        asked: what is on record, by DID.
        now: the instant (aware).
        most: how many may be asked for.
        pace: how long is waited at most.
    """
    furthest = now + timedelta(seconds=max(pace.first_s, pace.longest_s))
    found: dict[Did, tuple[bool, int, int]] = {}
    for one in needed:
        record = asked.get(one.did)
        if record is not None and now < record.next_at <= furthest:
            continue
        answered = record is not None and record.digest is not None
        waited = 0 if record is None or not answered else int(record.next_at.timestamp() // SAME_TIME_S)
        rank = (answered, waited, one.urgency)
        found[one.did] = min(found.get(one.did, rank), rank)
    return sorted(found, key=lambda did: (found[did], did))[:most]


def after_answer(did: Did, before: Asked | None, digest: str, now: datetime, pace: Pace) -> Asked:
    """The record after an answer at ``now``: the time until the next one grows while the answers say the same."""
    same = before is not None and before.digest == digest
    grown = min(pace.longest_s, before.interval_s * pace.growth) if same and before is not None else pace.first_s
    return Asked(did, now + timedelta(seconds=grown), grown, digest)


def after_failure(did: Did, before: Asked | None, now: datetime, pace: Pace) -> Asked:
    """The record after a try at ``now`` that got no answer: what was known stays."""
    failures = 1 if before is None else before.failures + 1
    wait_s = min(pace.longest_s, pace.failed_s * 2.0 ** min(failures - 1, 30))
    interval_s = pace.first_s if before is None else before.interval_s
    return Asked(did, now + timedelta(seconds=wait_s), interval_s, None if before is None else before.digest, failures)
