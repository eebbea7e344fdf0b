"""Deciding on request takes a core for seconds: a few requests of a process at once, each up to a deadline.

Who waits for a place holds neither a thread nor a connection; who decides holds no connection either, see
:data:`broker.store.query_context.Evaluation`. A client that has gone is decided for no longer.
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
"""Status, as nginx has it, of a request whose client did not wait: for the log and the metrics, nobody reads it."""

Work = Callable[[Proceed], Response]
_making = threading.Lock()


async def decided(request: Request, api: ApiState, work: Work) -> Response:
    """What ``work`` answers, done in one of the places for requests that decide.

    Args:
        request: that is answered.
        api: the application.
        work: reads and decides; it calls what it is given between its steps.

    Raises:
        Problem: 503, all places are taken for longer than a request waits, or deciding took too long.
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
    """The same where ``work`` evaluates, which needs a token; else its answer from an ordinary thread.

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
    """Say when the client has gone; whatever else it sends is no matter."""
    with contextlib.suppress(RuntimeError):  # it has gone already
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()


def _lane_of(api: ApiState) -> Lane:
    with _making:
        found = api.kept.get(NAME)
        if not isinstance(found, Lane):
            found = api.kept[NAME] = Lane(NAME, api.configuration.deciding.at_once, api.configuration.database.wait_s)
            api.at_end.append(found.close)
        return found
