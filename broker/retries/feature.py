"""Registers the feature ``retries``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="retries",
    order=126,
    agents={"retries": "agents.lifecycle.retries:RetriesAgent"},
    commands=(
        Command(
            "retry-rule",
            "broker.retries.commands.retry_rule:app",
            "Rules for retries of failed jobs: list, add, remove, test.",
            place=256,
            watched=("retry-rule list",),
        ),
    ),
    routes=("broker.retries.routes.retries",),
    pages=("broker.retries.pages.retries",),
    templates="broker.retries",
)
