"""The HTTP API of deciding: decisions without writing, feasibility before submission, and submissions."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from broker.access.policies import DECIDE, SUBMIT, Identity, Role
from broker.api.deciding import decided
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.problems import Problem
from broker.api.state import LARGEST_ID, ApiState, State, Who, moment
from broker.decisions.answers import feasibility as feasible
from broker.decisions.answers.feasibility import DecisionRequest, FeasibilityAnswer, Question, decide
from broker.store.query_context import Proceed
from broker.tasks.answers.submit import Kind, SubmitOptions, known_grid, planned, submit_all
from broker.tasks.answers.submitted_task import SubmittedTask, submitted_task

router = guarded_router(tag="brokerage")

MOST_TASKS = 1000
SEED_BITS = 31
LONGEST_TEXT = 1 << 20
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00]*$")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DecideQuestion(_Body):
    """A request for a decision; nothing is written.

    Attributes:
        jeditaskids: only these tasks; null for all that are due.
        seed: seed of everything random; null: drawn.
        at: instant to decide for; null for now.
        independent: whether every task meets the same grid.
    """

    jeditaskids: list[Annotated[int, Field(ge=1, le=LARGEST_ID)]] | None = Field(default=None, max_length=MOST_TASKS)
    seed: Seed | None = None
    at: datetime | None = None
    independent: bool = False


class DecideAnswer(BaseModel):
    """The decision that would be made.

    Attributes:
        brokerage: name of the brokerage.
        seed: seed of everything random.
        now: instant of the decision.
        snapshot: snapshot of the grid.
        tuning: version of the tuning.
        decisions: objects of ``broker run --json``.
        notes: notes for operators.
    """

    brokerage: str
    seed: int
    now: datetime
    snapshot: str | None
    tuning: int | None
    decisions: list[dict[str, Any]]
    notes: list[str]


class Description(_Body):
    """Jobs or a task, as text.

    Attributes:
        kind: ``jdl``, ``cfg``, ``sss`` (SSS Job Object, XML) or ``task`` (PanDA's task parameters, JSON).
        text: the description.
        vo: virtual organisation; null for that of the installation.
        label: production source label.
        nucleus: destination of the output; null if the task brokerage chooses it.
        shares: names of shares for SSS documents, as NAME=SHARE.
        queue_names: names of queues for SSS documents, as NAME=QUEUE.
        ignore_nodes: accept requests for nodes or licences, which nothing checks.
        user: the submitter; only for tokens that do not name one.
    """

    kind: Kind
    text: str = Field(min_length=1, max_length=LONGEST_TEXT)
    vo: Annotated[str | None, Field(min_length=1, max_length=16, pattern=r"^[A-Za-z0-9._-]+$")] = None
    label: Annotated[str, Field(min_length=1, max_length=20, pattern=r"^[A-Za-z0-9._-]+$")] = "managed"
    nucleus: Name | None = None
    shares: list[Name] = Field(default_factory=list, max_length=100)
    queue_names: list[Name] = Field(default_factory=list, max_length=1000)
    ignore_nodes: bool = False
    user: Name | None = None


class FeasibilityQuestion(Description):
    """A description and how to evaluate it.

    Attributes:
        seed: seed of the draws; null: drawn.
        at: instant to decide for; null for now.
        evaluate: also find nearest misses and what would help.
    """

    seed: Seed | None = None
    at: datetime | None = None
    evaluate: bool = True


class SubmittedTasks(BaseModel):
    """The tasks created from one description."""

    tasks: list[SubmittedTask]


@router.post("/brokerage/{name}:decide", response_model=DecideAnswer)
@allow(DECIDE)
async def decide_now(
    request: Request,
    api: State,
    name: Annotated[str, Path(max_length=100, pattern=r"^[a-z0-9_]+$")],
    body: DecideQuestion,
) -> Response:
    """Decide what one brokerage would do now; nothing is written."""

    def work(proceed: Proceed) -> Response:
        return answer(request, _decided(api, name, body, proceed), items="decisions")

    return await decided(request, api, work)


def _decided(api: ApiState, name: str, body: DecideQuestion, proceed: Proceed) -> DecideAnswer:
    seed = secrets.randbits(SEED_BITS) if body.seed is None else body.seed
    now = moment(api, body.at)
    tasks = None if body.jeditaskids is None else tuple(dict.fromkeys(body.jeditaskids))
    decisions: list[dict[str, Any]] = []

    def keep(decision: dict[str, Any]) -> None:
        proceed()
        decisions.append(decision)

    report = decide(api.database, DecisionRequest(name, tasks, now, seed, body.independent, api.folder), keep)
    return DecideAnswer(
        brokerage=name,
        seed=seed,
        now=now,
        snapshot=report.snapshot,
        tuning=report.tuning,
        decisions=decisions,
        notes=list(report.notes),
    )


@router.post("/feasibility", response_model=FeasibilityAnswer)
@allow(DECIDE)
async def ask_feasibility(request: Request, api: State, who: Who, body: FeasibilityQuestion) -> Response:
    """Show where jobs would go, and why not elsewhere, before submission: feasibility, not a promise."""
    seed = secrets.randbits(SEED_BITS) if body.seed is None else body.seed
    options = _options(body, who, api.database.names.vo)

    def work(proceed: Proceed) -> Response:
        submissions = planned(body.kind, body.text, options, known_grid(api.database))
        question = Question(moment(api, body.at), seed, api.folder, body.evaluate)
        return answer(request, feasible.feasibility(api.database, submissions, question, proceed))

    return await decided(request, api, work)


@router.post("/submissions", response_model=SubmittedTasks, status_code=201)
@allow(SUBMIT)
def submit(request: Request, api: State, who: Who, body: Description) -> Response:
    """Create tasks from a description; they are brokered like any other task."""
    submissions = planned(body.kind, body.text, _options(body, who, api.database.names.vo), known_grid(api.database))
    submitted = submit_all(api.database, submissions, api.now())
    tasks = [submitted_task(task) for task in submitted]
    return answer(request, SubmittedTasks(tasks=tasks), status=201)


def _options(body: Description, who: Identity | None, vo: str) -> SubmitOptions:
    """The options of a submission; ``vo`` is used if none is named.

    A client whose token names a user submits as that user.

    Raises:
        Problem: another user is named.
    """
    own = None if who is None else who.username
    if own is not None and body.user not in (None, own) and not (who is not None and who.has(Role.OPERATOR)):
        raise Problem(403, "forbidden", "a submitter acts for the own user only")
    return SubmitOptions(
        body.user or own,
        body.vo or vo,
        body.label,
        body.nucleus,
        body.shares or None,
        body.queue_names or None,
        body.ignore_nodes,
    )
