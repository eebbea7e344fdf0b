"""Registers the feature ``tuning``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="tuning",
    order=90,
    commands=(
        Command(
            "config",
            "broker.tuning.commands.config:app",
            "List, read and set tuning values.",
            place=320,
            watched=("config history", "config list"),
            elsewhere="broker.tuning.commands.config:ELSEWHERE",
        ),
    ),
    routes=(
        "broker.tuning.routes.tuning",
        "broker.tuning.routes.operations",
    ),
    pages=("broker.tuning.pages.tuning", "broker.tuning.pages.key_flow", "broker.tuning.pages.canaries"),
    templates="broker.tuning",
)
