"""The brake: how much one cycle may end, take back or remove, whatever its rules say.

A wrong clock, table or key makes everything due at once. Whatever exceeds the limit waits for the next cycle, and an
alarm is raised. Since successive cycles could still end nearly everything, the agent pauses after several such cycles
in a row until somebody resumes it. An operator lets one cycle through with ``broker run AGENT --force --yes``, or
switches the brake off.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from pydantic import Field

from agents.service.base import AgentOptions, CycleContext, DueCount
from broker.store.service import agent_pauses, agent_runs

_log = logging.getLogger(__name__)

ALWAYS_ALLOWED = 100
"""Jobs or rows that a cycle may always end or remove, however few there are in all."""


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
        agent: name of the agent.
        share: fraction of the existing jobs or rows that may go.
        forced: whether an operator lets this cycle through.
        noted: collects what is due.
    """

    agent: str
    share: float
    forced: bool
    noted: list[DueCount] = field(default_factory=list)

    @classmethod
    def of(cls, agent: str, options: BrakedOptions, context: CycleContext) -> Brake:
        """Return the brake of an agent with these options for one cycle."""
        return cls(agent, options.brake_share, context.request.force, context.due)

    def allows(self, there_are: int) -> int | None:
        """Return how many of ``there_are`` may go in this cycle; None: all."""
        if self.forced or self.share >= 1:
            return None
        return max(ALWAYS_ALLOWED, int(self.share * there_are))

    def report(self, kind: str, due: int, there_are: int, *, writes: bool) -> str | None:
        """Return a remark on what the brake holds back, None if nothing; a cycle that writes also raises the alarm."""
        allowed = self.allows(there_are)
        due_now = DueCount(kind, due, there_are, allowed)
        self.noted.append(due_now)
        if not due_now.is_held_back:
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


def is_held_back(due: Sequence[DueCount]) -> bool:
    """Return whether the brake holds back any of what a cycle found due."""
    return any(item.is_held_back for item in due)


def pause_held_back(connection: sa.Connection, agent: str, options: AgentOptions, due: Sequence[DueCount]) -> bool:
    """Pause an agent, until resumed, if the brake held back all of its last cycles; return whether it is paused.

    Call this when the row of the cycle is closed.
    """
    most = options.brake_pauses_after if isinstance(options, BrakedOptions) else 0
    if not most or agent_runs.braked_in_a_row(connection, agent, most) < most:
        return False
    summary = ", ".join(f"{item.number} of {item.there_are} {item.kind}" for item in due if item.is_held_back)
    reason = f"{most} cycles in a row were held back by the brake; due: {summary}. See why, then resume {agent}"
    agent_pauses.pause(connection, agent, until=agent_pauses.UNTIL_RESUMED, reason=reason, editor=agent_pauses.BRAKE)
    _log.error("agent paused by its brake", extra={"fields": {"agent": agent, "cycles": most, "due": summary}})
    return True
