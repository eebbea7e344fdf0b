"""Registers the feature ``forecasts``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="forecasts",
    order=128,
    agents={"forecasts": "agents.forecasts.forecasts:ForecastsAgent"},
    commands=(
        Command(
            "forecast",
            "broker.forecasts.commands.forecast:app",
            "When work will start, and how accurate forecasts were: show, list, check.",
            place=257,
            watched=("forecast list",),
        ),
    ),
    routes=("broker.forecasts.routes.forecasts",),
    pages=("broker.forecasts.pages.forecasts",),
    templates="broker.forecasts",
)
