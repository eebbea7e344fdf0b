"""The interface of a brokerage, which agents, ``explain``, replay and what-if use.

A :class:`Brokerage` makes a :class:`Cycle` from a snapshot and work, which was just read or was stored with decisions.
The cycle assigns the work, one piece after the other, and returns what is to be written and stored. Both are pure.
The brokerage's tables (:mod:`agents.brokerage.tables`) read the work from the database and write the rows.

A brokerage of another distribution is a subclass of both, offered by the entry point group ``broker.brokerages``; see
``docs/how-to/add-a-brokerage.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from broker.brokerages.offered_steps import implementations
from broker.brokerages.replayed_columns import ReplayedColumns
from broker.codec.work_codec import Body, WorkCorruptError
from broker.domain.arrays import Bools, Ints, Texts
from broker.domain.decisions import TOO_LATE_REASONS, Decision, DecisionRecord, Reason
from broker.domain.placements import WriteOutcome
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.answer import REASONS, CandidateVerdict, RuleVerdict
from broker.engine.shared.chain import RuleChain
from broker.engine.shared.filter_cache import RuleFault
from broker.gdpconfig import Tuning
from broker.rules.contract import Rule
from broker.snapshot.snapshot import Snapshot

TuningOf = Callable[[str | None], Tuning]
"""The tuning for the tasks of a VO, such as ``Published.tuning``."""


@dataclass(frozen=True)
class Rules:
    """The rules by which a brokerage decides.

    Attributes:
        chain: of the brokerage.
        needed: the rules of the brokerages that it consults, by name; see :attr:`Brokerage.needs`.
        options: the agent's options that take part in decisions; see :attr:`Brokerage.decision_options`.
    """

    chain: RuleChain
    needed: Mapping[str, RuleChain] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class StageTimes:
    """Seconds that a cycle has spent deciding and cutting."""

    decide_s: float = 0.0
    cut_s: float = 0.0


class Assigned(Protocol):
    """One piece of work with its decision: an input chunk with its jobs, or a task with its nucleus."""

    @property
    def row(self) -> int:
        """Position of the piece in the work of the cycle."""
        ...

    @property
    def decision(self) -> Decision:
        """The decision about the piece, with every reason, as it is stored."""
        ...


@dataclass(frozen=True)
class ReplayedDecision:
    """The outcome of one stored chunk or task, decided again.

    Attributes:
        decision: the decision, of the same kind as the stored one.
        assigned: jobs by candidate, or the one task at its nucleus; None if the cut of the chunk was not stored.
        before: the load counted before it, in its stored form: jobs by unified queue, or HS06 s by nucleus.
    """

    decision: Decision
    assigned: Mapping[str, int] | None
    before: Mapping[str, Any]


class StoredBatch(Protocol):
    """Stored work of one VO, which a brokerage decided piece by piece."""

    @property
    def vo(self) -> str | None:
        """The VO: each has a tuning of its own."""
        ...

    @property
    def jeditaskid(self) -> Ints:
        """(T,) the task of each piece."""
        ...

    @property
    def load_before(self) -> Sequence[Mapping[str, Any]]:
        """For each piece, the load counted before it, by the names of :attr:`ReplayedDecision.before`."""
        ...

    def check(self) -> None:
        """Read lazily loaded parts now; raises WorkCorruptError if they are damaged."""


AssignedT = TypeVar("AssignedT", bound=Assigned)
WorkT = TypeVar("WorkT")
BatchT = TypeVar("BatchT", bound=StoredBatch)
CycleT = TypeVar("CycleT", bound="Cycle[Any]")


class Cycle(ABC, Generic[AssignedT]):
    """One cycle of a brokerage over the work of one VO.

    Attributes:
        snapshot: the grid.
    """

    snapshot: Snapshot

    @property
    @abstractmethod
    def faults(self) -> Sequence[RuleFault]:
        """The rules that could not be run."""

    @property
    @abstractmethod
    def jeditaskid(self) -> Ints:
        """(T,) the task of each piece of work."""

    @property
    @abstractmethod
    def counts(self) -> Mapping[str, int]:
        """The amount of work, for the report of the agent."""

    @property
    @abstractmethod
    def work(self) -> Any:
        """The brokered work; another cycle of the brokerage can be made over it."""

    @abstractmethod
    def assign(self, seed: int, times: StageTimes | None = None) -> Iterator[AssignedT]:
        """Broker all work in order; each piece meets the load of those before it.

        Args:
            seed: of the random draws; each piece draws from a stream of its own.
            times: filled with the seconds of the stages.
        """

    @abstractmethod
    def split(self: CycleT, other: CycleT, rows: Bools) -> CycleT:
        """This cycle with the pieces ``rows``, shape (T,), decided by ``other``: the same work with other values."""

    @abstractmethod
    def encode(self, assigned: AssignedT) -> bytes:
        """Encode the piece of work in the form stored with its decision."""

    @abstractmethod
    def rows(self, assigned: Sequence[AssignedT]) -> Any:
        """The rows that the tables of the brokerage write for these pieces."""

    @abstractmethod
    def records(
        self, assigned: Sequence[AssignedT], written: WriteOutcome | None, now: datetime
    ) -> list[DecisionRecord]:
        """The decisions with the jobs that were written for them.

        Args:
            assigned: the pieces, in order.
            written: what was written; None to assume that everything was.
            now: the instant for which they were decided, aware.
        """


class Brokerage(ABC, Generic[WorkT, BatchT]):
    """A brokerage.

    Attributes:
        name: as in ``broker run NAME``, in profiles, and in stored decisions.
        title: one line for operators.
        candidate: what it chooses: ``queue`` or ``nucleus``, or another word.
        assigned: what is assigned to a candidate: ``jobs`` or ``tasks``, or another word.
        needs: brokerages whose rules it consults.
        decision_options: the agent's options that take part in decisions, with their defaults.
        gives: reasons for candidates, chunks and tasks that come neither from a rule nor from a replaceable step.
        tables: ``module:class`` of the tables, see :mod:`agents.brokerage.tables`.
        period_s: seconds between cycles, where ``agents.yaml`` has no entry.
        cycle_budget_s: seconds that a cycle may take, where ``agents.yaml`` has no entry.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    candidate: ClassVar[str] = "queue"
    assigned: ClassVar[str] = "jobs"
    needs: ClassVar[tuple[str, ...]] = ()
    decision_options: ClassVar[Mapping[str, Any]] = {}
    gives: ClassVar[tuple[Reason, ...]] = (*REASONS, *TOO_LATE_REASONS)
    tables: ClassVar[str]
    period_s: ClassVar[float] = 60.0
    cycle_budget_s: ClassVar[float] = 120.0

    @abstractmethod
    def chain(self) -> RuleChain:
        """The ordered rules as shipped."""

    def optional_rules(self) -> tuple[Rule, ...]:
        """Rules that it has but uses only if a profile adds them."""
        return ()

    def reasons(self) -> Iterator[tuple[str, Reason]]:
        """Every reason that it may give, each with the name of the rule or step, or of the brokerage itself.

        Reasons of rules that a profile may add come after those of the shipped rules, and reasons of offered
        implementations of a step after its own.
        """
        for rule in (*(chain := self.chain()), *self.optional_rules()):
            if rule.rejects:
                yield rule.name, rule.reason
        for step in chain.named_steps.values():
            for implementation in (step, *implementations(step.name)):
                yield from ((step.name, reason) for reason in implementation.gives)
        yield from ((self.name, reason) for reason in self.gives)

    @abstractmethod
    def candidates(self, snapshot: Snapshot) -> Texts:
        """(Q,) the names of all candidates: pseudo-queues, or nuclei."""

    @abstractmethod
    def cycle(
        self, snapshot: Snapshot, work: WorkT, tuning: Tuning, rules: Rules, *, independent: bool = False
    ) -> Cycle[Any]:
        """A cycle over the work of one VO.

        Args:
            snapshot: the grid.
            work: as the tables of the brokerage read it.
            tuning: for the VO.
            rules: of this brokerage.
            independent: every piece of work meets the same grid, regardless of what was assigned before it.
        """

    @abstractmethod
    def retry_after(self, decision: Decision) -> timedelta | None:
        """How long the task waits after a decision until it is brokered again; None if it does not wait."""

    @abstractmethod
    def decode(self, vo: str | None, bodies: list[Body], *, older: bool) -> BatchT:
        """Stored work of one VO.

        Args:
            vo: of the tasks.
            bodies: the unpacked work of each decision, in the order in which they were made.
            older: the work is of another engine version; columns that it lacks hold NULL.

        Raises:
            WorkCorruptError: it is damaged, or lacks columns of this version.
        """

    @abstractmethod
    def columns_not_stored(self, body: Body) -> tuple[str, ...]:
        """The columns of this version that stored work does not have."""

    @abstractmethod
    def vo_of(self, body: Body) -> Any:
        """The VO in the unpacked work of a decision. Raises KeyError, IndexError or TypeError where it is damaged."""

    @abstractmethod
    def replay(
        self, snapshot: Snapshot, tuning: Tuning, batch: BatchT, seed: int, rules: Rules, *, as_stored: bool
    ) -> Iterator[ReplayedDecision]:
        """Decide stored work again, in its order; one result for each piece.

        Args:
            snapshot: the grid.
            tuning: for the VO.
            batch: the work.
            seed: of the cycle.
            rules: of the brokerage.
            as_stored: count before each piece the load that was stored with it, regardless of what is assigned now.
                Otherwise count what this replay assigns, as a real cycle does.

        Raises:
            WorkCorruptError: the work is incomplete.
        """

    @abstractmethod
    def why_not(
        self, snapshot: Snapshot, tuning: Tuning, batch: BatchT, rules: Rules, decision: Decision, name: str
    ) -> list[CandidateVerdict]:
        """Why a stored decision did not choose a candidate.

        Args:
            snapshot: that the decision was based on.
            tuning: with which it was decided.
            batch: the work of this one decision.
            rules: of the brokerage.
            decision: as stored.
            name: of the candidate; the name of a queue stands for all its pseudo-queues.
        """

    def why_not_each(
        self,
        snapshot: Snapshot,
        tuning: Tuning,
        batch: BatchT,
        rules: Rules,
        decision: Decision,
        names: Collection[str] | None = None,
    ) -> list[CandidateVerdict]:
        """The verdict on each candidate of a stored decision, or on those named; see :meth:`why_not`."""
        wanted = [name for name in self.candidates(snapshot).tolist() if names is None or name in names]
        return [one for name in wanted for one in self.why_not(snapshot, tuning, batch, rules, decision, name)]

    def every_rule(
        self, snapshot: Snapshot, tuning: Tuning, batch: BatchT, rules: Rules, name: str
    ) -> list[RuleVerdict]:
        """Verdicts of every filter on a candidate of stored work, in order; empty if not supported."""
        return []

    def decide_again(self, snapshot: Snapshot, tuning: Tuning, batch: BatchT, rules: Rules) -> Decision:
        """The decision about a single piece of stored work, with the load that was stored with it.

        Snapshot, tuning, work and rules may differ from those of the original decision.
        """
        return next(self.replay(snapshot, tuning, batch, 0, rules, as_stored=True)).decision

    def replayed_cycle(
        self, snapshot: Snapshot, tuning: Tuning, batch: BatchT, rules: Rules, beside: JobCycle | None = None
    ) -> JobCycle | None:
        """A cycle that draws jobs for stored chunks, so that a comparison can reuse another side's draws.

        Data about the grid and the work is reused from the cycle ``beside`` where it is the same. None, the default:
        the brokerage draws no jobs, or draws them in its own way, so each side is replayed.
        """
        return None

    def replayed_columns(
        self,
        snapshot: Snapshot,
        tuning: Tuning,
        batch: BatchT,
        seed: int,
        rules: Rules,
        beside: ReplayedColumns | None = None,
    ) -> ReplayedColumns | None:
        """Like :meth:`replay`, as columns and with newly assigned work counted, for a comparison.

        What cannot differ is reused from the columns ``beside``, which are of the same work. None, the default: the
        brokerage has only decisions.
        """
        return None

    def decides_together(self, rules: Rules) -> bool:
        """Whether the work of a cycle is decided as a whole, so that no other broker can decide a part of it."""
        return False

    def waits_until(self, decision: Decision, now: datetime) -> datetime | None:
        """When the task is brokered again after a decision made for ``now``; None if it does not wait."""
        after = self.retry_after(decision)
        return None if after is None else now + after

    def batch(self, body: Body, *, older: bool = False) -> BatchT:
        """The stored work of a single decision.

        Raises:
            WorkCorruptError: it is damaged, or lacks columns of this version.
        """
        return self.decode(self.read_vo(body), [body], older=older)

    def read_vo(self, body: Body) -> str | None:
        """The VO of the stored work of a decision.

        Raises:
            WorkCorruptError: the work is damaged, or of a kind that the brokerage does not decide.
        """
        try:
            vo = self.vo_of(body)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise WorkCorruptError(f"the stored work of a decision cannot be read: no column vo: {error!r}") from error
        return None if vo is None else str(vo)
