"""Shared by all feeds from Rucio: options, a rate-limited connection, and concurrent requests."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

from pydantic import Field

from agents.feeds.importing import FeedAlarm
from agents.feeds.obtaining import USE_OF_BUDGET
from agents.feeds.rucio_client import RucioClient
from agents.service.base import Agent, AgentOptions, CycleContext
from agents.service.configuration import ProcessSettings
from broker.feeds.model.rucio.questions import Rucio, RucioUnavailable
from broker.fetching.documents import DocumentRefused

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")
Connect = Callable[["RucioOptions"], Rucio]

FAILURES_IN_A_ROW = 10
"""After this many failures in a row a cycle stops asking: the server is unreachable."""


class RucioOptions(AgentOptions):
    """How Rucio is queried.

    Attributes:
        rucio_config: ``rucio.cfg`` with the server and the credentials; else where Rucio's client looks for it.
        time_limit_s: of the wait for an answer.
        requests_in_flight: requests that wait for an answer at the same time.
        requests_per_s: requests sent per second.
    """

    rucio_config: Path | None = None
    time_limit_s: float = Field(default=30.0, gt=0, le=600)
    requests_in_flight: int = Field(default=8, ge=1, le=100)
    requests_per_s: float = Field(default=20.0, gt=0, le=10_000)


def connect(options: RucioOptions) -> Rucio:
    """Connect to the Rucio server named in ``rucio.cfg``.

    Raises:
        BrokerError: the package ``rucio-clients`` is not installed.
    """
    if options.rucio_config is not None:
        os.environ["RUCIO_CONFIG"] = str(options.rucio_config)
    return RucioClient(options.time_limit_s)


RucioOptionsT = TypeVar("RucioOptionsT", bound=RucioOptions)


class RucioAgent(Agent[RucioOptionsT]):
    """Base of the agents that query Rucio.

    Args:
        connect: makes the connection to Rucio.
    """

    is_feed: ClassVar[bool] = True

    def __init__(self, options: RucioOptionsT, process: ProcessSettings, connect: Connect = connect) -> None:
        super().__init__(options, process)
        self._connect = connect


class Pace:
    """Limits the requests per second of all callers together."""

    def __init__(self, context: CycleContext, per_s: float) -> None:
        """Start without any requests."""
        self._context, self._step_s = context, 1.0 / per_s
        self._next = context.monotonic()
        self._lock = threading.Lock()
        self.request_count = 0

    def wait(self) -> None:
        """Wait for the next slot; a service that is ending does not wait."""
        with self._lock:
            now = self._context.monotonic()
            start = max(now, self._next)
            self._next = start + self._step_s
            self.request_count += 1
        if start > now:
            self._context.ending.wait(start - now)


class _Paced:
    """Forwards each call when its slot comes."""

    def __init__(self, rucio: Rucio, pace: Pace) -> None:
        self._rucio, self._pace = rucio, pace

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._rucio, name)

        def paced_method(*arguments: Any, **options: Any) -> Any:
            self._pace.wait()
            return method(*arguments, **options)

        return paced_method


def paced(rucio: Rucio, pace: Pace) -> Rucio:
    """Wrap a Rucio so that it is queried no faster than ``pace`` allows."""
    return cast("Rucio", _Paced(rucio, pace))


def ask_side_by_side(
    context: CycleContext,
    questions: Iterable[QuestionT],
    ask: Callable[[QuestionT], AnswerT],
    in_flight: int,
) -> Iterator[tuple[QuestionT, AnswerT | RucioUnavailable]]:
    """Ask questions concurrently; yield each with its answer or error, as they arrive.

    No more questions are asked when the cycle's time is nearly used up, the service is ending, or the server is
    unreachable. Answers still missing at the end of the time are not awaited.
    """
    remaining = iter(questions)
    pool = ThreadPoolExecutor(in_flight, thread_name_prefix="rucio")
    waiting: dict[Future[AnswerT], QuestionT] = {}
    failures = 0
    try:
        while True:
            may_ask = failures < FAILURES_IN_A_ROW and not _used_up(context)
            while may_ask and len(waiting) < in_flight:
                question = next(remaining, None)
                if question is None:
                    break
                waiting[pool.submit(ask, question)] = question
            if not waiting:
                return
            done, _ = wait(waiting, timeout=max(0.0, _left_s(context)), return_when=FIRST_COMPLETED)
            if not done:
                return
            for future in done:
                question, answer = waiting.pop(future), _result(future)
                failures = failures + 1 if isinstance(answer, RucioUnavailable) else 0
                yield question, answer
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class GatheredReplies(Generic[QuestionT, AnswerT]):
    """Answers by question, and why some questions have none."""

    answers: Mapping[QuestionT, AnswerT]
    refused: DocumentRefused | None


def gather(
    context: CycleContext,
    feed: str,
    questions: Sequence[QuestionT],
    ask: Callable[[QuestionT], AnswerT],
    in_flight: int,
) -> GatheredReplies[QuestionT, AnswerT]:
    """Ask questions that recur each cycle, in an order that differs from cycle to cycle.

    No question is therefore always among those for which no time is left.

    Raises:
        CycleEndedError: the service is stopping.
        FeedAlarm: no request was answered.
    """
    order = random.Random(context.seed).sample(questions, len(questions))  # noqa: S311 - no secret
    answers: dict[QuestionT, AnswerT] = {}
    failure: RucioUnavailable | None = None
    for question, answer in ask_side_by_side(context, order, ask, in_flight):
        if isinstance(answer, RucioUnavailable):
            failure = answer
        else:
            answers[question] = answer
    context.check()
    missing = len(questions) - len(answers)
    if failure is not None and not answers:
        raise FeedAlarm(f"ALARM: feed {feed}: unreachable: {failure.what}", failure.where, failure.remedy)
    if not missing:
        return GatheredReplies(answers, None)
    why = "the time of the cycle is used up" if failure is None else failure.what
    code = "time_out" if failure is None else "unreachable"
    return GatheredReplies(
        answers, DocumentRefused(code, f"no answer to {missing} of {len(questions)} questions: {why}", "Rucio")
    )


def _result(future: Future[AnswerT]) -> AnswerT | RucioUnavailable:
    try:
        return future.result()
    except RucioUnavailable as error:
        return error


def _used_up(context: CycleContext) -> bool:
    return context.ending.is_set() or context.monotonic() - context.started > USE_OF_BUDGET * context.budget_s


def _left_s(context: CycleContext) -> float:
    """Seconds until answers are no longer awaited."""
    return (1.0 + USE_OF_BUDGET) / 2 * context.budget_s - (context.monotonic() - context.started)
