"""The page of canaries: values that were tried on a share of the tasks, and how these fared beside the rest."""

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
    """What was tried on a share of the tasks, and what came of it."""
    now = moment(api)
    found = CanariesPage(now=now, canaries=canary_trials.tried(api.database, now))
    return show(
        request,
        "canaries",
        found,
        title="Canaries",
        items="canaries",
        sentence=canaries_sentence(found.canaries),
        effects=[effects(one) for one in found.canaries],
    )


def canaries_sentence(canaries: Sequence[CanaryAnswer]) -> str:
    """Which one runs. Pure."""
    running = next((one for one in canaries if one.running), None)
    if running is None:
        return f"No canary runs; {len(canaries):,} were tried."
    values = ", ".join(f"{key} = {value}" for key, value in running.set.items())
    return f"Canary {running.canary} tries {values} on {100 * running.share:g} % of the tasks."


def effects(canary: CanaryAnswer) -> list[dict[str, Any]]:
    """How the chosen tasks fared beside the rest, by brokerage: parts of a hundred of the decisions. Pure."""
    found = []
    for brokerage in dict.fromkeys(one.brokerage for one in canary.outcomes):
        groups = {one.group: one for one in canary.outcomes if one.brokerage == brokerage}
        for group in ("canary", "rest"):
            one = groups.get(group)
            if one is None or not one.decisions:
                continue
            found.append(
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
    return found
