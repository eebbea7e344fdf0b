"""The brake: how much one cycle may end, take back or remove, whatever its rules say.

A wrong clock, table or key makes everything due at once. What is over the limit waits for the next cycle, with an
alarm; an operator lets one cycle through with ``broker run AGENT --force``, or switches the brake off.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pydantic import Field

from agents.service.base import AgentOptions, CycleRequest

_log = logging.getLogger(__name__)

ALWAYS_ALLOWED = 100
"""Jobs or rows that a cycle may end or remove however few there are."""


class BrakedOptions(AgentOptions):
    """Options of an agent that ends, takes back or removes.

    Attributes:
        brake_share: part of the live jobs, or of the kept rows, that one cycle may end or remove; 1: all of them.
    """

    brake_share: float = Field(default=0.05, gt=0, le=1)


@dataclass(frozen=True)
class Brake:
    """The brake of one agent in one cycle.

    Attributes:
        agent: its name.
        share: part of what there is that may go.
        forced: whether an operator lets this cycle through.
    """

    agent: str
    share: float
    forced: bool

    @classmethod
    def of(cls, agent: str, options: BrakedOptions, request: CycleRequest) -> Brake:
        """The brake of an agent with these options, in a cycle that was asked for so."""
        return cls(agent, options.brake_share, request.force)

    def allows(self, there_are: int) -> int | None:
        """How many of ``there_are`` may go in this cycle; None: all."""
        if self.forced or self.share >= 1:
            return None
        return max(ALWAYS_ALLOWED, int(self.share * there_are))

    def report(self, kind: str, due: int, there_are: int, *, writes: bool) -> str | None:
        """The remark on what waits because of the brake, if anything does; a cycle that writes raises the alarm."""
        allowed = self.allows(there_are)
        if allowed is None or due <= allowed:
            return None
        fields = {
            "agent": self.agent, "kind": kind, "due": due, "allowed": allowed, "there_are": there_are,
            "brake_share": self.share,
        }  # fmt: skip
        if writes:
            _log.error("brake: more is due than one cycle may do; see why before forcing it", extra={"fields": fields})
        return (
            f"brake: {due} {kind} are due, {allowed} of {there_are} may go in one cycle (brake_share {self.share:g}); "
            f"the others wait. `broker run {self.agent} --force` lets one cycle through"
        )
