"""Registers the feature ``decisions``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="decisions",
    order=20,
    commands=(
        Command(
            "explain",
            "broker.decisions.commands.explain:explain",
            "Explain the last decision about a task, with reasons and weights.",
            place=170,
            elsewhere="broker.decisions.commands.explain:EXPLAIN_ELSEWHERE",
        ),
        Command(
            "why-not",
            "broker.decisions.commands.explain:why_not",
            "Explain why a queue was not chosen for a task.",
            place=180,
            elsewhere="broker.decisions.commands.explain:WHY_NOT_ELSEWHERE",
        ),
        Command(
            "replay",
            "broker.decisions.commands.replay:replay",
            "Decide again what was decided, and compare byte by byte.",
            place=220,
        ),
        Command("rules", "broker.decisions.commands.rules:rules", "List the rules of a brokerage in order.", place=280),
    ),
    routes=(
        "broker.decisions.routes.tasks",
        "broker.decisions.routes.brokerage",
        "broker.decisions.routes.rules",
    ),
    pages=(
        "broker.decisions.pages.tasks",
        "broker.decisions.pages.rules",
    ),
    templates="broker.decisions",
    decision_bodies="broker.decisions.routes.published:bodies",
)
