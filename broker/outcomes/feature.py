"""Registers the feature ``outcomes``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="outcomes",
    order=125,
    agents={"outcomes": "agents.outcomes.outcomes:OutcomesAgent"},
    commands=(
        Command(
            "outcomes",
            "broker.outcomes.commands.outcomes:outcomes",
            "Show how jobs end at queues, and which queues and nodes are closed for it.",
            place=255,
            watched=("outcomes",),
        ),
    ),
)
