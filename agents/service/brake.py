"""The brake: how much one cycle may end, take back or remove, whatever its rules say.

A wrong clock, table or key makes everything due at once. What is over the limit waits for the next cycle, with an
alarm. Cycle after cycle that would still end nearly all there is, so after some of them in a row the agent pauses until
somebody resumes it. An operator lets one cycle through with ``broker run AGENT --force --yes``, or switches the brake
off.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from pydantic import Field

from agents.service.base import AgentOptions, CycleContext, Due
from broker.store.service import agent_pauses, agent_runs

_log = logging.getLogger(__name__)

ALWAYS_ALLOWED = 100
"""Jobs or rows that a cycle may end or remove however few there are."""


class BrakedOptions(AgentOptions):
    """Options of an agent that ends, takes back or removes.

    Attributes:
        brake_share: part of the live jobs, or of the kept rows, that one cycle may end or remove; 1: all of them.
        brake_pauses_after: cycles in a row that the brake held back, after which the agent pauses; 0: it never does.
    """

    brake_share: float = Field(default=0.05, gt=0, le=1)
    brake_pauses_after: int = Field(default=3, ge=0, le=1000)


@dataclass(frozen=True)
class Brake:
    """The brake of one agent in one cycle.

    Attributes:
        agent: its name.
        share: part of what there is that may go.
        forced: whether an operator lets this cycle through.
        noted: where what is due is noted.
    """

    agent: str
    share: float
    forced: bool
    noted: list[Due] = field(default_factory=list)

    @classmethod
    def of(cls, agent: str, options: BrakedOptions, context: CycleContext) -> Brake:
        """The brake of an agent with these options, in a cycle."""
        return cls(agent, options.brake_share, context.request.force, context.due)

    def allows(self, there_are: int) -> int | None:
        """How many of ``there_are`` may go in this cycle; None: all."""
        if self.forced or self.share >= 1:
            return None
        return max(ALWAYS_ALLOWED, int(self.share * there_are))

    def report(self, kind: str, due: int, there_are: int, *, writes: bool) -> str | None:
        """The remark on what waits because of the brake, if anything does; a cycle that writes raises the alarm."""
        allowed = self.allows(there_are)
        found = Due(kind, due, there_are, allowed)
        self.noted.append(found)
        if not found.is_held_back:
            return None
        fields = {
            "agent": self.agent, "kind": kind, "due": due, "allowed": allowed, "there_are": there_are,
            "brake_share": self.share,
        }  # fmt: skip
        if writes:
            _log.error("brake: more is due than one cycle may do; see why before forcing it", extra={"fields": fields})
        return (
            f"brake: {due} {kind} are due, {allowed} of {there_are} may go in one cycle (brake_share {self.share:g}); "
            f"the others wait. `broker run {self.agent} --force --yes` lets one cycle through"
        )


def is_held_back(due: Sequence[Due]) -> bool:
    """Whether the brake holds back some of what a cycle found due."""
    return any(one.is_held_back for one in due)


def pause_held_back(connection: sa.Connection, agent: str, options: AgentOptions, due: Sequence[Due]) -> bool:
    """Pause an agent whose last cycles were all held back by its brake, until it is resumed; whether it is paused.

    To be called when the row of the cycle is closed.
    """
    most = options.brake_pauses_after if isinstance(options, BrakedOptions) else 0
    if not most or agent_runs.braked_in_a_row(connection, agent, most) < most:
        return False
    found = ", ".join(f"{one.number} of {one.there_are} {one.kind}" for one in due if one.is_held_back)
    reason = f"{most} cycles in a row were held back by the brake; due: {found}. See why, then resume {agent}"
    agent_pauses.pause(connection, agent, until=agent_pauses.UNTIL_RESUMED, reason=reason, editor=agent_pauses.BRAKE)
    _log.error("agent paused by its brake", extra={"fields": {"agent": agent, "cycles": most, "due": found}})
    return True
