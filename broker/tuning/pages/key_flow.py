"""The steps of changing one key: its recent effect, how a canary of it fares, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import Response
from starlette.requests import Request

from broker.access.policies import TUNE
from broker.api.guarded_route import allow
from broker.api.problems import Problem
from broker.api.state import State, Who, editor
from broker.decisions.answers.reason_codes import all_rules
from broker.store.gdpconfig_rows import REASON_MAX_CHARACTERS, TuningEvent
from broker.store.query_context import QueryContext
from broker.tuning.answers import values as tuning_values
from broker.tuning.answers.canaries import CanaryAnswer
from broker.tuning.pages.canaries import effects
from broker.web.formats import in_path
from broker.web.rendering import Form, back_to, page_router

router = page_router(tag="tuning")


def rules_that_read(query: QueryContext, key: str) -> list[dict[str, Any]]:
    """The rules that read a key, with their effect in 24 hours, those that rejected most first."""
    rules = [
        {
            "brokerage": rule.brokerage,
            "rule": rule.line.rule,
            "code": rule.line.code,
            "title": rule.line.title,
            "rejected": rule.line.rejections_24h,
            "decides": rule.line.decides_24h,
        }
        for rule in all_rules(query)
        if key in rule.line.keys
    ]
    return sorted(rules, key=lambda rule: (-rule["rejected"], rule["brokerage"], rule["rule"]))


def lately_sentence(lines: Sequence[dict[str, Any]]) -> str:
    """A sentence on the recent effect of a key. Pure."""
    if not lines:
        return "No rule reads it: weights, limits or steps do, or it acts elsewhere."
    rejected, decides = (sum(line[name] for line in lines) for name in ("rejected", "decides"))
    return (
        f"Rules that read it rejected a candidate {rejected:,} times in 24 h, "
        f"and are why {decides:,} {'chunk waits' if decides == 1 else 'chunks wait'} now."
    )


def canaries_of(canaries: Sequence[CanaryAnswer], key: str) -> list[dict[str, Any]]:
    """The canaries that tried a key, newest first, each with its effect on the chosen tasks."""
    return [{"canary": canary.model_dump(), "effects": effects(canary)} for canary in canaries if key in canary.set]


def ways_back(history: Sequence[TuningEvent], key: str) -> list[dict[str, Any]]:
    """The values that a key had before each of its last changes, without repeats."""
    values: dict[tuple[str, str], dict[str, Any]] = {}
    for event in history:
        if event.key == key and event.action in ("set", "unset"):
            values.setdefault(
                (event.vo or "", repr(event.old)), {"version": event.version, "old": event.old, "vo": event.vo}
            )
    return list(values.values())[:10]


@router.post("/tuning/{key}/back")
@allow(TUNE)
def take_back(request: Request, api: State, who: Who, key: str, fields: Form) -> Response:
    """Restore the value that one key had before one of its changes; other keys stay as they are."""
    reason = fields.get("reason", "").strip()
    if not reason or len(reason) > REASON_MAX_CHARACTERS:
        raise Problem(422, "no_reason", "a change needs a reason", "say why, in a sentence")
    with api.database.read_snapshot() as connection:
        events = tuning_values.history(connection, api.database, key, 1000)
    chosen = next((event for event in events if str(event.version) == fields.get("version") and event.key == key), None)
    if chosen is None:
        raise Problem(422, "invalid_request", f"no version {fields.get('version', '')[:20]} changed {key}")
    tuning_values.restore(api.database, key, chosen, editor=editor(who), reason=reason)
    return back_to(f"/tuning/{in_path(key)}")
