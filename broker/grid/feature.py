"""Registers the feature ``grid``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="grid",
    order=40,
    agents={
        "site_class": "agents.classes.site_class:SiteClassAgent",
        "task_class": "agents.classes.task_class:TaskClassAgent",
        "share_usage": "agents.classes.share_usage:ShareUsageAgent",
        "gpu_summary": "agents.grid.worker_nodes:GpuSummaryAgent",
        "worker_nodes": "agents.grid.worker_nodes:WorkerNodesAgent",
    },
    commands=(
        Command(
            "queues",
            "broker.grid.commands.queues:queues",
            "List queues: what they got, and what rejected them.",
            place=120,
            watched=("queues",),
            elsewhere="broker.grid.commands.queues:ELSEWHERE",
        ),
        Command(
            "nucleus",
            "broker.grid.commands.nucleus:nucleus",
            "Show what a nucleus collects, or all of them.",
            place=130,
            watched=("nucleus",),
            elsewhere="broker.grid.commands.nucleus:ELSEWHERE",
        ),
        Command(
            "links",
            "broker.grid.commands.links:links",
            "List links to nuclei, with the files queued on them.",
            place=140,
            watched=("links",),
            elsewhere="broker.grid.commands.links:ELSEWHERE",
        ),
        Command(
            "shares",
            "broker.grid.commands.shares:shares",
            "Show global shares: target, running, waiting.",
            place=150,
            watched=("shares",),
            elsewhere="broker.grid.commands.shares:ELSEWHERE",
        ),
        Command(
            "share",
            "broker.grid.commands.share:app",
            "List, set and remove global shares; show who changed them.",
            place=155,
            watched=("share list", "share history"),
        ),
        Command(
            "snapshot",
            "broker.grid.commands.snapshot:app",
            "Stored snapshots of the grid: list, show, export to a file, import.",
            place=230,
            watched=("snapshot list",),
        ),
        Command(
            "classes",
            "broker.grid.commands.classes:classes",
            "List classes of queues, users and tasks; usage of shares; their age.",
            place=270,
            watched=("classes",),
        ),
    ),
    routes=("broker.grid.routes.grid",),
    pages=(
        "broker.grid.pages.queues",
        "broker.grid.pages.grid",
        "broker.grid.pages.sites",
    ),
    templates="broker.grid",
)
