"""Deciding on request takes a core for seconds: only a few requests of a process decide at once, each with a deadline.

A request that waits for a place holds neither a thread nor a connection, and one that decides holds no connection, see
:data:`broker.store.query_context.Evaluation`. Deciding stops once the client has disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from broker.access.policies import DECIDE
from broker.api.guarded_route import demand
from broker.api.lane import Lane, LaneBusy
from broker.api.problems import Problem
from broker.api.state import ApiState
from broker.store.query_context import Proceed, proceed

NAME = "deciding"
CLIENT_GONE = 499
"""Status, as in nginx, of a request whose client did not wait; for the log and the metrics only, as nobody reads it."""

Work = Callable[[Proceed], Response]
_making = threading.Lock()


async def decided(request: Request, api: ApiState, work: Work) -> Response:
    """Return the answer of ``work``, done in one of the places for requests that decide.

    Args:
        request: the request to answer.
        api: the application.
        work: reads and decides; calls its argument between its steps.

    Raises:
        Problem: 503; all places stayed taken for longer than a request waits, or deciding took too long.
    """
    gone = threading.Event()
    watch = asyncio.get_running_loop().create_task(_watch(request, gone))
    try:
        return await _lane_of(api).run(lambda: work(_until(api, gone)))
    except LaneBusy:
        problem = Problem(503, "busy_deciding", "other requests are being decided", headers={"Retry-After": "5"})
        raise problem from None
    finally:
        watch.cancel()


async def decided_if(evaluate: bool, request: Request, api: ApiState, work: Work) -> Response:
    """As :func:`decided` if ``work`` evaluates, which needs a token; otherwise answer from an ordinary thread.

    Raises:
        Problem: 401, 403 or 503.
    """
    if not evaluate:
        return await run_in_threadpool(work, proceed)
    demand(request, DECIDE)
    return await decided(request, api, work)


def _until(api: ApiState, gone: threading.Event) -> Proceed:
    within_s = api.configuration.deciding.within_s
    end_s = api.steady_s() + within_s

    def goes_on() -> None:
        if gone.is_set():
            raise Problem(CLIENT_GONE, "client_disconnected", "the client went away")
        if api.ending.is_set():
            raise Problem(503, "stopping", "this process is being stopped", headers={"Retry-After": "5"})
        if api.steady_s() >= end_s:
            detail = f"deciding took longer than {within_s:g} s"
            raise Problem(503, "deciding_took_too_long", detail, "ask without evaluating, or with the command line")

    return goes_on


async def _watch(request: Request, gone: threading.Event) -> None:
    """Signal when the client has disconnected; whatever else it sends is ignored."""
    with contextlib.suppress(RuntimeError):  # it has disconnected already
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()


def _lane_of(api: ApiState) -> Lane:
    with _making:
        lane = api.parts.get(NAME)
        if not isinstance(lane, Lane):
            lane = api.parts[NAME] = Lane(NAME, api.configuration.deciding.at_once, api.configuration.database.wait_s)
            api.at_end.append(lane.close)
        return lane
