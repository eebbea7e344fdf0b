"""Registers the feature ``tasks``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="tasks",
    order=30,
    agents={
        "task_input": "agents.tasks.task_input:TaskInputAgent",
        "rucio_output": "agents.tasks.rucio_output:RucioOutputAgent",
    },
    commands=(
        Command(
            "submit",
            "broker.tasks.commands.submit:submit",
            "Submit jobs from a file, by its kind.",
            place=380,
            elsewhere="broker.tasks.commands.submit:ELSEWHERE",
        ),
        Command(
            "task",
            "broker.tasks.commands.task:app",
            "Submit, kill, retry and reassign tasks.",
            place=390,
            elsewhere="broker.tasks.commands.task:ELSEWHERE",
        ),
        Command(
            "outputs",
            "broker.tasks.commands.outputs:app",
            "Outputs of jobs on their way to Rucio: what waits, and what was refused.",
            place=395,
            watched=("outputs list",),
        ),
    ),
    routes=(
        "broker.tasks.routes.tasks",
        "broker.tasks.routes.verbs",
        "broker.tasks.routes.client_tasks",
        "broker.tasks.routes.client_files",
    ),
)
