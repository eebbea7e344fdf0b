"""Registers the feature ``pilots``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="pilots",
    order=70,
    agents={
        "activation": "agents.pilots.activation:ActivationAgent",
        "completion": "agents.pilots.completion:CompletionAgent",
        "pilot_activity": "agents.pilots.pilot_activity:PilotActivityAgent",
    },
    commands=(
        Command(
            "match-job",
            "broker.pilots.commands.match_job:match_job",
            "One job for a pilot, or why there is none.",
            place=370,
        ),
    ),
    routes=(
        "broker.pilots.routes.factories",
        "broker.pilots.routes.pilots",
    ),
)
