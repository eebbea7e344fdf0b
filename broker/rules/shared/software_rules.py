"""The shapes of the rules on software and hardware, which both job brokerages have, each with its own reading."""

from __future__ import annotations

from typing import Any, ClassVar, Generic

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.matching.outcomes import Outcome
from broker.rules.contract import Filter, Options, Reason
from broker.rules.shared.software_need import Dialect, NeedReading, PairsT


class SoftwareOptions(Options):
    """The dialect in which architectures, platforms and tags are read and compared."""

    dialect: Dialect = "specification"


class SoftwareRule(Filter[PairsT], Generic[PairsT]):
    """Rejects queues without the release, cache, nightly or container of the task, or without its CPU or GPU.

    What exactly is missing is the ``part`` of the observation. A platform that is a pattern and matches none of the
    queue is left to the rule that follows. ``reading``: how the brokerage reads what chunks need.
    """

    reason = Reason(
        code="cache",
        title="The queue has the software and the hardware of the task",
        violation="The queue lacks the software or the hardware that the task asks for",
        no_candidate="has the software",
        who="you",
        cure="Ask for a release, a container or hardware that queues publish: `broker match REQUIREMENT` shows who has "
        "what.",
    )
    sources = ("queues", "software")
    reading: ClassVar[NeedReading[Any]]
    options: SoftwareOptions = SoftwareOptions()

    @property
    def _reading(self) -> NeedReading[Any]:
        return self.reading.in_dialect(self.options.dialect)

    def keep(self, pairs: PairsT) -> Bools:
        """(T, Q): true where the queue has the software and the hardware of the task."""
        found = self._reading.by_need(pairs)
        return found.of_table((found.table == Outcome.FITS) | (found.table == Outcome.PLATFORM_UNRESOLVED)).every

    def unknown(self, pairs: PairsT) -> Bools | None:
        """(T, Q): the task asks for particular GPUs, and the summary of GPUs cannot be used; None when it can."""
        if pairs.facts.software.gpus_known:
            return None
        found = self._reading.by_need(pairs)
        return found.of_table(found.table == Outcome.GPU_SOURCE).every

    def observe(self, pairs: PairsT) -> Observation:
        """The need, what the queue publishes, and its best match."""
        return self._reading.observed(pairs, keeps=Outcome.PLATFORM_UNRESOLVED)


class PlatformRule(Filter[PairsT], Generic[PairsT]):
    """Rejects queues that have everything else, but no platform that matches the pattern of the task."""

    reason = Reason(
        code="regexpcmtconfig",
        title="The pattern of the platform matches a platform of the queue",
        violation="No platform of the queue matches the pattern of the task",
        no_candidate="has the platform",
        who="you",
        cure="Ask for a platform that queues have (`prun --cmtConfig`, `--architecture`): `broker match REQUIREMENT` "
        "shows who has what.",
    )
    sources = ("queues", "software")
    reading: ClassVar[NeedReading[Any]]
    options: SoftwareOptions = SoftwareOptions()

    @property
    def _reading(self) -> NeedReading[Any]:
        return self.reading.in_dialect(self.options.dialect)

    def keep(self, pairs: PairsT) -> Bools:
        """(T, Q): true where the queue has the software and the hardware of the task."""
        found = self._reading.by_need(pairs)
        return found.of_table(found.table != Outcome.PLATFORM_UNRESOLVED).every

    def observe(self, pairs: PairsT) -> Observation:
        """The pattern, and the platforms of the queue."""
        outcome = self._reading.outcomes(pairs).item()
        keeps = None if outcome == Outcome.PLATFORM_UNRESOLVED else Outcome(outcome)
        return self._reading.observed(pairs, keeps)
