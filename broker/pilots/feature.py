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
        "pilot_demand": "agents.pilots.pilot_demand:PilotDemandAgent",
        "submitter": "agents.pilots.submitter:SubmitterAgent",
    },
    commands=(
        Command(
            "match-job",
            "broker.pilots.commands.match_job:match_job",
            "Give a job to a pilot, or show why there is none.",
            place=370,
            elsewhere="broker.pilots.commands.match_job:ELSEWHERE",
        ),
        Command(
            "pilots",
            "broker.pilots.commands.pilots:app",
            "Pilots: how many each queue could use, and why no more.",
            place=375,
            watched=("pilots demand",),
        ),
    ),
    routes=(
        "broker.pilots.routes.factories",
        "broker.pilots.routes.pilots",
        "broker.pilots.routes.why",
    ),
    pages=("broker.pilots.pages.match",),
    templates="broker.pilots",
)
