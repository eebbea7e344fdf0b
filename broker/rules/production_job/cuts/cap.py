"""Queues with too many waiting jobs get no more."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from broker.domain.waiting_limit import waiting_limit
from broker.rules.contract import (
    LOAD_FAMILIES,
    Bools,
    CompiledStep,
    Floats,
    Load,
    LoadCut,
    Observation,
    Options,
    Reason,
    Value,
    flag,
    number,
)

TIMES_RUNNING = 2.0
FAMILY = LOAD_FAMILIES["queue_limit"]


class CapOptions(Options):
    """Which jobs the cap counts, and at which queues it applies.

    Attributes:
        defined_wait: defined jobs wait too, in addition to activated, starting and assigned ones.
        at_ucore: it holds at queues of capability ``ucore`` as well.
    """

    defined_wait: bool = True
    at_ucore: bool = True


class Cap(LoadCut):
    """Rejects queues with more waiting jobs of the share than twice the running ones and than NQUEUELIMITSITE.

    Waiting: defined, activated, starting, and assigned unless all input is local. The sum of activated and starting
    jobs, which has the same limit, is never larger. Express chunks are exempt. Source: ATLAS Production Job
    Brokerage, further filters.
    """

    name = "cap"
    reason = Reason(
        code="cap",
        title="Not too many jobs of the share wait at the queue",
        violation="Enough jobs of the share wait at the queue already",
        no_candidate="has room for more waiting jobs",
        who="wait",
        cure="Wait: the queue takes more as its jobs start. Operators may raise `NQUEUELIMITSITE`.",
    )
    keys = (FAMILY,)
    sources = ("jobs",)
    options: CapOptions = CapOptions()
    #: The number of jobs that may wait for each running one.
    times_running: float = TIMES_RUNNING

    @property
    def reads_details(self) -> bool:
        """Whether the rule must know which queues are ``ucore``, which is a detail."""
        return not self.options.at_ucore

    @property
    def compiled_step(self) -> CompiledStep | None:
        """The step with or without defined jobs; None with an option that depends on the queue."""
        if self.reads_details:
            return None
        name = "cap" if self.options.defined_wait else "cap_without_defined"
        return CompiledStep(name, {"times_running": self.times_running}, {"queue_limit": FAMILY})

    def keep(self, load: Load, weight: Floats) -> Bools:
        """Shape of ``load.running``: true where not too many jobs of the share wait."""
        keeps = (self._waiting(load) <= self._limit(load)) | load.urgent
        if self.reads_details and load.details is not None:
            keeps = keeps | load.details.is_ucore
        return np.asarray(keeps)

    def observe(self, load: Load, weight: Floats) -> Observation:
        """Waiting jobs; no limit for express chunks."""
        limit = None if flag(np.asarray(load.urgent)) else number(self._limit(load))
        inputs: dict[str, Value] = {
            "defined": number(load.defined),
            "activated": number(load.activated),
            "starting": number(load.starting),
            "assigned": number(load.assigned),
            "all_local": flag(load.all_local),
            "running": number(load.running),
        }
        return Observation(number(self._waiting(load)), "<=", limit, "jobs", FAMILY, inputs)

    def room(self, load: Load) -> tuple[Floats, Floats]:
        """In the shape of ``load.running``: the waiting jobs that count against the cap of a candidate, and the cap."""
        waiting, limit = self._waiting(load), self._limit(load)
        details = load.details
        if self.options.at_ucore or details is None:
            return waiting, limit
        assigned = np.where(load.all_local, 0.0, details.typed_assigned)
        of_types = np.where(details.typed_known, np.maximum(details.typed_running, load.running), 0.0)
        typed_limit = waiting_limit(load.queue_limit, self.times_running, of_types)
        return (
            np.where(details.is_ucore, details.typed_queued + assigned, waiting),
            np.where(details.is_ucore, typed_limit, limit),
        )

    def _limit(self, load: Load) -> Floats:
        return np.asarray(waiting_limit(load.queue_limit, self.times_running, load.running))

    def _waiting(self, load: Load) -> Floats:
        return waiting_jobs(load) if self.options.defined_wait else np.asarray(waiting_jobs(load) - load.defined)


def waiting_jobs(load: Load) -> Floats:
    """Waiting jobs of the share at the queue; assigned ones do not count where all input is local."""
    assigned = np.where(load.all_local, 0.0, load.assigned)
    return np.asarray(load.defined + load.activated + load.starting + assigned)


#: The cap that defines room if a chain has none.
SHIPPED_CAP = Cap()


def cap_of(cuts: Iterable[LoadCut]) -> Cap:
    """The cap that defines how many jobs a candidate may take: the one among the cuts, else the shipped one."""
    return next((rule for rule in cuts if isinstance(rule, Cap)), SHIPPED_CAP)
