"""Who leads an agent: one process, or for each part of its work one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.app.answers.service_models import PartLine
from broker.domain.parts import led_by, parts_of
from broker.store.service.agent_runs import LastRun
from broker.store.service.leases import LeaseRow

WELL = ("done", "running")


@dataclass(frozen=True)
class Leading:
    """Who leads an agent, and its last cycle.

    Attributes:
        run: its last cycle; of a divided agent the newest of those that did not end well, else the newest of all.
        holder: who leads it; of a divided agent all that lead a part; None for nobody.
        epoch: of its lease, or the highest of its parts.
        expires_in_s: until its lease, or the first of those of its parts, expires; None where none is in force.
        parts: its parts; none where its work is not divided.
    """

    run: LastRun | None
    holder: str | None
    epoch: int | None
    expires_in_s: float | None
    parts: tuple[PartLine, ...]

    @classmethod
    def of(
        cls, agent: str, rows: Sequence[LeaseRow], last: LastRun | None, last_of_parts: Mapping[str, LastRun]
    ) -> Leading:
        """Of an agent.

        Args:
            agent: its name.
            rows: the leases in use, of all agents.
            last: its newest cycle.
            last_of_parts: the newest cycle of each part, by the name of its lease.
        """
        held = {row.name: row for row in rows if led_by(row.name)[0] == agent}
        of = max((led_by(name)[1].of for name in held), default=1)
        names = [part.lease_of(agent) for part in parts_of(of)]
        parts = tuple(_part(name, held.get(name), last_of_parts.get(name)) for name in names) if of > 1 else ()
        in_force = [held[name] for name in names if name in held and held[name].is_in_force]
        return cls(
            _worst([last_of_parts[name] for name in names if name in last_of_parts]) or last,
            ", ".join(dict.fromkeys(row.holder for row in in_force)) or None,
            max((row.epoch for row in held.values()), default=None),
            min((round(row.expires_in_s, 1) for row in in_force), default=None),
            parts,
        )


def _part(name: str, row: LeaseRow | None, run: LastRun | None) -> PartLine:
    in_force = row is not None and row.is_in_force
    return PartLine(
        part=str(led_by(name)[1]),
        last_outcome=None if run is None else run.outcome,
        started_at=None if run is None else run.started_at,
        error=None if run is None else run.error,
        holder=row.holder if row is not None and in_force else None,
        epoch=None if row is None else row.epoch,
        expires_in_s=round(row.expires_in_s, 1) if row is not None and in_force else None,
    )


def _worst(runs: Sequence[LastRun]) -> LastRun | None:
    newest = sorted(runs, key=lambda run: run.started_at, reverse=True)
    return next((run for run in newest if run.outcome not in WELL), next(iter(newest), None))
