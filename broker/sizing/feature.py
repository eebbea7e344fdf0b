"""Registers the feature ``sizing``."""

from __future__ import annotations

from broker.feature import Feature

FEATURE = Feature(
    name="sizing",
    order=127,
    agents={"task_sizing": "agents.tasks.task_sizing:TaskSizingAgent"},
    routes=("broker.sizing.routes.requests",),
)
