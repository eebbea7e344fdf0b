"""Requests for slots as columns, and as they are stored with their decisions."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.codec.work_codec import Body, WorkCorruptError, joined_columns, plain_columns, table_of
from broker.domain.arrays import Floats, Ints, Texts, taken

TABLE, RESERVED = "requests", "reserved"


@dataclass(frozen=True)
class RequestTable:
    """Requests (length T), in the order in which they are brokered."""

    requestid: Ints
    vo: Texts
    slots: Floats
    walltime_s: Floats

    def __len__(self) -> int:
        return len(self.requestid)


@dataclass(frozen=True)
class StoredRequests:
    """Stored requests of one VO, with the slots that were reserved before each, by queue."""

    vo: str | None
    requests: RequestTable
    load_before: Sequence[Mapping[str, float]]

    @property
    def jeditaskid(self) -> Ints:
        """(T,) the requests."""
        return self.requests.requestid

    def check(self) -> None:
        """Nothing is left to be read."""


def encoded(requests: RequestTable, row: int, reserved: Mapping[str, float]) -> bytes:
    """One request as it is stored with its decision; ``reserved``: slots reserved before it, by queue."""
    body = {TABLE: plain_columns(taken(requests, slice(row, row + 1))), RESERVED: dict(reserved)}
    return zlib.compress(json.dumps(body, separators=(",", ":")).encode(), 1)


def decoded(vo: str | None, bodies: list[Body], *, fill: bool) -> StoredRequests:
    """The requests of several decisions; with ``fill`` a column that is missing holds NULL.

    Raises:
        WorkCorruptError: a body is damaged, or of another version.
    """
    try:
        table = table_of(RequestTable, joined_columns(bodies, TABLE), fill=fill)
        return StoredRequests(vo, table, [dict(body[RESERVED]) for body in bodies])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WorkCorruptError(f"the stored request of a decision cannot be read: {error!r}") from error
