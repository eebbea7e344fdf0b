"""Registers the feature ``history``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="history",
    order=50,
    commands=(
        Command(
            "tasks",
            "broker.history.commands.tasks:tasks",
            "List tasks and why they wait, waiting ones first.",
            place=100,
            watched=("tasks",),
            elsewhere="broker.history.commands.tasks:ELSEWHERE",
        ),
        Command(
            "reasons",
            "broker.history.commands.reasons:reasons",
            "List what waits by reason, most frequent first.",
            place=110,
            watched=("reasons",),
            elsewhere="broker.history.commands.reasons:ELSEWHERE",
        ),
        Command(
            "user",
            "broker.history.commands.user:user",
            "Show a user's tasks, throttles and quota.",
            place=160,
            watched=("user",),
            elsewhere="broker.history.commands.user:ELSEWHERE",
        ),
        Command(
            "history",
            "broker.history.commands.history:history",
            "Show what happened to a task, and what else changed.",
            place=190,
            watched=("history",),
            elsewhere="broker.history.commands.history:ELSEWHERE",
        ),
        Command(
            "story",
            "broker.history.commands.history:history",
            "The same as history.",
            place=200,
            watched=("story",),
            elsewhere="broker.history.commands.history:ELSEWHERE",
        ),
        Command(
            "jobs",
            "broker.history.commands.jobs:jobs",
            "List jobs: states, queues, and why they failed.",
            place=120,
            watched=("jobs",),
            elsewhere="broker.history.commands.jobs:JOBS_ELSEWHERE",
        ),
        Command(
            "job",
            "broker.history.commands.jobs:job",
            "Show a job: why it is there, why it failed.",
            place=125,
            elsewhere="broker.history.commands.jobs:JOB_ELSEWHERE",
        ),
    ),
    routes=("broker.history.routes.jobs", "broker.history.routes.users", "broker.history.routes.search"),
    pages=(
        "broker.history.pages.work",
        "broker.history.pages.search",
    ),
    templates="broker.history",
)
