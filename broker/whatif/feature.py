"""Registers the feature ``whatif``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="whatif",
    order=100,
    commands=(
        Command(
            "what-if",
            "broker.whatif.commands.what_if:what_if",
            "Show what would have been decided with other values or rules.",
            place=290,
        ),
        Command(
            "sweep",
            "broker.whatif.commands.sweep:sweep",
            "Show what would have been decided with each value of a grid.",
            place=300,
        ),
    ),
    routes=("broker.whatif.routes.runs",),
    pages=("broker.whatif.pages.runs",),
    templates="broker.whatif",
)
