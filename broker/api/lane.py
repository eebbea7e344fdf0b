"""Separate threads for one kind of work, so that it takes no place from other work, nor loses its own."""

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
    """A few places for slow work. A caller that waits for a place holds neither a thread nor a connection.

    Args:
        name: name of the threads.
        at_once: number of places.
        wait_s: longest wait for a place, in seconds.
    """

    def __init__(self, name: str, at_once: int, wait_s: float) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=name)
        self._wait_s = wait_s

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """Run ``work`` in a place of the lane and return its result.

        Raises:
            LaneBusy: no place became free in time.
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
        """Accept no more work; work under way ends by itself."""
        with contextlib.suppress(RuntimeError):
            self._threads.shutdown(wait=False, cancel_futures=True)


def _mark(begun: asyncio.Future[None]) -> None:
    if not begun.done():
        begun.set_result(None)
