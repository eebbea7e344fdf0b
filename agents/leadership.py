"""Holding leases: a thread that renews what is held and asks for what is wanted.

A holder believes in a lease for a little less time than the database grants it, on its own monotonic clock, counted
from the moment it *sent* the request. So it stops acting before anybody else can start, however slow the answer
was, whatever happens to wall clocks, and even when the database cannot be reached any more.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlalchemy import text

from agents import fault_points
from broker.store import leases
from broker.store.database import Database
from broker.store.leases import Lease, LeaseTerms
from broker.store.transient import TRANSIENT_ERRORS

_log = logging.getLogger(__name__)

STEP_S = 0.5
"""Seconds between two looks at the leases: a lease given up cleanly is taken within about this time."""
_ANSWER_WITHIN_MS = 2000


def holder_name() -> str:
    """A name for this process that no other has, with host and process id for operators."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


@dataclass
class _Held:
    lease: Lease
    asked_at: float


class LeaseKeeper:
    """The leases of one process.

    Attributes:
        holder: the name under which it holds them.
        terms: how long they last.
    """

    def __init__(
        self, database: Database, holder: str, terms: LeaseTerms, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Keep leases in ``database`` as ``holder``; ``monotonic`` is the clock for self-distrust."""
        self.holder = holder
        self.terms = terms
        self._database = database
        self._monotonic = monotonic
        self._wanted: dict[str, Callable[[], None]] = {}
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def want(self, name: str, when_elected: Callable[[], None] = lambda: None) -> None:
        """Ask for the lease ``name`` again and again; each grant calls ``when_elected`` in the keeper's thread."""
        self._wanted[name] = when_elected

    def lease(self, name: str) -> Lease | None:
        """The lease ``name`` if this process holds it and may still believe in it."""
        with self._lock:
            held = self._held.get(name)
            return held.lease if held is not None and self._believes(held) else None

    def trusts(self, lease: Lease) -> bool:
        """Whether ``lease``, with this very epoch, is still to be believed in."""
        return self.lease(lease.name) == lease

    def acquire(self, name: str) -> Lease | None:
        """Ask for the lease ``name`` once; None when somebody else has it."""
        asked_at = self._monotonic()
        with self._database.begin() as connection:
            connection.execute(text(f"SET LOCAL statement_timeout = {_ANSWER_WITHIN_MS}"))
            answer = leases.acquire(connection, name, self.holder, self.terms)
        if answer.absurd_expiry and answer.row is not None:
            fields = {"lease": name, "holder": answer.row.holder, "expires_in_s": answer.row.expires_in_s}
            _log.error("lease expired too far ahead, taken over; see who wrote the row", extra={"fields": fields})
        if answer.lease is None:
            return None
        with self._lock:
            self._held[name] = _Held(answer.lease, asked_at)
        _log.info("lease taken", extra={"fields": {"lease": name, "epoch": answer.lease.epoch}})
        return answer.lease

    def tick(self) -> None:
        """One look: drop what is no longer to be believed in, renew what is due, ask for what is wanted."""
        with self._lock:
            held = list(self._held.values())
        for one in held:
            self._look_after(one)
        for name in [name for name in self._wanted if self.lease(name) is None]:
            try:
                elected = self.acquire(name)
            except TRANSIENT_ERRORS as error:
                _log.warning("lease not available: database", extra={"fields": {"lease": name, "error": str(error)}})
                return
            if elected is not None:
                self._wanted[name]()

    def start(self) -> None:
        """Start the thread, unless it runs already."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and give up every lease, so that a standby can act at once."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(timeout=_ANSWER_WITHIN_MS / 1000)
        with self._lock:
            held, self._held = list(self._held.values()), {}
        self._give_up(one.lease for one in held)

    def _run(self) -> None:
        while not self._ending.wait(STEP_S):
            self.tick()

    def _believes(self, held: _Held) -> bool:
        return self._monotonic() < held.asked_at + self.terms.trusted_s

    def _look_after(self, held: _Held) -> None:
        fields = {"lease": held.lease.name, "epoch": held.lease.epoch}
        asked_at = self._monotonic()
        if not self._believes(held):
            self._drop(held)
            _log.error("lease no longer trusted: not renewed in time", extra={"fields": fields})
        elif asked_at - held.asked_at >= self.terms.renew_every_s:
            fault_points.reach("during_renew")
            try:
                with self._database.begin() as connection:
                    connection.execute(text(f"SET LOCAL statement_timeout = {_ANSWER_WITHIN_MS}"))
                    renewed = leases.renew(connection, held.lease, self.terms)
            except TRANSIENT_ERRORS as error:
                _log.warning("lease not renewed: database", extra={"fields": {**fields, "error": str(error)}})
                return
            if renewed:
                held.asked_at = asked_at
            else:
                self._drop(held)
                _log.error("lease lost: another epoch is in force", extra={"fields": fields})

    def _drop(self, held: _Held) -> None:
        with self._lock:
            if self._held.get(held.lease.name) is held:
                del self._held[held.lease.name]

    def _give_up(self, given_up: Iterable[Lease]) -> None:
        for lease in given_up:
            try:
                with self._database.begin() as connection:
                    connection.execute(text(f"SET LOCAL statement_timeout = {_ANSWER_WITHIN_MS}"))
                    leases.release(connection, lease)
            except TRANSIENT_ERRORS as error:
                fields = {"lease": lease.name, "error": str(error)}
                _log.warning("lease not given up; it expires by itself", extra={"fields": fields})
                return
