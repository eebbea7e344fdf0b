"""What the application does by itself now and then: it forgets requests, tokens, matches and runs that are old."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool

from broker.api.state import ApiState
from broker.errors import BrokerError
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.http_requests import remove_old

_log = logging.getLogger(__name__)
EVERY_S = 3600.0
FIRST_AFTER_S = 60.0
_FAILED: tuple[type[Exception], ...] = (BrokerError, *TRANSIENT_ERRORS)


@contextlib.asynccontextmanager
async def upkeep(api: ApiState) -> AsyncIterator[None]:
    """Forget what is old, once an hour, while the block runs."""
    task = asyncio.get_running_loop().create_task(_forget(api))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _forget(api: ApiState) -> None:
    await asyncio.sleep(FIRST_AFTER_S)
    while True:
        try:
            counts = await run_in_threadpool(remove_old, api.database)
            _log.info("forgotten", extra={"fields": counts})
        except _FAILED as error:
            _log.warning("nothing forgotten: database", extra={"fields": {"error": str(error)}})
        await asyncio.sleep(EVERY_S)
