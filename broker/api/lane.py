"""Threads of their own for one kind of work, so that it takes no other's place, and none takes its place."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

ResultT = TypeVar("ResultT")


class LaneBusy(Exception):
    """All places are taken for longer than a request waits."""


class Lane:
    """A few places for work that takes its time. Who waits for one holds neither a thread nor a connection.

    Args:
        name: of the threads.
        at_once: places.
        wait_s: for a place.
    """

    def __init__(self, name: str, at_once: int, wait_s: float) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=name)
        self._wait_s = wait_s

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """What ``work`` returns, done in a place of the lane.

        Raises:
            LaneBusy: there was none in time.
        """
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()

        def in_place() -> ResultT:
            loop.call_soon_threadsafe(_mark, begun)
            return work()

        done = self._threads.submit(in_place)
        try:
            async with asyncio.timeout(self._wait_s):
                await begun
        except TimeoutError:
            if done.cancel():
                raise LaneBusy from None
        except asyncio.CancelledError:
            done.cancel()
            raise
        return await asyncio.wrap_future(done)

    def close(self) -> None:
        """Take no more work; what is under way ends by itself."""
        with contextlib.suppress(RuntimeError):
            self._threads.shutdown(wait=False, cancel_futures=True)


def _mark(begun: asyncio.Future[None]) -> None:
    if not begun.done():
        begun.set_result(None)
