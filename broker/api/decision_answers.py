"""The answer about the last decisions of a task, kept as bytes for as long as nothing that it says has changed.

A stored decision never changes, so one question by a prepared statement says whether the bytes still hold. Where
something waits, its place in the line moves with the work of others: such an answer is kept for some seconds only.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from starlette.requests import Request
from starlette.responses import Response

from broker.access.names import hidden
from broker.api.asking import asking
from broker.api.kept_connections import KeptConnections
from broker.api.plain import plain
from broker.api.presenting import JSON, as_json, tagged
from broker.api.state import ApiState
from broker.app.answers.decision import task_decision
from broker.store.answers.decision_stamp import Stamp, read_stamp, stamp_query
from broker.store.connection.database import Database

NAME = "decision answers"
CONNECTIONS = 2
LASTS_S, WAITING_LASTS_S = 60.0, 5.0
"""An answer is made anew after this; the second where something waits."""
MOST_BYTES = 32 << 20
"""Of all answers that are kept; the one that was not asked for for longest goes first."""

_Key = tuple[int, str | None, bool]
_Stamped = tuple[datetime | None, Stamp | None, bool]


@dataclass(frozen=True)
class _Kept:
    """An answer but for its first field, the instant of the question."""

    stamp: Stamp | None
    until_s: float
    rest: bytes
    tag: str


class DecisionAnswers:
    """The answers of one application, ``api``."""

    def __init__(self, api: ApiState) -> None:
        section = api.configuration.database
        self._api, self._lock = api, threading.Lock()
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._size = 0
        self._stamps: KeptConnections[Callable[[int], _Stamped]] = KeptConnections(
            api.database,
            "gridbroker decisions",
            CONNECTIONS,
            statement_timeout_s=section.statement_timeout_s,
            wait_s=section.wait_s,
            make=self._reader,
        )

    def answer(self, request: Request, jeditaskid: int, brokerage: str | None) -> Response:
        """The answer about a task: as it was made before, where it still holds."""
        key = (jeditaskid, brokerage, request.state.identity is None)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        now = None if kept is None else self._still_holds(kept, jeditaskid)
        if kept is None or now is None:
            kept, now = self._make(key)
        body = b'{"now":' + as_json(plain(now)) + kept.rest
        return tagged(request, Response(body, 200, media_type=JSON), kept.tag)

    def close(self) -> None:
        """Let go of the connections."""
        self._stamps.close()

    def _still_holds(self, kept: _Kept, jeditaskid: int) -> datetime | None:
        """The instant for which a kept answer holds; None where it does not, or that cannot be found out."""
        if self._api.steady_s() >= kept.until_s:
            return None
        try:
            with self._stamps.one() as read:
                clock, stamp, _ = read(jeditaskid)
        except psycopg.Error:
            return None  # whoever makes the answer finds out what is wrong, with a connection that was tried first
        return (clock or self._api.now()) if stamp is not None and stamp == kept.stamp else None

    def _make(self, key: _Key) -> tuple[_Kept, datetime]:
        jeditaskid, brokerage, nameless = key
        with asking(self._api) as asked:
            query = stamp_query(asked.catalogue)
            _, stamp, waits = read_stamp(Database.raw(asked.connection), query, jeditaskid)
            document = plain(task_decision(asked, jeditaskid, brokerage=brokerage, evaluate=False))
        del document["now"]
        rest = b"," + as_json(hidden(document) if nameless else document)[1:]
        until_s = self._api.steady_s() + (WAITING_LASTS_S if waits else LASTS_S)
        # weak: another instant of the question makes it no other answer
        kept = _Kept(stamp, until_s, rest, f'W/"{hashlib.blake2b(rest, digest_size=12).hexdigest()}"')
        if stamp is not None:
            self._keep(key, kept)
        return kept, asked.now

    def _keep(self, key: _Key, kept: _Kept) -> None:
        with self._lock:
            before = self._kept.pop(key, None)
            self._size += len(kept.rest) - (0 if before is None else len(before.rest))
            self._kept[key] = kept
            while self._size > MOST_BYTES:
                self._size -= len(self._kept.popitem(last=False)[1].rest)

    def _reader(self, connection: psycopg.Connection[Any]) -> Callable[[int], _Stamped]:
        with asking(self._api) as asked:
            query = stamp_query(asked.catalogue)
        return lambda jeditaskid: read_stamp(connection, query, jeditaskid)


_making = threading.Lock()


def decision_answers_of(api: ApiState) -> DecisionAnswers:
    """The answers of an application, made at the first request."""
    with _making:
        found = api.kept.get(NAME)
        if not isinstance(found, DecisionAnswers):
            found = api.kept[NAME] = DecisionAnswers(api)
            api.at_end.append(found.close)
        return found
