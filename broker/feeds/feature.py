"""Registers the feature ``feeds``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="feeds",
    order=80,
    agents={
        "cric": "agents.feeds.cric:CricAgent",
        "sites": "agents.feeds.sites:SitesAgent",
        "rucio_space": "agents.feeds.rucio_usage:RucioSpaceAgent",
        "rucio_replicas": "agents.feeds.rucio_replicas:RucioReplicasAgent",
        "rucio_quota": "agents.feeds.rucio_usage:RucioQuotaAgent",
        "network": "agents.feeds.network:NetworkAgent",
    },
    commands=(
        Command(
            "import",
            "broker.feeds.commands.imports:app",
            "Import facts of the grid by hand: a file of sites, CRIC, Rucio, network, workers; their log.",
            place=400,
            watched=("import log",),
        ),
        Command(
            "queue",
            "broker.feeds.commands.queue:app",
            "Show what a queue gets and why not more, its history, and pinned fields.",
            place=410,
            watched=("queue history", "queue show"),
            elsewhere="broker.feeds.commands.queue:ELSEWHERE",
        ),
    ),
    routes=("broker.feeds.routes.sources", "broker.feeds.routes.pins"),
    pages=("broker.feeds.pages.lists",),
)
