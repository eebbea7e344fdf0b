"""The service: what runs, what is paused, and what somebody should look at."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from agents.service import registry
from broker.access.policies import OPERATE, READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import State, Who, asking, editor
from broker.service.answers import acknowledging
from broker.service.answers.alarms import alarms
from broker.service.answers.models import AlarmCode, Alarms, ServiceAnswer
from broker.service.answers.service import service_answer
from broker.service.statements.agent_cycles import database_clock
from broker.store.query_context import Answer, NothingFound
from broker.store.schema import migrate
from broker.store.service import acknowledged_alarms, agent_pauses
from broker.store.service.acknowledged_alarms import Acknowledgement

router = guarded_router(tag="service")

LONGEST_REASON = 500
LONGEST_S = 365 * 86400.0
AlarmAbout = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]
Code = Annotated[AlarmCode, Path(description="The kind of alarm.")]
Agent = Annotated[str, Path(max_length=100, description="An agent, or `all`.")]


class NewAcknowledgement(BaseModel):
    """What is done about an alarm, and for how many seconds that counts; ``about`` null: all of its kind."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(min_length=1, max_length=LONGEST_REASON, pattern=r"^[^\x00]*\S[^\x00]*$")
    for_s: float = Field(
        default=acknowledging.A_SHIFT.total_seconds(),
        ge=acknowledging.SHORTEST.total_seconds(),
        le=acknowledging.LONGEST.total_seconds(),
    )
    about: AlarmAbout | None = None


class TakenBack(BaseModel):
    """Which alarm is not looked at any more; ``about`` null: all of its kind."""

    model_config = ConfigDict(extra="forbid")
    about: AlarmAbout | None = None


class AcknowledgedAlarms(Answer):
    """The alarms of one kind of which somebody said that they are looked at, or took that back."""

    code: str
    about: list[str]


class Acknowledgements(Answer):
    """Who looked at which alarm, when and why, the newest first."""

    acknowledgements: tuple[Acknowledgement, ...]


class NewPause(BaseModel):
    """Why an agent is to start no cycle, and for how many seconds."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(min_length=1, max_length=LONGEST_REASON, pattern=r"^[^\x00]*\S[^\x00]*$")
    for_s: float = Field(gt=0, le=LONGEST_S)


class Paused(BaseModel):
    """An agent that is paused."""

    agent: str
    until: datetime
    editor: str
    reason: str


class Resumed(BaseModel):
    """Whether an agent was paused by itself, and what still pauses it."""

    agent: str
    resumed: bool
    still_paused_by: list[str]


@router.get("/service", response_model=ServiceAnswer)
@allow(READ)
def get_service(request: Request, api: State) -> Response:
    """What runs: agents, processes, sources."""
    installation = migrate.mode_of(api.database)
    with asking(api, api.now()) as asked:
        found = service_answer(asked, installation)
    return answer(request, found)


@router.get("/agents", response_model=ServiceAnswer)
@allow(READ)
def list_agents(request: Request, api: State) -> Response:
    """As the service; its agents one a line with NDJSON."""
    installation = migrate.mode_of(api.database)
    with asking(api, api.now()) as asked:
        found = service_answer(asked, installation)
    return answer(request, found, items="agents")


@router.post("/agents/{agent}:pause", response_model=Paused)
@allow(OPERATE)
def pause_agent(request: Request, api: State, who: Who, agent: Agent, body: NewPause) -> Response:
    """Let an agent, or all, start no cycle for a while. A cycle under way ends; leases are kept."""
    _check(agent)
    with api.database.begin() as connection:
        until = database_clock(connection) + timedelta(seconds=body.for_s)
        agent_pauses.pause(connection, agent, until=until, reason=body.reason.strip(), editor=editor(who))
    return answer(request, Paused(agent=agent, until=until, editor=editor(who), reason=body.reason.strip()))


@router.post("/agents/{agent}:resume", response_model=Resumed)
@allow(OPERATE)
def resume_agent(request: Request, api: State, who: Who, agent: Agent) -> Response:
    """End a pause: the agent, or all, start cycles again."""
    _check(agent)
    with api.database.begin() as connection:
        was_paused = agent_pauses.resume(connection, agent, editor=editor(who))
        others = agent_pauses.held_pauses(connection, agent)
    fields = Resumed(agent=agent, resumed=was_paused, still_paused_by=[one.agent for one in others])
    return answer(request, fields)


@router.get("/alarms", response_model=Alarms)
@allow(READ)
def list_alarms(request: Request, api: State) -> Response:
    """What is stale, overdue, refused, paused, starving, flapping or failing, the gravest first."""
    with asking(api) as asked:
        found = alarms(asked)
    return answer(request, found, items="alarms")


@router.get("/alarms/acknowledgements", response_model=Acknowledgements)
@allow(READ)
def list_acknowledgements(request: Request, api: State) -> Response:
    """Who looked at which alarm, when and why: the newest 100."""
    with asking(api) as asked:
        found = Acknowledgements(acknowledgements=tuple(acknowledged_alarms.history(asked.connection)))
    return answer(request, found, items="acknowledgements")


@router.post("/alarms/{code}:acknowledge", response_model=AcknowledgedAlarms)
@allow(OPERATE)
def acknowledge_alarm(request: Request, api: State, who: Who, code: Code, body: NewAcknowledgement) -> Response:
    """Say that you look at an alarm, or at all of its kind; it is listed below the others until that ends."""
    with asking(api) as asked:
        there = alarms(asked).alarms
    span = timedelta(seconds=body.for_s)
    with api.database.begin() as connection:
        about = acknowledging.acknowledge(
            connection, there, code, body.about, span, reason=body.reason, editor=editor(who)
        )
    return answer(request, AcknowledgedAlarms(code=code, about=about))


@router.post("/alarms/{code}:takeback", response_model=AcknowledgedAlarms)
@allow(OPERATE)
def take_back_acknowledgement(request: Request, api: State, who: Who, code: Code, body: TakenBack) -> Response:
    """Take back that somebody looks at an alarm, or at all of its kind."""
    with api.database.begin() as connection:
        about = acknowledging.take_back(connection, code, body.about, editor=editor(who))
    return answer(request, AcknowledgedAlarms(code=code, about=about))


def _check(agent: str) -> None:
    if agent != agent_pauses.ALL and agent not in registry.NAMES:
        raise NothingFound("agent", agent, "agents", (*registry.NAMES, agent_pauses.ALL))
