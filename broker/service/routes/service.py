"""The HTTP API about the service: what runs, what is paused, and what needs attention."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from agents.service import registry
from broker.access.policies import OPERATE, READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import State, Who, editor, query_context
from broker.service.answers import acknowledging, pausing
from broker.service.answers.acknowledging import AcknowledgedAlarms
from broker.service.answers.alarms import alarms
from broker.service.answers.models import AlarmCode, Alarms, ServiceAnswer
from broker.service.answers.pausing import Paused, Resumed
from broker.service.answers.service import service_answer
from broker.service.statements.agent_cycles import database_clock
from broker.store.query_context import NothingFound, ResponseModel
from broker.store.schema import migrate
from broker.store.service import acknowledged_alarms, agent_pauses
from broker.store.service.acknowledged_alarms import Acknowledgement

router = guarded_router(tag="service")

LONGEST_REASON = 500
LONGEST_S = 365 * 86400.0
AlarmAbout = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]
Code = Annotated[AlarmCode, Path(description="Kind of alarm.")]
Agent = Annotated[str, Path(max_length=100, description="Name of an agent, or `all`.")]


class NewAcknowledgement(BaseModel):
    """Reason of an acknowledgement and its duration in seconds; ``about`` null: all alarms of the kind."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(min_length=1, max_length=LONGEST_REASON, pattern=r"^[^\x00]*\S[^\x00]*$")
    for_s: float = Field(
        default=acknowledging.A_SHIFT.total_seconds(),
        ge=acknowledging.SHORTEST.total_seconds(),
        le=acknowledging.LONGEST.total_seconds(),
    )
    about: AlarmAbout | None = None


class TakenBack(BaseModel):
    """The acknowledgement to withdraw; ``about`` null: all alarms of the kind."""

    model_config = ConfigDict(extra="forbid")
    about: AlarmAbout | None = None


class Acknowledgements(ResponseModel):
    """Acknowledgements of alarms: by whom, when and why, newest first."""

    acknowledgements: tuple[Acknowledgement, ...]


class NewPause(BaseModel):
    """Reason for pausing an agent, and duration in seconds."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(min_length=1, max_length=LONGEST_REASON, pattern=r"^[^\x00]*\S[^\x00]*$")
    for_s: float = Field(gt=0, le=LONGEST_S)


@router.get("/service", response_model=ServiceAnswer)
@allow(READ)
def get_service(request: Request, api: State) -> Response:
    """Get the status of agents, processes and sources."""
    installation = migrate.mode_of(api.database)
    with query_context(api, api.now()) as query:
        content = service_answer(query, installation)
    return answer(request, content)


@router.get("/agents", response_model=ServiceAnswer)
@allow(READ)
def list_agents(request: Request, api: State) -> Response:
    """List agents, one a line with NDJSON; otherwise the same answer as the service."""
    installation = migrate.mode_of(api.database)
    with query_context(api, api.now()) as query:
        content = service_answer(query, installation)
    return answer(request, content, items="agents")


@router.post("/agents/{agent}:pause", response_model=Paused)
@allow(OPERATE)
def pause_agent(request: Request, api: State, who: Who, agent: Agent, body: NewPause) -> Response:
    """Pause one agent or all: no new cycle starts. A cycle under way ends; leases are kept."""
    _check(agent)
    with api.database.begin() as connection:
        until = database_clock(connection) + timedelta(seconds=body.for_s)
        paused = pausing.pause(connection, agent, until=until, reason=body.reason, editor=editor(who))
    return answer(request, paused)


@router.post("/agents/{agent}:resume", response_model=Resumed)
@allow(OPERATE)
def resume_agent(request: Request, api: State, who: Who, agent: Agent) -> Response:
    """End a pause: the agent, or all, start cycles again."""
    _check(agent)
    with api.database.begin() as connection:
        resumed = pausing.resume(connection, agent, editor=editor(who))
    return answer(request, resumed)


@router.get("/alarms", response_model=Alarms)
@allow(READ)
def list_alarms(request: Request, api: State) -> Response:
    """List what is stale, overdue, refused, paused, starving, flapping or failing, most severe first."""
    with query_context(api) as query:
        content = alarms(query)
    return answer(request, content, items="alarms")


@router.get("/alarms/acknowledgements", response_model=Acknowledgements)
@allow(READ)
def list_acknowledgements(request: Request, api: State) -> Response:
    """List the newest 100 acknowledgements: by whom, when and why."""
    with query_context(api) as query:
        content = Acknowledgements(acknowledgements=tuple(acknowledged_alarms.history(query.connection)))
    return answer(request, content, items="acknowledgements")


@router.post("/alarms/{code}:acknowledge", response_model=AcknowledgedAlarms)
@allow(OPERATE)
def acknowledge_alarm(request: Request, api: State, who: Who, code: Code, body: NewAcknowledgement) -> Response:
    """Acknowledge an alarm, or all of its kind; acknowledged alarms are listed below the others."""
    with query_context(api) as query:
        current_alarms = alarms(query).alarms
    span = timedelta(seconds=body.for_s)
    with api.database.begin() as connection:
        acknowledged = acknowledging.acknowledge(
            connection, current_alarms, code, body.about, span, reason=body.reason, editor=editor(who)
        )
    return answer(request, acknowledged)


@router.post("/alarms/{code}:takeback", response_model=AcknowledgedAlarms)
@allow(OPERATE)
def take_back_acknowledgement(request: Request, api: State, who: Who, code: Code, body: TakenBack) -> Response:
    """Withdraw the acknowledgement of an alarm, or of all of its kind."""
    with api.database.begin() as connection:
        withdrawn = acknowledging.take_back(connection, code, body.about, editor=editor(who))
    return answer(request, withdrawn)


def _check(agent: str) -> None:
    if agent != agent_pauses.ALL and agent not in registry.NAMES:
        raise NothingFound("agent", agent, "agents", (*registry.NAMES, agent_pauses.ALL))
