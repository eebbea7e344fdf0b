"""Registers the feature ``lifecycle``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="lifecycle",
    order=120,
    agents={
        "timeouts": "agents.lifecycle.timeouts:TimeoutsAgent",
        "fast_rebrokerage": "agents.lifecycle.fast_rebrokerage:FastRebrokerageAgent",
        "analysis_rebrokerage": "agents.lifecycle.analysis_rebrokerage:AnalysisRebrokerageAgent",
    },
    commands=(
        Command(
            "timeouts",
            "broker.lifecycle.commands.timeouts:timeouts",
            "List jobs that have waited or run for too long, by rule.",
            place=240,
            watched=("timeouts",),
        ),
        Command(
            "why-timeout",
            "broker.lifecycle.commands.timeouts:why_timeout",
            "Show when each timeout rule fires for a job, or why not.",
            place=250,
        ),
    ),
)
