"""Registers the feature ``pools``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="pools",
    order=60,
    agents={
        "submit_pool_refresh": "agents.pools.submit_pool_refresh:SubmitPoolRefreshAgent",
        "submit_pool_cleanup": "agents.pools.submit_pool_cleanup:SubmitPoolCleanupAgent",
    },
    commands=(
        Command(
            "match",
            "broker.pools.commands.match:match",
            "Show which queues take a requirement, which refuse it, and why.",
            place=260,
        ),
        Command(
            "pool",
            "broker.pools.commands.pool:app",
            "SubmitPools: what jobs require, and which queues meet it.",
            place=360,
            watched=("pool list",),
        ),
    ),
    routes=("broker.pools.routes.pools", "broker.pools.routes.factories"),
    pages=("broker.pools.pages.pools",),
    templates="broker.pools",
)
