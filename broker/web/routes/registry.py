"""The routers of the page. A new one is added here and nowhere else."""

from __future__ import annotations

ROUTERS: tuple[str, ...] = (
    "broker.web.routes.static_files",
    "broker.service.pages.overview",
    "broker.decisions.pages.tasks",
    "broker.grid.pages.queues",
    "broker.grid.pages.grid",
    "broker.decisions.pages.rules",
    "broker.tuning.pages.tuning",
    "broker.simulation.pages.simulations",
    "broker.history.pages.work",
    "broker.service.pages.plots",
)
"""Modules; each has ``router``."""
