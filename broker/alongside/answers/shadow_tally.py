"""Counting agreement, chunk by chunk, and the answer that comes of it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from broker.alongside.answers.shadow_models import (
    AgreementLine,
    DisagreementLine,
    QueueComparison,
    Shadow,
    Side,
    Uncompared,
)
from broker.alongside.statements.panda_placements import Placement, Wait
from broker.domain.rejection_counts import unified_of

MOST_QUEUES, SUCH_AS = 10, 5


@dataclass
class _Agreement:
    """Counts of one line; ``panda`` and ``ours`` are jobs by queue."""

    jobs: int = 0
    compared: int = 0
    agreed: int = 0
    waits: int = 0
    agreed_waits: int = 0
    chunks: set[Hashable] = field(default_factory=set)
    differing: set[Hashable] = field(default_factory=set)
    panda: Counter[str] = field(default_factory=Counter)
    ours: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def line(self, brokerage: str, share: str | None = None, hour: datetime | None = None) -> AgreementLine:
        return AgreementLine(
            brokerage=brokerage,
            share=share,
            hour=hour,
            jobs=self.jobs,
            compared_jobs=self.compared,
            agreed_jobs=self.agreed,
            chunks=len(self.chunks),
            agreed_chunks=len(self.chunks - self.differing),
            waits=self.waits,
            agreed_waits=self.agreed_waits,
            same_place=self._same_place(),
        )

    def _same_place(self) -> float | None:
        if not self.ours:
            return None
        both = sum(min(float(jobs), self.ours.get(queue, 0.0)) for queue, jobs in self.panda.items())
        return min(both / self.panda.total(), 1.0)


@dataclass
class _Disagreement:
    jobs: int = 0
    chunks: set[Hashable] = field(default_factory=set)
    tasks: set[int] = field(default_factory=set)
    queues: Counter[str] = field(default_factory=Counter)


class Tally:
    """Adds up comparisons of our decisions with those of JEDI: by rule, queue and share."""

    def __init__(self) -> None:
        self._all: dict[str, _Agreement] = defaultdict(_Agreement)
        self._shares: dict[tuple[str, str], _Agreement] = defaultdict(_Agreement)
        self._hours: dict[tuple[str, datetime], _Agreement] = defaultdict(_Agreement)
        self._rules: dict[tuple[str, Side, str], _Disagreement] = defaultdict(_Disagreement)
        self._refused: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._left: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])

    def placed(self, one: Placement) -> None:
        """Work that PanDA placed, whether it is compared or not."""
        for line in self._lines(one):
            line.jobs += one.jobs

    def uncompared(self, brokerage: str, reason: str, *, jobs: int = 0, waits: int = 0) -> None:
        """What cannot be compared, and why."""
        left = self._left[brokerage, reason]
        left[0] += jobs
        left[1] += waits

    def compared(self, one: Placement, code: str | None, ours: Mapping[str, float]) -> None:
        """Work that PanDA placed, the code for which ours would not have, and where ours would have placed it."""
        chunk, queue = (one.jeditaskid, one.datasetid, one.ramcount), unified_of(one.queue)
        for line in self._lines(one):
            line.compared += one.jobs
            line.agreed += one.jobs if code is None else 0
            line.chunks.add(chunk)
            line.panda[queue] += one.jobs
            for name, jobs in ours.items():
                line.ours[name] += jobs
            if code is not None:
                line.differing.add(chunk)
        if code is not None:
            self._refused[one.brokerage, queue][code] += one.jobs
            rule = self._rules[one.brokerage, "panda_only", code]
            rule.jobs += one.jobs
            rule.chunks.add(chunk)
            rule.tasks.add(one.jeditaskid)
            rule.queues[queue] += one.jobs

    def waited(self, one: Wait, code: str | None) -> None:
        """A task that PanDA let wait, and PanDA's criterion where ours brokered it."""
        for line in self._lines(one):
            line.waits += 1
            line.agreed_waits += code is None
            line.chunks.add(one.jeditaskid)
            if code is not None:
                line.differing.add(one.jeditaskid)
        if code is not None:
            rule = self._rules[one.brokerage, "ours_only", code]
            rule.chunks.add(one.jeditaskid)
            rule.tasks.add(one.jeditaskid)

    def _lines(self, one: Placement | Wait) -> tuple[_Agreement, ...]:
        hour = one.at.replace(minute=0, second=0, microsecond=0)
        share = self._shares[one.brokerage, one.share or ""]
        return self._all[one.brokerage], share, self._hours[one.brokerage, hour]

    def answer(self, since: datetime, until: datetime, max_age: timedelta) -> Shadow:
        """All that was counted."""
        return Shadow(
            since=since,
            until=until,
            max_age_s=max_age.total_seconds(),
            brokerages=tuple(one.line(name) for name, one in sorted(self._all.items())),
            shares=tuple(one.line(name, share) for (name, share), one in sorted(self._shares.items())),
            hours=tuple(one.line(name, hour=hour) for (name, hour), one in sorted(self._hours.items())),
            rules=self._disagreements(),
            queues=self._queues(),
            uncompared=tuple(
                Uncompared(brokerage=name, reason=reason, jobs=jobs, waits=waits)
                for (name, reason), (jobs, waits) in sorted(self._left.items())
            ),
        )

    def _disagreements(self) -> tuple[DisagreementLine, ...]:
        lines = [
            DisagreementLine(
                brokerage=name,
                side=side,
                code=code,
                jobs=one.jobs,
                chunks=len(one.chunks),
                tasks=len(one.tasks),
                queues=tuple(queue for queue, _ in one.queues.most_common(MOST_QUEUES)),
                such_as=tuple(sorted(one.tasks)[:SUCH_AS]),
            )
            for (name, side, code), one in self._rules.items()
        ]
        return tuple(sorted(lines, key=lambda one: (-one.jobs, -one.chunks, one.brokerage, one.code)))

    def _queues(self) -> tuple[QueueComparison, ...]:
        lines = []
        for name, counts in self._all.items():
            for queue in counts.panda.keys() | counts.ours.keys():
                refused = self._refused.get((name, queue), Counter())
                jobs = counts.panda[queue]
                lines.append(
                    QueueComparison(
                        brokerage=name,
                        queue=queue,
                        panda_jobs=jobs,
                        our_jobs=round(counts.ours.get(queue, 0.0), 3),
                        agreed_jobs=jobs - refused.total(),
                        main_code=refused.most_common(1)[0][0] if refused else None,
                    )
                )
        return tuple(sorted(lines, key=lambda one: (one.brokerage, -one.panda_jobs, -one.our_jobs, one.queue)))
