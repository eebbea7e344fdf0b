"""Registers the feature ``flow``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="flow",
    order=126,
    agents={"decision_quality": "agents.quality.decision_quality:DecisionQualityAgent"},
    commands=(
        Command(
            "quality",
            "broker.flow.commands.quality:app",
            "Quality of decisions, compared with the best placement of the same jobs.",
            place=257,
            watched=("quality show",),
        ),
    ),
    routes=("broker.flow.routes.quality",),
    pages=("broker.flow.pages.quality",),
    templates="broker.flow",
)
