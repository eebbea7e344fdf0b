"""Lease holding: a thread that renews the leases held and requests the leases wanted.

A holder trusts a lease for slightly less time than the database grants it, on its own monotonic clock, counted from the
moment it *sent* the request. It therefore stops acting before anybody else can start, however slow the answer was,
whatever happens to wall clocks, and even if the database can no longer be reached.

If the work of an agent is divided, each part has a lease. While other brokers are alive, a holder requests no more
than its fair number of parts, except for those that nobody took for the length of a lease; it hands over any excess.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agents.service import fault_points
from broker.domain.parts import division_of, led_by
from broker.store.connection.database import Database
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.service import leases, services
from broker.store.service.leases import Lease, LeaseTerms


def brokers_beside(lease: str, own: str, divisions: Mapping[str, Mapping[str, int]]) -> int:
    """Return how many other brokers are alive and divide the agent of a lease in the same way.

    Args:
        lease: the lease of a part.
        own: the name of this broker.
        divisions: for each live broker, the number of parts by agent.
    """
    agent, part = led_by(lease)
    return sum(holder != own and parts.get(agent) == part.of for holder, parts in divisions.items())


def fair_number(lease: str, others: int) -> int:
    """Return how many parts of an agent one broker leads while ``others`` more brokers are alive."""
    return math.ceil(led_by(lease)[1].of / (others + 1))


def may_take(held: int, fair: int, free_for_s: float, patience_s: float) -> bool:
    """Return whether a broker may take one more part: at once up to its fair share, later only if it stays free.

    Args:
        held: parts that the broker leads now.
        fair: its fair number.
        free_for_s: seconds for which the lease has been free.
        patience_s: seconds for which it is left to the others.
    """
    return held < fair or free_for_s >= patience_s


_log = logging.getLogger(__name__)

STEP_S = 0.5
"""Seconds between two checks of the leases: a lease given up cleanly is taken within about this time."""
ANSWER_WITHIN_S = 3.0
"""Seconds that one lease query may take; several fit between a due renewal and the end of trust."""
STOP_WITHIN_S = 1.0
"""Seconds for giving up leases at the end; 2 if a connection has to be made first."""


def holder_name() -> str:
    """Return a unique name for this process, with host and process id for operators."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


@dataclass
class _Held:
    lease: Lease
    requested_at: float


