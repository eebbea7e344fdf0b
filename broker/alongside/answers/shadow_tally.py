"""Count agreement, chunk by chunk, and build the lines of the answer. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from broker.alongside.answers.shadow_models import (
    AgreementLine,
    ByChance,
    DisagreementLine,
    Interval,
    PlacedByOurs,
    Placer,
    QueueComparison,
    ShareConsequence,
    Side,
    Uncompared,
)
from broker.alongside.model.agreement import DRAWS, Chance, Draws, chance_alone, interval, witnesses
from broker.alongside.statements.panda_placements import Placement, Undecided, Wait
from broker.domain.rejection_counts import unified_of

MOST_QUEUES, SUCH_AS = 10, 5
#: Seed of the draws; the same query has the same answer.
SEED = 1


@dataclass
class Agreement:
    """Counts of one line; ``panda`` and ``ours`` are jobs by queue, ``task_jobs`` compared jobs by task."""

    jobs: int = 0
    compared: int = 0
    agreed: int = 0
    waits: int = 0
    agreed_waits: int = 0
    chunks: set[tuple[int, Hashable]] = field(default_factory=set)
    differing: set[tuple[int, Hashable]] = field(default_factory=set)
    task_jobs: Counter[int] = field(default_factory=Counter)
    panda: Counter[str] = field(default_factory=Counter)
    ours: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def line(
        self,
        brokerage: str,
        confidence: float,
        label: str | None = None,
        share: str | None = None,
        hour: datetime | None = None,
    ) -> AgreementLine:
        """The counts as a line."""
        agreed_chunks = len(self.chunks - self.differing)
        task_chunks = Counter(task for task, _ in self.chunks)
        return AgreementLine(
            brokerage=brokerage,
            label=label,
            share=share,
            hour=hour,
            jobs=self.jobs,
            compared_jobs=self.compared,
            agreed_jobs=self.agreed,
            chunks=len(self.chunks),
            agreed_chunks=agreed_chunks,
            tasks=len(task_chunks),
            witnesses=round(witnesses(self.task_jobs.values()), 1),
            job_interval=_interval(self.agreed, self.task_jobs, confidence),
            chunk_interval=_interval(agreed_chunks, task_chunks, confidence),
            waits=self.waits,
            agreed_waits=self.agreed_waits,
            same_place=self._same_place(),
        )

    def _same_place(self) -> float | None:
        if not self.ours:
            return None
        both = sum(min(float(jobs), self.ours.get(queue, 0.0)) for queue, jobs in self.panda.items())
        return min(both / self.panda.total(), 1.0)


def _interval(agreed: int, sizes: Counter[int], confidence: float) -> Interval | None:
    bounds = interval(agreed, list(sizes.values()), confidence)
    return None if bounds is None else _ends(bounds)


def _ends(bounds: tuple[float, float]) -> Interval:
    low, high = bounds
    return Interval(low=low, high=high)


@dataclass
class _Disagreement:
    counts: Counter[str] = field(default_factory=Counter)
    chunks: set[Hashable] = field(default_factory=set)
    tasks: set[int] = field(default_factory=set)
    queues: Counter[str] = field(default_factory=Counter)


@dataclass
class _Own:
    jobs: int = 0
    waits: int = 0
    tasks: set[int] = field(default_factory=set)


class Tally:
    """Adds up comparisons of our decisions with those of JEDI: by rule, queue and share.

    Attributes:
        all: counts by brokerage.
        placements: those compared, with our chances of each unified queue; none if ours did not broker.
    """

    def __init__(self) -> None:
        self.all: dict[str, Agreement] = defaultdict(Agreement)
        self._shares: dict[tuple[str, str], Agreement] = defaultdict(Agreement)
        self._hours: dict[tuple[str, datetime], Agreement] = defaultdict(Agreement)
        self._rules: dict[tuple[str, Side, str], _Disagreement] = defaultdict(_Disagreement)
        self._refused: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._left: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self._own: dict[tuple[str, Placer], _Own] = defaultdict(_Own)
        self.placements: list[tuple[Placement, Mapping[str, float]]] = []
        self._chances: dict[str, Chance | None] = {}

    def placed_by_ours(self, one: Placement | Wait, by: Placer) -> None:
        """Count what ours placed or let wait itself."""
        own = self._own[one.brokerage, by]
        own.tasks.add(one.jeditaskid)
        if isinstance(one, Wait):
            own.waits += 1
        else:
            own.jobs += one.jobs

    def placed(self, one: Placement | Undecided) -> None:
        """Count work that PanDA placed, whether compared or not."""
        for line in self._lines(one):
            line.jobs += one.jobs

    def uncompared(self, one: Placement | Wait | Undecided, reason: str) -> None:
        """Count what cannot be compared, by reason."""
        left = self._left[one.brokerage, reason]
        if isinstance(one, Wait):
            left[1] += 1
        else:
            left[0] += one.jobs

    def compared(self, one: Placement, code: str | None, chances: Mapping[str, float]) -> None:
        """Count work that PanDA placed, with the code for which ours would not, and our chances by unified queue."""
        chunk, queue = (one.jeditaskid, one.chunk), unified_of(one.queue)
        for line in self._lines(one):
            line.compared += one.jobs
            line.agreed += one.jobs if code is None else 0
            line.chunks.add(chunk)
            line.task_jobs[one.jeditaskid] += one.jobs
            line.panda[queue] += one.jobs
            for name, part in chances.items():
                line.ours[name] += one.jobs * part
            if code is not None:
                line.differing.add(chunk)
        self.placements.append((one, chances))
        if code is not None:
            self._refused[one.brokerage, queue][code] += one.jobs
            rule = self._rules[one.brokerage, "panda_only", code]
            rule.counts["jobs"] += one.jobs
            rule.chunks.add(chunk)
            rule.tasks.add(one.jeditaskid)
            rule.queues[queue] += one.jobs

    def waited(self, one: Wait, code: str | None) -> None:
        """Count a task that PanDA let wait, with PanDA's criterion if ours brokered it."""
        chunk = (one.jeditaskid, "waits")
        for line in self._lines(one):
            line.waits += 1
            line.agreed_waits += code is None
            line.chunks.add(chunk)
            if code is not None:
                line.differing.add(chunk)
        if code is not None:
            rule = self._rules[one.brokerage, "ours_only", code]
            rule.counts["waits"] += 1
            rule.chunks.add(chunk)
            rule.tasks.add(one.jeditaskid)

    def _lines(self, item: Placement | Wait | Undecided) -> tuple[Agreement, ...]:
        hour = item.at.replace(minute=0, second=0, microsecond=0)
        share = self._shares[item.brokerage, item.share or ""]
        return self.all[item.brokerage], share, self._hours[item.brokerage, hour]

    def brokerages(self, confidence: float, label: str | None = None) -> tuple[AgreementLine, ...]:
        """One line for each brokerage."""
        return tuple(one.line(name, confidence, label) for name, one in sorted(self.all.items()))

    def shares(self, confidence: float) -> tuple[AgreementLine, ...]:
        """One line for each share of each brokerage."""
        return tuple(one.line(name, confidence, share=share) for (name, share), one in sorted(self._shares.items()))

    def hours(self, confidence: float) -> tuple[AgreementLine, ...]:
        """One line for each hour of each brokerage."""
        return tuple(one.line(name, confidence, hour=hour) for (name, hour), one in sorted(self._hours.items()))

    def moments(self, brokerage: str) -> list[datetime]:
        """Starts of the hours in which something of a brokerage was compared."""
        return [hour for (name, hour), one in self._hours.items() if name == brokerage and one.compared + one.waits]

    def left_out(self) -> tuple[Uncompared, ...]:
        """What could not be compared."""
        return tuple(
            Uncompared(brokerage=name, reason=reason, jobs=jobs, waits=waits)
            for (name, reason), (jobs, waits) in sorted(self._left.items())
        )

    def own(self) -> tuple[PlacedByOurs, ...]:
        """What ours placed itself."""
        return tuple(
            PlacedByOurs(brokerage=name, by=by, jobs=one.jobs, waits=one.waits, tasks=len(one.tasks))
            for (name, by), one in sorted(self._own.items())
        )

    def disagreements(self) -> tuple[DisagreementLine, ...]:
        """The disagreements by the rule that made them."""
        lines = [
            DisagreementLine(
                brokerage=name,
                side=side,
                code=code,
                jobs=one.counts["jobs"],
                waits=one.counts["waits"],
                chunks=len(one.chunks),
                tasks=len(one.tasks),
                queues=tuple(queue for queue, _ in one.queues.most_common(MOST_QUEUES)),
                such_as=tuple(sorted(one.tasks)[:SUCH_AS]),
            )
            for (name, side, code), one in self._rules.items()
        ]
        return tuple(sorted(lines, key=lambda one: (-one.jobs, -one.chunks, one.brokerage, one.code)))

    def queues(self) -> tuple[QueueComparison, ...]:
        """Jobs by queue on either side."""
        lines = []
        for name, counts in self.all.items():
            chance = self.chance(name)
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
                        by_chance=0.0 if chance is None else round(chance.by_place.get(queue, 0.0), 3),
                        main_code=refused.most_common(1)[0][0] if refused else None,
                    )
                )
        return tuple(sorted(lines, key=lambda one: (one.brokerage, -one.panda_jobs, -one.our_jobs, one.queue)))

    def chance(self, brokerage: str) -> Chance | None:
        """The effect of random draws alone; None if ours brokered nothing that was compared."""
        if brokerage not in self._chances:
            own = [Draws(one.jobs, by) for one, by in self.placements if by and one.brokerage == brokerage]
            self._chances[brokerage] = chance_alone(own, SEED)
        return self._chances[brokerage]

    def by_chance(self, label: str | None = None) -> tuple[ByChance, ...]:
        """The results of :meth:`chance` as lines."""
        chances = [(name, self.chance(name)) for name in sorted(self.all)]
        return tuple(
            ByChance(
                brokerage=name,
                label=label,
                jobs=chance.drawn_jobs,
                same_place=chance.alone,
                interval=_ends(chance.within),
                drawn_twice=chance.drawn_twice,
                draws=DRAWS,
            )
            for name, chance in chances
            if chance is not None
        )

    def share_consequences(self) -> tuple[ShareConsequence, ...]:
        """What shares get on either side."""
        lines = []
        for (name, share), one in sorted(self._shares.items()):
            panda, ours = self.all[name].compared, sum(self.all[name].ours.values())
            if one.compared:
                jobs = sum(one.ours.values())
                lines.append(
                    ShareConsequence(
                        brokerage=name,
                        share=share,
                        panda_jobs=one.compared,
                        our_jobs=round(jobs, 3),
                        panda_part=one.compared / panda,
                        our_part=jobs / ours if ours else None,
                    )
                )
        return tuple(lines)
