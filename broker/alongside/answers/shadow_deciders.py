"""Which profile, version and tuning decided what is compared. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from broker.alongside.answers.shadow_models import DecidedBy
from broker.alongside.statements.own_placements import DecidingCycle
from broker.alongside.statements.panda_placements import Placement, Wait
from broker.domain.decisions import StoredDecision


class Deciders:
    """Counts compared jobs and waits by what decided."""

    def __init__(self) -> None:
        self._cycles: dict[int, DecidingCycle] = {}
        self._found: dict[tuple[str, str, str, int], DecidedBy] = {}

    def know(self, cycles: Mapping[int, DecidingCycle]) -> None:
        """Learn of cycles."""
        self._cycles |= cycles

    def add(self, one: Placement | Wait, stored: StoredDecision) -> None:
        """Count what was compared with a decision."""
        origin = stored.origin
        cycle = None if origin.agent_run is None else self._cycles.get(origin.agent_run)
        profile = None if cycle is None else cycle.profile
        key = (one.brokerage, profile or "", origin.engine, origin.tuning)
        at = origin.decided_at
        known = self._found.get(key) or DecidedBy(
            brokerage=one.brokerage,
            profile=profile,
            engine=origin.engine,
            tuning=origin.tuning,
            jobs=0,
            waits=0,
            first_at=at,
            last_at=at,
        )
        more = {"waits": known.waits + 1} if isinstance(one, Wait) else {"jobs": known.jobs + one.jobs}
        times = {"first_at": min(known.first_at, at), "last_at": max(known.last_at, at)}
        self._found[key] = known.model_copy(update={**more, **times})

    def lines(self) -> tuple[DecidedBy, ...]:
        """A line for each, in the order of brokerages and time."""
        found = self._found.values()
        return tuple(sorted(found, key=lambda one: (one.brokerage, one.first_at, one.engine, one.tuning)))

    def notes(self) -> list[str]:
        """Where figures of several profiles or versions were added up, and where the profile is not on record."""
        lines, notes = self.lines(), []
        for brokerage in dict.fromkeys(one.brokerage for one in lines):
            own = [one for one in lines if one.brokerage == brokerage]
            profiles = sorted({one.profile or "not on record" for one in own})
            engines = sorted({one.engine for one in own})
            if len(profiles) > 1:
                notes.append(f"{brokerage}: decisions of several profiles are added up: {', '.join(profiles)}")
            elif profiles == ["not on record"]:
                notes.append(f"{brokerage}: the profile that decided is not on record")
            if len(engines) > 1:
                notes.append(f"{brokerage}: decisions of several versions are added up: {', '.join(engines)}")
        return notes
