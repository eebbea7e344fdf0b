"""The names of the brokerages that installed distributions offer, without loading any of them."""

from __future__ import annotations

from importlib.metadata import EntryPoint

from broker.resources import entry_points

GROUP = "broker.brokerages"
SHIPPED = ("production_task", "production_job", "analysis_job", "generic_job")
"""The brokerages of this distribution, in the order in which work passes through them."""


def offered() -> dict[str, EntryPoint]:
    """The entry points of the brokerages, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}
