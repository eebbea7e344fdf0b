"""Read a stored cycle with everything needed to decide it again from a database."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import sqlalchemy as sa

from broker.domain.decisions import StoredOutcome
from broker.errors import NotFound
from broker.gdpconfig.publish import Published
from broker.snapshot.raw import SourceState
from broker.store.decisions.stored_cycles import CycleKey, decided_works
from broker.store.snapshots import stored_snapshots as snapshots
from broker.store.snapshots.stored_snapshots import SnapshotLostError
from broker.whatif.model.cases import Case, SnapshotParts

_OF_ORIGIN = ("decided_at", "engine", "seed")


class NothingStored(NotFound):
    """No stored cycle matches the request."""


def read_case(connection: sa.Connection, key: CycleKey, tuning_of: Callable[[int], Published]) -> Case:
    """The cycle of a key.

    Args:
        connection: to the database.
        key: of the cycle.
        tuning_of: gives the values of a version.

    Raises:
        NothingStored: it has no snapshot, or decisions without their work.
        SnapshotLostError: its snapshot no longer exists.
    """
    origin = key.origin
    if origin.snapshot is None:
        raise NothingStored("it was stored without its snapshot")
    works = decided_works(connection, key)
    packed = [one for one in works if one.work]
    if not packed or len(packed) < len(works):
        raise NothingStored(f"{len(works) - len(packed)} of its {len(works)} decisions are stored without their work")
    published = tuning_of(origin.tuning)
    return Case(
        id=_digest(key, published.fingerprint, packed),
        brokerage=key.brokerage,
        **{name: getattr(origin, name) for name in _OF_ORIGIN},
        published=published,
        snapshot=_parts(connection, origin.snapshot),
        decisions=tuple(packed),
    )


def _digest(key: CycleKey, tuning: str, decisions: Sequence[StoredOutcome]) -> str:
    """An identifier that is equal for equal cycles, even from different databases."""
    whole = hashlib.sha256(repr((key.brokerage, key.origin, tuning)).encode())
    for outcome in decisions:
        whole.update(repr((outcome.outcome, outcome.reason, sorted(outcome.assigned.items()))).encode())
        whole.update(outcome.work)
    return whole.hexdigest()


def _parts(connection: sa.Connection, identifier: str) -> SnapshotParts:
    taken_at, about = snapshots.about(connection, identifier)
    try:
        states = tuple(SourceState.from_json(state) for state in about.get("states", []))
    except TypeError as error:
        raise SnapshotLostError(
            f"snapshot {identifier} cannot be read: {error}", "broker.snapshots", "ask about a newer one"
        ) from error
    return SnapshotParts(identifier, taken_at, snapshots.read(connection, identifier), states)
