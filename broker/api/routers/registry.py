"""The routers of the application, in the order of the description. A new one is added here and nowhere else."""

from __future__ import annotations

ROUTERS: tuple[str, ...] = (
    "broker.service.routes.health",
    "broker.service.routes.who",
    "broker.decisions.routes.tasks",
    "broker.tasks.routes.tasks",
    "broker.grid.routes.grid",
    "broker.service.routes.service",
    "broker.decisions.routes.brokerage",
    "broker.pilots.routes.factories",
    "broker.pilots.routes.pilots",
    "broker.feeds.routes.sources",
    "broker.tuning.routes.tuning",
    "broker.tuning.routes.operations",
    "broker.whatif.routes.runs",
    "broker.simulation.routes.simulations",
    "broker.service.routes.events",
)
"""Modules; each has ``router``."""
