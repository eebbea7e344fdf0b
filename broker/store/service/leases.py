"""Leases: who may act, until when, and the epoch that proves it inside a write transaction.

A lease is a row with an expiry and an epoch. Epochs come from a sequence and never decrease, whatever happens to the
row. All times are the database's; a broker's clock is never compared with an expiry. The row is locked only briefly,
so a leader that is slow to write cannot block its own renewal, and no lock outlives a connection.

An agent whose work is divided has a lease for each part (:mod:`broker.domain.parts`). Leases of one division are held
side by side; a lease is not granted while one of another division of the same agent is in force.

:func:`writing` is the write transaction that commits only while a lease is in force. See ADR 31.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar

import sqlalchemy as sa
from pydantic import ConfigDict, Field
from sqlalchemy import text
from sqlalchemy.engine import Connection

from broker.domain.parts import division_of, led_by
from broker.store.connection.database import Database
from broker.store.connection.plain_rows import mappings

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A length of time in a configuration file."""


@dataclass(frozen=True)
class LeaseTerms:
    """How long leases last, in seconds: ``leases`` of ``config/agents.yaml``.

    Attributes:
        length_s: time from a renewal to the expiry.
        renew_every_s: time between two renewals.
        distrust_before_s: how long before the expiry a holder stops trusting its lease.
        longest_s: an expiry further ahead than this cannot have been written by a broker; the lease is taken over.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")  # as a section of agents.yaml

    length_s: Seconds = 15.0
    renew_every_s: Seconds = 5.0
    distrust_before_s: Seconds = 2.0
    longest_s: Seconds = 60.0

    def __post_init__(self) -> None:
        """Reject terms under which a holder could lose its lease between two punctual renewals.

        Raises:
            ValueError: the terms contradict one another.
        """
        if not 0 < self.distrust_before_s < self.length_s <= self.longest_s:
            raise ValueError(f"lease terms must obey 0 < distrust_before_s < length_s <= longest_s: {self}")
        if not 0 < self.renew_every_s < self.length_s - self.distrust_before_s:
            raise ValueError(f"renew_every_s must leave time before the holder distrusts its lease: {self}")

    @property
    def trusted_s(self) -> float:
        """Seconds for which a holder may trust a lease, counted from the moment it *requested* it."""
        return self.length_s - self.distrust_before_s


@dataclass(frozen=True)
class Lease:
    """A granted lease: its name, its holder and the epoch of the grant."""

    name: str
    holder: str
    epoch: int


@dataclass(frozen=True)
class LeaseRow:
    """A lease as stored in the database. ``expires_in_s`` is negative if it has expired or was released."""

    name: str
    holder: str
    epoch: int
    expires_at: datetime
    expires_in_s: float

    @property
    def is_in_force(self) -> bool:
        """Whether its holder may act."""
        return self.expires_in_s > 0


@dataclass(frozen=True)
class Acquisition:
    """The answer to a request for a lease.

    Attributes:
        lease: the lease; None if another holder has it, or has one of another division of the same agent.
        row: the lease as it was before, or that of the other division; None if there was no row.
        absurd_expiry: whether the row's expiry was further ahead than any broker writes; raise an alarm.
    """

    lease: Lease | None
    row: LeaseRow | None
    absurd_expiry: bool = False


@dataclass(frozen=True)
class Renewal:
    """The answer to a request to renew leases.

    Attributes:
        renewed: leases that were extended.
        lost: leases that have expired, were taken over, or whose row is gone. A lease in neither set is in force, but
            its row was locked by a write transaction at that moment.
    """

    renewed: frozenset[Lease] = frozenset()
    lost: frozenset[Lease] = frozenset()


class StaleLeaseError(RuntimeError):
    """A write was refused because its lease is no longer in force."""

    def __init__(self, lease: Lease) -> None:
        """Store the lease that was refused."""
        self.lease = lease
        super().__init__(lease)

    def __str__(self) -> str:
        """Explain what happened, and that nothing needs to be done."""
        return (
            f"the lease {self.lease.name!r} of {self.lease.holder} with epoch {self.lease.epoch} is not in force; "
            "nothing was written, the present holder does the work"
        )


_READ_LEASES = """
    SELECT name, holder, epoch, expires_at, extract(epoch FROM expires_at - clock_timestamp())::float8 AS expires_in_s
    FROM broker.leases"""

_READ_LEASE = text(_READ_LEASES + " WHERE name = :name")
_READ_ALL_LEASES = text(_READ_LEASES + " ORDER BY name")

# Serialises requests for the leases of an agent: between taking an epoch from the sequence and writing it, no other
# request may write a later epoch or take a lease of another division. The lock belongs to the transaction and makes
# nobody the leader.
_QUEUE_UP = text("SELECT pg_advisory_xact_lock(hashtext('broker.leases'), hashtext(:agent))")

_OF_OTHER_DIVISIONS = "split_part(name, '#', 1) = :agent AND name <> ALL(:division)"
_FIND_OTHER_DIVISION = text(
    _READ_LEASES
    + f""" WHERE {_OF_OTHER_DIVISIONS}
      AND expires_at > clock_timestamp() AND expires_at <= clock_timestamp() + make_interval(secs => :longest_s)
    ORDER BY expires_at DESC LIMIT 1"""
)
# Expired leases stay expired, and the update waits for a transaction that has closed its fence and is being committed.
_VOID_OTHER_DIVISIONS = text(f"""
    UPDATE broker.leases
    SET epoch = nextval('broker.lease_epoch_seq'), expires_at = least(expires_at, clock_timestamp())
    WHERE {_OF_OTHER_DIVISIONS}""")  # noqa: S608 - constants

_TAKE_LEASE = text("""
    INSERT INTO broker.leases AS held (name, holder, epoch, expires_at, renewed_at)
    VALUES (:name, :holder, nextval('broker.lease_epoch_seq'),
            clock_timestamp() + make_interval(secs => :length_s), clock_timestamp())
    ON CONFLICT (name) DO UPDATE
    SET holder = excluded.holder, epoch = excluded.epoch,
        expires_at = excluded.expires_at, renewed_at = excluded.renewed_at
    WHERE held.epoch < excluded.epoch
      AND (held.expires_at <= clock_timestamp()
           OR held.expires_at > clock_timestamp() + make_interval(secs => :longest_s))
    RETURNING epoch""")

# All leases of a holder at once, however many there are. One that a transaction of its own cycle has locked at this
# moment does not delay the others; it is still in force, and is renewed at the next attempt.
_RENEW_LEASES = text("""
    WITH asked AS (
        SELECT * FROM unnest(CAST(:names AS text[]), CAST(:epochs AS bigint[])) AS asked (name, epoch)
    ), ours AS (
        SELECT held.name FROM broker.leases AS held JOIN asked USING (name, epoch)
        WHERE held.holder = :holder AND held.expires_at > clock_timestamp()
    ), free AS (
        SELECT held.name FROM broker.leases AS held JOIN asked USING (name, epoch)
        WHERE held.holder = :holder AND held.expires_at > clock_timestamp()
        FOR NO KEY UPDATE OF held SKIP LOCKED
    ), renewed AS (
        UPDATE broker.leases AS held
        SET expires_at = clock_timestamp() + make_interval(secs => :length_s), renewed_at = clock_timestamp()
        FROM free WHERE held.name = free.name
        RETURNING held.name
    )
    SELECT ours.name, renewed.name IS NOT NULL AS renewed FROM ours LEFT JOIN renewed USING (name)""")

_RELEASE = text("""
    UPDATE broker.leases AS held SET expires_at = clock_timestamp()
    FROM unnest(CAST(:names AS text[]), CAST(:epochs AS bigint[])) AS asked (name, epoch)
    WHERE held.name = asked.name AND held.epoch = asked.epoch AND held.holder = :holder
      AND held.expires_at > clock_timestamp()""")

# FOR SHARE makes takeovers and renewals wait for the end of this transaction, and sees a takeover that has just been
# committed; the first check takes the weaker lock, under which the holder's own renewals can proceed.
_LOCK_LEASE = """
    SELECT epoch FROM broker.leases
    WHERE name = :name AND holder = :holder AND epoch = :epoch AND expires_at > clock_timestamp()
    FOR {strength}"""
_FENCE_OPENING = text(_LOCK_LEASE.format(strength="KEY SHARE"))
_FENCE_CLOSING = text(_LOCK_LEASE.format(strength="SHARE"))


def find(connection: Connection, name: str) -> LeaseRow | None:
    """The current row of the lease ``name``; None if it has never been taken or was deleted."""
    row = connection.execute(_READ_LEASE, {"name": name}).one_or_none()
    return None if row is None else LeaseRow(**row._mapping)


def find_all(connection: Connection) -> list[LeaseRow]:
    """All leases, ordered by name."""
    return [LeaseRow(**row) for row in mappings(connection, _READ_ALL_LEASES)]


def in_use(rows: Iterable[LeaseRow]) -> list[LeaseRow]:
    """The leases without those of superseded divisions: another division of their agent is in force."""
    leases = list(rows)
    divisions = {(led_by(row.name)[0], led_by(row.name)[1].of) for row in leases if row.is_in_force}
    led = {agent for agent, _ in divisions}

    def is_in_use(row: LeaseRow) -> bool:
        agent, part = led_by(row.name)
        return agent not in led or (agent, part.of) in divisions

    return [row for row in leases if is_in_use(row)]


def holders_of(connection: Connection, agent: str) -> list[LeaseRow]:
    """The leases in force of all parts of an agent, ordered by name."""
    return [row for row in find_all(connection) if led_by(row.name)[0] == agent and row.is_in_force]


def askable(names: Iterable[str], rows: Mapping[str, LeaseRow], terms: LeaseTerms) -> list[str]:
    """The leases among ``names`` that may be requested, given the rows of all leases by name."""
    held = [name for name, row in rows.items() if not is_free(row, terms)]
    divided = {(led_by(name)[0], led_by(name)[1].of) for name in held}

    def is_askable(name: str) -> bool:
        agent, part = led_by(name)
        return name not in held and not any(other == agent and of != part.of for other, of in divided)

    return [name for name in names if is_askable(name)]


def is_free(row: LeaseRow, terms: LeaseTerms) -> bool:
    """Whether a lease may be requested: it has expired, or its expiry is further ahead than any grant."""
    return not 0 < row.expires_in_s <= terms.longest_s


def acquire(connection: Connection, name: str, holder: str, terms: LeaseTerms) -> Acquisition:
    """Request the lease ``name``.

    It is granted if there is no row, if the row has expired, or if its expiry is further ahead than
    ``terms.longest_s``, unless a lease of another division of the agent is in force. A grant always has a new epoch,
    higher than every earlier one of any lease. The current holder is not granted the lease again, because renewals are
    keyed on the epoch.
    """
    before = find(connection, name)
    if before is not None and not is_free(before, terms):
        return Acquisition(None, before)
    others = {"agent": led_by(name)[0], "division": list(division_of(name)), "longest_s": terms.longest_s}
    connection.execute(_QUEUE_UP, others)
    other = connection.execute(_FIND_OTHER_DIVISION, others).one_or_none()
    if other is not None:
        return Acquisition(None, LeaseRow(**other._mapping))
    connection.execute(_VOID_OTHER_DIVISIONS, others)
    values = {"name": name, "holder": holder, "length_s": terms.length_s, "longest_s": terms.longest_s}
    epoch = connection.execute(_TAKE_LEASE, values).scalar_one_or_none()
    absurd = before is not None and before.expires_in_s > terms.longest_s
    return Acquisition(None if epoch is None else Lease(name, holder, epoch), before, absurd)


def renew(connection: Connection, held: Sequence[Lease], terms: LeaseTerms) -> Renewal:
    """Extend the leases of one holder, in one statement."""
    if not held:
        return Renewal()
    renewed_by_name = {
        name: renewed
        for name, renewed in connection.execute(_RENEW_LEASES, _lease_values(held) | {"length_s": terms.length_s})
    }
    return Renewal(
        frozenset(lease for lease in held if renewed_by_name.get(lease.name)),
        frozenset(lease for lease in held if lease.name not in renewed_by_name),
    )


def release(connection: Connection, *held: Lease) -> int:
    """Release leases of one holder in one statement, and return how many of them were still in force."""
    return connection.execute(_RELEASE, _lease_values(held)).rowcount if held else 0


def _lease_values(held: Sequence[Lease]) -> dict[str, object]:
    (holder,) = {lease.holder for lease in held}
    return {"holder": holder, "names": [lease.name for lease in held], "epochs": [lease.epoch for lease in held]}


def fence(connection: Connection, lease: Lease, *, closing: bool = False) -> None:
    """Raise an error unless ``lease`` is in force; for use inside a write transaction.

    Call it first, so that no work is wasted, and again with ``closing=True`` as the last statement before the commit:
    from then on the lease cannot be taken over until the transaction has ended.

    Raises:
        StaleLeaseError: the lease has expired or another epoch is in force.
    """
    statement = _FENCE_CLOSING if closing else _FENCE_OPENING
    values = {"name": lease.name, "holder": lease.holder, "epoch": lease.epoch}
    if connection.execute(statement, values).scalar_one_or_none() is None:
        raise StaleLeaseError(lease)


LOCK_WITHIN_S = 5.0
"""Seconds that a statement waits for a lock before the transaction ends and the cycle is repeated."""
IDLE_WITHIN_S = 5.0
"""Seconds between two statements before the server ends the transaction."""
_LONGEST_S = 86_400.0

# A process that is paused in the middle of its transaction must not delay the next leader, whose takeover waits for it
# between the closing fence and the commit.
SET_LOCK_TIMEOUTS = "SET LOCAL lock_timeout = {lock_ms}; SET LOCAL idle_in_transaction_session_timeout = {idle_ms}"


@contextlib.contextmanager
def writing(database: Database, lease: Lease, idle_within_s: float = IDLE_WITHIN_S) -> Iterator[sa.Connection]:
    """One transaction under ``lease``: fenced before the block, and again before the commit.

    Args:
        database: the database to write to.
        lease: the lease that must be in force.
        idle_within_s: seconds that the block may take between two statements; between the closing fence and the
            commit it is never more than :data:`IDLE_WITHIN_S`.

    Raises:
        StaleLeaseError: the lease is not in force; nothing was written.
    """
    with database.begin() as connection:
        _limit(connection, idle_within_s)
        fence(connection, lease)
        yield connection
        if idle_within_s > IDLE_WITHIN_S:
            _limit(connection, IDLE_WITHIN_S)
        fence(connection, lease, closing=True)


def _limit(connection: sa.Connection, idle_within_s: float) -> None:
    limits = {"lock_ms": int(LOCK_WITHIN_S * 1000), "idle_ms": int(min(idle_within_s, _LONGEST_S) * 1000)}
    connection.exec_driver_sql(SET_LOCK_TIMEOUTS.format(**limits))