class LeaseKeeper:
    """The leases of one process.

    Attributes:
        holder: name under which the process holds them.
        terms: how long they last.
        database: the database that stores them.
    """

    def __init__(
        self, database: Database, holder: str, terms: LeaseTerms, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Keep leases in ``database`` as ``holder``; ``monotonic`` is the clock that limits trust in them.

        If cycles also run, ``database`` should be a sibling of theirs: a renewal must not wait for a connection.
        """
        self.holder = holder
        self.terms = terms
        self.database = database
        self._monotonic = monotonic
        self._wanted: dict[str, Callable[[], None]] = {}
        self._held: dict[str, _Held] = {}
        self._given_up: list[Lease] = []
        self._unwanted: set[str] = set()
        self._free_since: dict[str, float] = {}
        self._divisions: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def want(self, name: str, when_elected: Callable[[], None] = lambda: None) -> None:
        """Request the lease ``name`` repeatedly; each grant calls ``when_elected`` in the keeper's thread."""
        self._wanted[name] = when_elected

    def lease(self, name: str) -> Lease | None:
        """Return the lease ``name`` if this process holds it and may still trust it, else None."""
        with self._lock:
            held = self._held.get(name)
            return held.lease if held is not None and self._believes(held) else None

    def trusts(self, lease: Lease) -> bool:
        """Return whether ``lease``, with this very epoch, can still be trusted."""
        return self.lease(lease.name) == lease

    def acquire(self, name: str) -> Lease | None:
        """Try once to acquire the lease ``name``; None if another holder has it."""
        requested_at = self._monotonic()
        with self.database.within(ANSWER_WITHIN_S) as database, database.begin() as connection:
            answer = leases.acquire(connection, name, self.holder, self.terms)
        if answer.absurd_expiry and answer.row is not None:
            fields = {"lease": name, "holder": answer.row.holder, "expires_in_s": answer.row.expires_in_s}
            _log.error("lease expired too far ahead, taken over; see who wrote the row", extra={"fields": fields})
        if answer.lease is None:
            return None
        with self._lock:
            self._held[name] = _Held(answer.lease, requested_at)
        _log.info("lease taken", extra={"fields": {"lease": name, "epoch": answer.lease.epoch}})
        return answer.lease

    def give_up(self, name: str) -> None:
        """Stop leading ``name`` at once, and do not request it again before :meth:`ask_again`; never blocks.

        The database is updated at the next check.
        """
        with self._lock:
            self._unwanted.add(name)
            held = self._held.pop(name, None)
            if held is not None:
                self._given_up.append(held.lease)

    def ask_again(self, name: str) -> None:
        """Undo :meth:`give_up`."""
        with self._lock:
            self._unwanted.discard(name)

    def hand_over(self, name: str) -> bool:
        """Give up a part, soon free for others, if more than the fair number are held; return whether it was given up.

        Raises:
            DatabaseUnavailable: the database is away; its other errors pass through.
        """
        if led_by(name)[1].is_whole:
            return False
        with self.database.within(ANSWER_WITHIN_S) as database, database.begin() as connection:
            self._divisions = services.divisions(connection, self.terms.length_s)
        with self._lock:
            held = self._held.get(name)
            if held is None or self._parts_held(name) <= self._fair_number(name):
                return False
            self._given_up.append(self._held.pop(name).lease)
        _log.info("part handed over", extra={"fields": {"lease": name, "epoch": held.lease.epoch}})
        return True

    def tick(self) -> None:
        """Run one check: drop leases that can no longer be trusted, renew those due, request those wanted."""
        try:
            self._renew()
            self._release(ANSWER_WITHIN_S)
            for name in self._free():
                self._renew()
                if self._may_take(name) and self.acquire(name) is not None:
                    self._wanted[name]()
        except TRANSIENT_ERRORS as error:
            _log.warning("lease not available: database", extra={"fields": {"error": str(error)}})

    def start(self) -> None:
        """Start the thread, unless it is already running."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
        self._thread.start()

    def stop(self) -> bool:
        """End the thread and give up every lease, so that a standby can act at once; False if the database is away.

        In that case the leases expire by themselves.
        """
        self._ending.set()
        if self._thread is not None:
            self._thread.join(STOP_WITHIN_S)
        with self._lock:
            self._given_up += [held.lease for held in self._held.values()]
            self._held = {}
        try:
            self._release(STOP_WITHIN_S)
        except TRANSIENT_ERRORS as error:
            fields = {"leases": [lease.name for lease in self._given_up], "error": str(error)}
            _log.warning("leases not given up; they expire by themselves", extra={"fields": fields})
            return False
        return True

    def _run(self) -> None:
        while not self._ending.wait(STEP_S):
            try:
                self.tick()
            except Exception:
                # Whatever happened, the thread must live: without it no lease is ever renewed or given up again.
                _log.exception("looking after leases failed")

    def _believes(self, held: _Held) -> bool:
        return self._monotonic() < held.requested_at + self.terms.trusted_s

    def _renew(self) -> None:
        """Renew all leases held, in one statement, as soon as one of them is due."""
        with self._lock:
            held = list(self._held.values())
        for lease in [lease for lease in held if not self._believes(lease)]:
            held.remove(lease)
            self._drop(lease, "lease no longer trusted: not renewed in time")
        requested_at = self._monotonic()
        if all(requested_at - lease.requested_at < self.terms.renew_every_s for lease in held):
            return
        fault_points.reach("during_renew")
        try:
            with self.database.within(ANSWER_WITHIN_S) as database, database.autocommit() as connection:
                answer = leases.renew(connection, [lease.lease for lease in held], self.terms)
        except TRANSIENT_ERRORS as error:
            fields = {"leases": [lease.lease.name for lease in held], "error": str(error)}
            _log.warning("leases not renewed: database", extra={"fields": fields})
            return
        for lease in held:
            if lease.lease in answer.renewed:
                lease.requested_at = requested_at
            elif lease.lease in answer.lost:
                self._drop(lease, "lease lost: another epoch is in force")

    def _free(self) -> list[str]:
        """Return the leases that are wanted, not held, and available according to the database."""
        with self._lock:
            unwanted = frozenset(self._unwanted)
        missing = [name for name in self._wanted if name not in unwanted and self.lease(name) is None]
        if not missing:
            return []
        with self.database.within(ANSWER_WITHIN_S) as database, database.begin() as connection:
            rows = {row.name: row for row in leases.find_all(connection)}
            if any(not led_by(name)[1].is_whole for name in missing):
                self._divisions = services.divisions(connection, self.terms.length_s)
        free, now_s = leases.askable(missing, rows, self.terms), self._monotonic()
        self._free_since = {name: self._free_since.get(name, now_s) for name in free}
        return free

    def _may_take(self, name: str) -> bool:
        """Return whether this process is the one to take a free lease."""
        if led_by(name)[1].is_whole:
            return True
        with self._lock:
            held = self._parts_held(name)
        free_for_s = self._monotonic() - self._free_since[name]
        return may_take(held, self._fair_number(name), free_for_s, self.terms.length_s)

    def _fair_number(self, name: str) -> int:
        return fair_number(name, brokers_beside(name, self.holder, self._divisions))

    def _parts_held(self, name: str) -> int:
        return sum(part in self._held and self._believes(self._held[part]) for part in division_of(name))

    def _drop(self, held: _Held, because: str) -> None:
        with self._lock:
            if self._held.get(held.lease.name) is held:
                del self._held[held.lease.name]
        _log.error(because, extra={"fields": {"lease": held.lease.name, "epoch": held.lease.epoch}})

    def _release(self, within_s: float) -> None:
        with self._lock:
            given_up = list(self._given_up)
        if not given_up:
            return
        with self.database.within(within_s) as database, database.begin() as connection:
            leases.release(connection, *given_up)
        with self._lock:
            self._given_up = [lease for lease in self._given_up if lease not in given_up]
