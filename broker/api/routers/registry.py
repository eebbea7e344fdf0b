"""The routers of the application, in the order of the description. A new one is added here and nowhere else."""

from __future__ import annotations

ROUTERS: tuple[str, ...] = (
    "broker.api.routers.health",
    "broker.api.routers.who",
    "broker.decisions.routes.tasks",
    "broker.grid.routes.grid",
    "broker.api.routers.service",
    "broker.decisions.routes.brokerage",
    "broker.pilots.routes.factories",
    "broker.pilots.routes.pilots",
    "broker.feeds.routes.sources",
    "broker.tuning.routes.tuning",
    "broker.tuning.routes.operations",
    "broker.whatif.routes.runs",
    "broker.api.routers.simulations",
    "broker.api.routers.events",
)
"""Modules; each has ``router``."""
