"""Errors of a simulation, each with its place and a remedy."""

from __future__ import annotations

from broker.errors import NOT_FOUND, NotFound, Refused


class SimulationError(Refused):
    """A scenario cannot be simulated; the message says where and why."""


class UnknownPolicyError(SimulationError, NotFound):
    """No policy has this name."""

    exit_status = NOT_FOUND
