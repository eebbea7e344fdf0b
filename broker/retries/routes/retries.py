"""Retry rules: read, test, add and remove; and what they did for a task."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from broker.access.policies import READ, TUNE
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import LARGEST_ID, At, State, TaskId, Who, editor, query_context
from broker.retries.answers import retries
from broker.retries.answers.new_rule import NewRule, WrongRule
from broker.retries.answers.retries import RetryActionLine, RetryRuleLine, RetryRules, RuleTest
from broker.retries.statements.retry_rows import Editing
from broker.store.query_context import ResponseModel

router = guarded_router(tag="retries")
Why = Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")]


class AddedRule(NewRule):
    """A rule and the reason for adding it."""

    reason: Why = ""


class TestedRule(BaseModel):
    """The rule to test: an existing one by ``name`` (``panda:12``), or ``rule`` as written; and how far back."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[str | None, Field(max_length=64)] = None
    rule: NewRule | None = None
    days: Annotated[float, Field(gt=0, le=365)] = 7.0


class RetryActions(ResponseModel):
    """Actions of retry rules on a task, oldest first."""

    jeditaskid: int
    actions: tuple[RetryActionLine, ...]


@router.get("/retry-rules", response_model=RetryRules)
@allow(READ)
def list_retry_rules(
    request: Request,
    api: State,
    removed: Annotated[bool, Query(description="Include removed rules.")] = False,
    at: At = None,
) -> Response:
    """List the rules of PanDA's tables and our own."""
    with query_context(api, at) as query:
        rules = retries.rule_list(query, with_removed=removed)
    return answer(request, rules, items="rules")


@router.post("/retry-rules", response_model=RetryRuleLine)
@allow(TUNE)
def add_retry_rule(request: Request, api: State, who: Who, body: AddedRule) -> Response:
    """Add a rule; it takes effect in the next cycle of the agent retries."""
    new = NewRule(**body.model_dump(exclude={"reason"}))
    return answer(request, retries.add(api.database, new, Editing(api.now(), editor(who), body.reason)))


@router.post("/retry-rules:test", response_model=RuleTest)
@allow(READ)
def test_retry_rule(request: Request, api: State, body: TestedRule, at: At = None) -> Response:
    """Test a rule on the jobs that failed in the last days; nothing is changed."""
    if (body.name is None) == (body.rule is None):
        raise WrongRule("one of name and rule is needed", "body", "name a rule, or write one")
    with query_context(api, at) as query:
        known = retries.written(body.rule) if body.rule is not None else retries.rule_named(query, body.name or "")
        result = retries.test_rule(query, known, body.days)
    return answer(request, result)


@router.delete("/retry-rules/{number}", response_model=RetryRuleLine)
@allow(TUNE)
def remove_retry_rule(
    request: Request,
    api: State,
    who: Who,
    number: Annotated[int, Path(ge=1, le=LARGEST_ID)],
    reason: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """Remove one of our own rules; it stays on record."""
    return answer(request, retries.remove(api.database, number, Editing(api.now(), editor(who), reason)))


@router.get("/tasks/{task}/retries", response_model=RetryActions)
@allow(READ)
def get_retries(request: Request, api: State, task: TaskId, at: At = None) -> Response:
    """List what retry rules did for the jobs of a task, or would have done if passive, with reasons."""
    with query_context(api, at) as query:
        actions = RetryActions(jeditaskid=task, actions=retries.actions_of(query, task=task))
    return answer(request, actions)
