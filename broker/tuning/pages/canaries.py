"""The page of canaries: values tried on a share of the tasks, and how these tasks fared against the rest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fastapi import Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.state import State, moment
from broker.tuning.answers import canaries as canary_trials
from broker.tuning.answers.canaries import CanaryAnswer
from broker.web.rendering import page_router, show

router = page_router(tag="canaries")


class CanariesPage(BaseModel):
    """The trials, the newest first."""

    now: datetime
    canaries: list[CanaryAnswer]


@router.get("/canaries")
@allow(READ)
def list_canaries(request: Request, api: State) -> Response:
    """The values tried on a share of the tasks, and their outcomes."""
    now = moment(api)
    page = CanariesPage(now=now, canaries=canary_trials.tried(api.database, now))
    return show(
        request,
        "tuning/canaries",
        page,
        title="Canaries",
        items="canaries",
        sentence=canaries_sentence(page.canaries),
        effects=[effects(canary) for canary in page.canaries],
    )


def canaries_sentence(canaries: Sequence[CanaryAnswer]) -> str:
    """A sentence on the running canary. Pure."""
    running = next((canary for canary in canaries if canary.running), None)
    if running is None:
        return f"No canary runs; {len(canaries):,} were tried."
    values = ", ".join(f"{key} = {value}" for key, value in running.set.items())
    return f"Canary {running.canary} tries {values} on {100 * running.share:g} % of the tasks."


def effects(canary: CanaryAnswer) -> list[dict[str, Any]]:
    """How the chosen tasks fared against the rest, by brokerage, in per cent of the decisions. Pure."""
    rows = []
    for brokerage in dict.fromkeys(one.brokerage for one in canary.outcomes):
        groups = {one.group: one for one in canary.outcomes if one.brokerage == brokerage}
        for group in ("canary", "rest"):
            one = groups.get(group)
            if one is None or not one.decisions:
                continue
            rows.append(
                {
                    "brokerage": brokerage,
                    "group": group,
                    "decisions": one.decisions,
                    "tasks": one.tasks,
                    "brokered": 100.0 * one.brokered / one.decisions,
                    "pending": 100.0 * one.pending / one.decisions,
                    "throttled": 100.0 * one.throttled / one.decisions,
                    "candidates": one.candidates,
                    "jobs": one.jobs,
                }
            )
    return rows
