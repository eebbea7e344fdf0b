"""The pages of the menu, and the tuning key set by the journeys."""

from __future__ import annotations

KEY = "NQUEUED_SAT_CAP"
MENU = (
    "/", "/alarms", "/compare", "/tasks", "/jobs", "/reasons", "/quality", "/queues", "/nuclei", "/links", "/shares",
    "/map", "/pools", "/sources", "/rules", "/tuning", "/canaries", "/retries", "/forecasts", "/pins",
    "/simulations", "/runs", "/service", "/glossary", "/docs", "/docs/list_alarms", "/search?q=BNL-ATL",
)  # fmt: skip
