"""Rules and reason codes: their order, what they mean, what they rejected."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.problem_codes import problem_code
from broker.api.state import State, query_context
from broker.decisions.answers.known_reasons import WHO, known_reasons
from broker.decisions.answers.reason_codes import RuleOfBrokerage, all_rules, glossary, reason_code, rule_answer
from broker.store.query_context import ResponseModel
from broker.web.pictures.over_time import sparkline
from broker.web.rendering import page_router, show

router = page_router(tag="rules")
InPath = Annotated[str, Path(min_length=1, max_length=200)]


class AllRules(ResponseModel):
    """The rules of all brokerages, in their order."""

    rules: tuple[RuleOfBrokerage, ...]


class ProblemPage(ResponseModel):
    """A code with which a request is refused: what it means, and what to do."""

    code: str
    meaning: str
    cure: str


@router.get("/rules")
@allow(READ)
def list_rules(request: Request, api: State) -> Response:
    """The rules of every brokerage in their order, with what they rejected in 24 h."""
    with query_context(api) as query:
        answer = AllRules(rules=tuple(all_rules(query)))
    brokerages = list(dict.fromkeys(rule.brokerage for rule in answer.rules))
    return show(request, "decisions/rules", answer, title="Rules", items="rules", brokerages=brokerages)


@router.get("/rules/{rule}")
@allow(READ)
def one_rule(request: Request, api: State, rule: InPath) -> Response:
    """A rule: where it stands, its keys, what it rejected, tasks for which it was the only reason."""
    with query_context(api) as query:
        answer = rule_answer(query, rule)
    title = f"Rejections of {answer.rule} over 24 hours, hour by hour: {sum(answer.by_hour):,}"
    drawn = sparkline(title, answer.by_hour)
    return show(request, "decisions/rule", answer, title=f"Rule {answer.rule}", picture=lambda: drawn)


@router.get("/reasons/{code}")
@allow(READ)
def one_reason(request: Request, api: State, code: InPath) -> Response:
    """A reason code: what is wrong, who can act and how, what the rules with it ask; of a problem what to do."""
    refused = None if code in known_reasons() else problem_code(code)
    if refused is not None:
        page = ProblemPage(code=code, meaning=refused.meaning, cure=refused.cure)
        return show(request, "decisions/problem_code", page, title=f"Problem {code}")
    with query_context(api) as query:
        answer = reason_code(query, code)
    actors = [WHO[one.who] for one in answer.given]
    return show(request, "decisions/reason", answer, title=f"Reason {answer.code}", actors=actors)


@router.get("/glossary")
@allow(READ)
def list_codes(request: Request, api: State) -> Response:
    """All reason codes with what is wrong."""
    with query_context(api) as query:
        answer = glossary(query)
    return show(request, "decisions/glossary", answer, title="Glossary", terms=TERMS)


TERMS = {
    "brokerage": "deciding at which nucleus a task is collected, and at which queues its jobs run",
    "candidate": "a queue or nucleus that work may be given to",
    "chunk": "a part of the input of a task that one decision is about: a dataset, with a memory requirement",
    "CRIC": "the catalogue of computing resources, from which limits and status of queues come",
    "gdpconfig": "the table of PanDA with the values by which the brokerage is tuned",
    "global share": "the part of all resources that a kind of work is to have",
    "nucleus": "a site that collects the output of a task",
    "pin": "a field of a queue that an operator holds at a value, whatever CRIC says",
    "pseudo-queue": "a queue as it is offered for one resource type, such as BNL/MCORE_HIMEM",
    "canary": "values of the tuning that are tried on a share of the tasks",
}
