"""Registers the feature ``formats``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="formats",
    order=130,
    agents={
        "features": "agents.formats.features:FeaturesAgent",
    },
    commands=(
        Command(
            "features",
            "broker.formats.commands.features:app",
            "Machine/Job Features: read, report, publish, announce a shutdown.",
            place=330,
        ),
        Command(
            "job-status",
            "broker.formats.commands.job_status:app",
            "Job status (J2M): write, read, and rank jobs to vacate.",
            place=340,
        ),
        Command(
            "sss",
            "broker.formats.commands.sss:app",
            "Jobs as SSS Job Objects: validate, show, import, export.",
            place=350,
        ),
    ),
)
