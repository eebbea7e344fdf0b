"""What a simulation refuses, with the place and what to do about it."""

from __future__ import annotations

from broker.errors import NOT_FOUND, NotFound, Refused


class SimulationError(Refused):
    """A scenario cannot be simulated; the message says where and why."""


class UnknownPolicyError(SimulationError, NotFound):
    """No policy has this name."""

    exit_status = NOT_FOUND
