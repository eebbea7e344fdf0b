"""One stored cycle with all that is needed to decide it again, in a form that travels to another process. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from broker.brokerages.profile import Profile
from broker.domain.decisions import StoredOutcome
from broker.gdpconfig.proposals import Proposal
from broker.gdpconfig.publish import Published
from broker.snapshot.raw import SourceState


@dataclass(frozen=True)
class SnapshotParts:
    """A stored snapshot, still packed.

    Attributes:
        id: of the snapshot.
        taken_at: its instant, aware.
        parts: each source as its digest and encoded form, by name.
        states: how each source was found.
    """

    id: str
    taken_at: datetime
    parts: Mapping[str, tuple[str, bytes]] = field(repr=False)
    states: tuple[SourceState, ...] = field(repr=False)


@dataclass(frozen=True)
class Case:
    """One stored cycle of a brokerage.

    Attributes:
        id: tells the cycle from all others.
        brokerage: its name.
        decided_at: the instant for which it decided.
        engine: version of the broker that decided.
        seed: of everything random.
        published: the tuning it used.
        snapshot: the grid it saw.
        decisions: in the order in which they were made.
    """

    id: str
    brokerage: str
    decided_at: datetime
    engine: str
    seed: int
    published: Published = field(repr=False)
    snapshot: SnapshotParts = field(repr=False)
    decisions: tuple[StoredOutcome, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """The cycle in words."""
        return f"{self.brokerage} at {self.decided_at.isoformat()}"


@dataclass(frozen=True)
class ProfileRules:
    """The rules of all brokerages.

    Attributes:
        profile: names them.
        options: of each agent, by its name; those that take part in decisions matter.
    """

    profile: Profile
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True)
class QueueField:
    """A field of a queue at another value.

    Attributes:
        queue: its name, in any case.
        field: as CRIC has it.
        value: as CRIC would have it.
    """

    queue: str
    field: str
    value: str | int | float | bool

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.queue} {self.field}={self.value}"


@dataclass(frozen=True)
class Change:
    """What is to be compared with what was in force: values, rules, and fields of queues.

    Attributes:
        proposals: values that would be set, on top of those that the cycle used.
        rules: the rules that would judge.
        fields: of queues, whatever the snapshot says.
    """

    proposals: tuple[Proposal, ...]
    rules: ProfileRules
    fields: tuple[QueueField, ...] = ()
