"""The page of retry rules and of what they recently did to failed jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from fastapi import Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.state import At, State, query_context
from broker.retries.answers.retries import RetryActionLine, RetryRuleLine, RetryRules, actions_of, rule_list
from broker.web.rendering import page_router, show
from broker.web.time_range import A_DAY_H, Hours, time_shown

router = page_router(tag="retries")


class RetriesPage(BaseModel):
    """The rules, and what they did in the hours before ``now``, the newest first."""

    rules: RetryRules
    actions: list[RetryActionLine]


@router.get("/retries")
@allow(READ)
def list_retries(request: Request, api: State, at: At = None, hours: Hours = A_DAY_H) -> Response:
    """The retry rules with what they did, and the jobs to which they did it."""
    with query_context(api, at) as query:
        rules = rule_list(query)
        done = actions_of(query, since=query.now - timedelta(hours=hours))
    page = RetriesPage(rules=rules, actions=[one for one in reversed(done) if one.acted_at <= rules.now])
    counts = Counter(one.rule for one in page.actions)
    return show(
        request,
        "retries/retries",
        {"rules": page.rules, "actions": page.actions},
        title="Retries",
        listed=page.actions,
        sentence=retries_sentence(rules.rules, page.actions, hours),
        counts=dict(counts),
        time=time_shown(request, at, rules.now, hours),
    )


def retries_sentence(rules: Sequence[RetryRuleLine], actions: Sequence[RetryActionLine], hours: float) -> str:
    """How many rules are in force, and what they did. Pure."""
    if not rules and not actions:
        return "There is no retry rule: failed jobs are tried again until the attempts of their files end."
    in_force = sum(one.counts for one in rules)
    acted = sum(one.active for one in actions)
    jobs = len({one.pandaid for one in actions if one.active})
    only = len(actions) - acted
    return (
        f"{in_force:,} of {len(rules):,} retry rules are in force; in {hours:g} h they acted {acted:,} times, on "
        f"{jobs:,} failed jobs, and would have acted {only:,} times more, being passive."
    )
