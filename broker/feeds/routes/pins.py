"""The HTTP API for operators: pinned fields of queues."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from broker.access.policies import OPERATE, READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import After, Limit, Page, answer, slice_of
from broker.api.problems import Problem
from broker.api.state import State, Who, editor, moment
from broker.domain.queue_fields import BadFieldValue, field_value
from broker.feeds.statements.queue_pins import EndedPin, PinLine, end_pin, held_pins, pins_of_queue, set_pin
from broker.store.reads.grid_names import queue_is_known

router = guarded_router(tag="operations")

LONGEST_REASON = 500
LONGEST_S = 3650 * 86400.0
Reason = Annotated[str, Field(min_length=1, max_length=LONGEST_REASON, pattern=r"^[^\x00]*\S[^\x00]*$")]
QueueName = Annotated[str, Path(max_length=200, description="Name of the PanDA queue.")]


class NewPin(BaseModel):
    """A value to hold a field at, the reason, and the duration in seconds."""

    model_config = ConfigDict(extra="forbid")
    value: bool | int | float | str
    reason: Reason
    for_s: float = Field(gt=0, le=LONGEST_S)


@router.get("/pins", response_model=Page[PinLine])
@allow(READ)
def list_pins(
    request: Request,
    api: State,
    queue: Annotated[str | None, Query(max_length=200, description="Only this queue, including ended pins.")] = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List the queue fields that operators hold now."""
    now = moment(api)
    with api.database.begin() as connection:
        pins = held_pins(connection, now) if queue is None else pins_of_queue(connection, queue)
    return answer(request, slice_of([pin.line(now) for pin in pins], after, limit))


@router.put("/queues/{queue}/pins/{field}", response_model=PinLine)
@allow(OPERATE)
def put_pin(
    request: Request,
    api: State,
    who: Who,
    queue: QueueName,
    field: Annotated[str, Path(max_length=100)],
    body: NewPin,
) -> Response:
    """Pin a field of a queue for some time; ``status`` at ``brokeroff`` closes the queue."""
    try:
        text = str(body.value).lower() if isinstance(body.value, bool) else str(body.value)
        value = field_value(field, text)
    except BadFieldValue as error:
        raise Problem(422, "bad_field_value", str(error), error.accepts) from None
    now = moment(api)
    with api.database.begin() as connection:
        if not queue_is_known(connection, api.database.names, queue):
            raise Problem(404, "no_such_queue", f"there is no queue {queue[:100]}")
        until = now + timedelta(seconds=body.for_s)
        set_pin(connection, queue, field, value, reason=body.reason, editor=editor(who), now=now, until=until)
        pins = [pin for pin in held_pins(connection, now, queue) if pin.field == field]
    return answer(request, pins[0].line(now))


@router.delete("/queues/{queue}/pins/{field}", response_model=EndedPin)
@allow(OPERATE)
def delete_pin(
    request: Request, api: State, who: Who, queue: QueueName, field: Annotated[str, Path(max_length=100)]
) -> Response:
    """Unpin a field of a queue; CRIC's value takes effect again."""
    now = moment(api)
    with api.database.begin() as connection:
        ended = end_pin(connection, queue, field, editor=editor(who), now=now)
    return answer(request, EndedPin(queue=queue, field=field, ended=ended))
