"""Rules for tests of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, GroupFilter, JobPairs, Load, LoadCut, LoadWeight, Weight

Answer = Callable[..., Any]


class Toy(Filter[JobPairs]):
    """A filter with prepared answers: arrays, functions of the tables, or errors."""

    def __init__(
        self, name: str, keep: Any, *, kind: str = "persistent", applies: Any = None, unknown: Any = None, **more: Any
    ) -> None:
        # these are class variables for real rules
        self.__dict__.update(name=name, code=f"code_{name}", title=f"Title of {name}", kind=kind, **more)
        self._keep, self._applies, self._unknown = keep, applies, unknown

    def applies(self, pairs: JobPairs) -> Any:
        return _answer(self._applies, pairs.chunks, None, pairs.facts)

    def keep(self, pairs: JobPairs) -> Any:
        return _answer(self._keep, pairs.chunks, pairs.candidates, pairs.facts)

    def unknown(self, pairs: JobPairs) -> Any:
        return _answer(self._unknown, pairs.chunks, pairs.candidates, pairs.facts)

    def observe(self, pairs: JobPairs) -> Observation:
        return Observation(str(pairs.candidates.name[0, 0]), "==", float(pairs.chunks.jeditaskid[0, 0]), "-", "rule")


def _answer(value: Any, tasks: WorkTable, candidates: QueueTable | None, facts: JobFacts) -> Any:
    if isinstance(value, BaseException):
        raise value
    return value(tasks, candidates, facts) if callable(value) else value


class KeepAmong(GroupFilter[JobPairs]):
    """A group filter that records each mask of living candidates and answers with a function of it."""

    def __init__(self, name: str, keep: Callable[[Bools], Any], **more: Any) -> None:
        self.__dict__.update(name=name, code=f"code_{name}", title=f"Title of {name}", **more)
        self._keep = keep
        self.seen: list[Any] = []

    def keep_among(self, alive: Bools, pairs: JobPairs) -> Bools:
        self.seen.append(alive.tolist())
        return np.asarray(self._keep(alive))

    def observe(self, pairs: JobPairs) -> Observation:
        return Observation(None, "==", None, "-", "rule")


class Factor(Weight[JobPairs]):
    """A fixed factor."""

    def __init__(self, name: str, values: Any, **more: Any) -> None:
        self.__dict__.update(name=name, code=name, title=name, **more)
        self._values = values

    def factor(self, pairs: JobPairs) -> Floats:
        return np.asarray(_answer(self._values, pairs.chunks, pairs.candidates, pairs.facts), dtype=np.float64)


class FewerQueued(LoadWeight):
    """1 / (1 + jobs defined)."""

    name, code, title = "fewer_queued", "fewer_queued", "Fewer jobs defined weigh more"

    def factor(self, load: Load) -> Floats:
        return 1.0 / (1.0 + load.defined)


class AtMost(LoadCut):
    """Cuts candidates with more jobs defined than a limit."""

    title = "Not too many jobs defined"

    def __init__(self, limit: float, *, name: str = "at_most", exempts_bootstrap: bool = False) -> None:
        self.__dict__.update(name=name, code=name, exempts_bootstrap=exempts_bootstrap)
        self._limit = limit

    def keep(self, load: Load, weight: Floats) -> Bools:
        return np.asarray(load.defined <= self._limit)

    def observe(self, load: Load, weight: Floats) -> Observation:
        return Observation(float(load.defined[0]), "<=", self._limit, "jobs", "rule")


def mask(*rows: Sequence[int]) -> Bools:
    """A mask of 0 and 1."""
    return np.array(rows, dtype=np.bool_)
