"""Registers the feature ``service``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="service",
    order=10,
    agents={
        "cleanup": "agents.upkeep.cleanup:CleanupAgent",
    },
    commands=(
        Command(
            "init",
            "broker.service.commands.init:init",
            "Create an installation for a VO of its own, with the defaults of a small one.",
            place=10,
        ),
        Command(
            "serve",
            "broker.service.commands.serve:serve",
            "Run all agents on their schedules, until stopped.",
            place=20,
        ),
        Command("api", "broker.service.commands.serve:api", "Serve the HTTP API in a process of its own.", place=30),
        Command(
            "mcp",
            "broker.service.commands.mcp:mcp",
            "Answer an assistant's questions over stdin and stdout.",
            place=35,
            elsewhere="broker.service.commands.mcp:elsewhere",
        ),
        Command(
            "run",
            "broker.service.commands.run:run",
            "Run one cycle of one agent.",
            place=40,
            elsewhere="broker.service.commands.run:ELSEWHERE",
        ),
        Command(
            "agents",
            "broker.service.commands.agents:agents",
            "List what runs, when, the last outcome, and who holds the lease.",
            place=50,
            watched=("agents",),
            elsewhere="broker.service.commands.agents:ELSEWHERE",
        ),
        Command(
            "doctor",
            "broker.service.commands.doctor:doctor",
            "Check rights, missing columns, ages, clocks, and who does the same work.",
            place=60,
            watched=("doctor",),
        ),
        Command(
            "pause",
            "broker.service.commands.pause:pause",
            "Pause an agent, or all, until some time.",
            place=70,
            elsewhere="broker.service.commands.pause:PAUSE_ELSEWHERE",
        ),
        Command(
            "resume",
            "broker.service.commands.pause:resume",
            "End a pause.",
            place=80,
            elsewhere="broker.service.commands.pause:RESUME_ELSEWHERE",
        ),
        Command(
            "alarms",
            "broker.service.commands.alarms:alarms",
            "List what is stale, overdue, refused, starving, flapping or failing.",
            place=90,
            watched=("alarms",),
            elsewhere="broker.service.commands.alarms:ELSEWHERE",
        ),
        Command(
            "acknowledge",
            "broker.service.commands.acknowledge:acknowledge",
            "Acknowledge an alarm, or withdraw the acknowledgement.",
            place=95,
        ),
        Command(
            "completion",
            "broker.cli.completion:completion",
            "Print the completion script for bash, zsh or fish.",
            place=420,
        ),
        Command(
            "db", "broker.service.commands.db:app", "Install, upgrade, load, dump and reach the database.", place=430
        ),
    ),
    routes=(
        "broker.service.routes.health",
        "broker.service.routes.who",
        "broker.service.routes.service",
        "broker.service.routes.events",
    ),
    pages=(
        "broker.web.routes.static_files",
        "broker.service.pages.overview",
        "broker.service.pages.api_browser",
        "broker.service.pages.alarms",
        "broker.service.pages.two_times",
        "broker.service.pages.plots",
    ),
    templates="broker.service",
)
