"""The agent that keeps the replica catalogue current for the input of tasks that need brokerage, from Rucio."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

from pydantic import Field

from agents.feeds.importing import FeedAlarm
from agents.feeds.rucio_connection import Pace, RucioAgent, RucioOptions, ask_side_by_side, paced
from agents.service import fault_points
from agents.service.base import CycleContext, CycleReport
from broker.domain.work import DroppedRow
from broker.feeds.model.rows import reasons
from broker.feeds.model.rucio import answers as schedule
from broker.feeds.model.rucio.answers import FOUND, Answer, Asked, Did
from broker.feeds.model.rucio.client import Heard, Known, Questions, Rucio, RucioUnavailable, ask, digest_of
from broker.feeds.statements import feed_runs, waiting_input
from broker.feeds.statements.feed_runs import FeedRun
from broker.store.connection.tables import TableCatalogue
from broker.store.reads import replica_requests
from broker.store.reads.replica_requests import Request
from broker.store.schema import migrate
from broker.store.snapshots import feed_documents

_log = logging.getLogger(__name__)
DOCUMENT = "replicas"
_FEWEST_GUARDED = 20
"""A batch with fewer datasets that had replicas may lose those of any number of them."""


class ReplicaOptions(RucioOptions):
    """Options of the agent.

    Attributes:
        first_s: seconds until a dataset is asked for the second time, and after each change.
        longest_s: seconds between two times at most.
        growth: by which the time grows while nothing changes.
        failed_s: seconds until another try after one without an answer.
        virtual_placement: ask for virtual placements as well.
        most_files: a larger dataset is not looked up file by file.
        max_shrink: share of the datasets of a batch that may lose all their replicas.
        batch: datasets of one transaction.
        datasets_of_a_cycle: that are asked for.
    """

    first_s: float = Field(default=300.0, gt=0, le=86_400)
    longest_s: float = Field(default=1500.0, gt=0, le=86_400)
    growth: float = Field(default=2.0, ge=1, le=100)
    failed_s: float = Field(default=60.0, gt=0, le=86_400)
    virtual_placement: bool = False
    most_files: int = Field(default=10_000, ge=0)
    max_shrink: float = Field(default=0.5, ge=0, le=1)
    batch: int = Field(default=100, ge=1, le=10_000)
    datasets_of_a_cycle: int = Field(default=20_000, ge=1)

    @property
    def pace(self) -> schedule.Pace:
        """How often a dataset is asked for."""
        return schedule.Pace(self.first_s, self.longest_s, self.growth, self.failed_s)


@dataclass
class _Tally:
    """What a cycle has done so far."""

    found: int = 0
    not_found: int = 0
    changed: int = 0
    unchanged: int = 0
    no_answer: int = 0
    alarm: str = ""
    last_failure: str = ""
    dropped_rows: list[DroppedRow] = field(default_factory=list)

    @property
    def answers(self) -> int:
        return self.found + self.not_found


class RucioReplicasAgent(RucioAgent[ReplicaOptions]):
    """Asks for the datasets that are due, the soonest needed first; no brokerage cycle waits for it."""

    name = "rucio_replicas"
    title = "replicas of the input of tasks, from Rucio"
    options_type = ReplicaOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Ask for what is due, and for the constituents of containers that are found on the way.

        Raises:
            FeedAlarm: Rucio gave no answer, or the answers were not to be believed.
        """
        started = perf_counter()
        if not context.writes:
            due = self._due(context)
            return CycleReport({"due": len(due)}, {"load_s": perf_counter() - started})
        tally, pace = _Tally(), Pace(context, self.options.requests_per_s)
        try:
            rucio: Rucio = self._connect(self.options)
            pace.wait()
            tape = rucio.tape_endpoints()
        except RucioUnavailable as error:
            raise FeedAlarm(f"ALARM: feed {self.name}: unreachable: {error.what}", error.where, error.remedy) from error
        asking = _Asking(context, self.options, rucio, tape, pace, tally)
        seen: set[Did] = set()
        while due := {did: one for did, one in self._due(context).items() if did not in seen}:
            seen.update(due)
            if not asking.run(due):
                break
        asked_s = perf_counter() - started
        woken = self._let_go_on(context)
        report = self._close(context, tally, pace, asked_s)
        return replace(report, counts={**report.counts, "tasks_reactivated": woken})

    def _let_go_on(self, context: CycleContext) -> int:
        """Have tasks brokered again that wait for what Rucio has said; alongside PanDA that is JEDI's to do."""
        if migrate.check(context.database) != migrate.STANDALONE:
            return 0
        names = context.database.names
        with context.database.read_snapshot() as connection:
            tasks = waiting_input.answered_since(connection, names)
        if not tasks:
            return 0
        with context.writing() as connection:
            return waiting_input.let_go_on(connection, names, tasks, context.now)

    def _due(self, context: CycleContext) -> dict[Did, Request | None]:
        with context.database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, context.database.names)
            needed = replica_requests.needed_dids(connection, catalogue)
            known = replica_requests.requests_of(connection, (one.did for one in needed))
        asked = {did: one.asked for did, one in known.items()}
        chosen = schedule.due(needed, asked, context.now, self.options.datasets_of_a_cycle, self.options.pace)
        return {did: known.get(did) for did in chosen}

    def _close(self, context: CycleContext, tally: _Tally, pace: Pace, lasted_s: float) -> CycleReport:
        alarm = tally.alarm or ("" if tally.answers or not tally.no_answer else f"unreachable: {tally.last_failure}")
        dropped_rows = reasons(tally.dropped_rows)
        numbers = {"added": 0, "changed": tally.changed, "gone": tally.not_found, "unchanged": tally.unchanged}
        document = {"document": DOCUMENT, "outcome": "refused" if alarm else "good", "detail": alarm}
        run = FeedRun(
            self.name,
            context.request.by_hand,
            context.now,
            "done" if not alarm else "partial" if tally.answers else "refused",
            [document],
            {"dataset_replicas": {**numbers, "fields": {}}},
            {DOCUMENT: dropped_rows} if dropped_rows else {},
        )
        with context.writing() as connection:
            if not alarm:
                feed_documents.note_checked(connection, self.name, DOCUMENT, "rucio", context.now)
            if tally.answers or alarm:
                feed_runs.write_run(connection, run)
        if alarm:
            _log.error("ALARM: feed %s", self.name, extra={"fields": {"reason": alarm}})
            raise FeedAlarm(f"ALARM: feed {self.name}: {alarm}", "Rucio", "what was known stays; see the server")
        counts = {
            "found": tally.found,
            "not_found": tally.not_found,
            "changed": tally.changed,
            "no_answer": tally.no_answer,
            "requests": pace.asked,
        }
        return CycleReport(
            counts, {"ask_s": lasted_s}, tuple(f"left out {n} x {code}" for code, n in dropped_rows.items())
        )


class _Asking:
    """Asks for datasets and writes the answers, batch by batch."""

    def __init__(
        self,
        context: CycleContext,
        options: ReplicaOptions,
        rucio: Rucio,
        tape: dict[str, bool],
        pace: Pace,
        tally: _Tally,
    ) -> None:
        self._context, self._options, self._tally = context, options, tally
        self._rucio = paced(rucio, pace)
        self._tape = tape
        self._questions = Questions(options.virtual_placement, options.most_files)

    def run(self, due: dict[Did, Request | None]) -> bool:
        """Ask for all that is due; whether there is reason to look for more."""
        heard: list[tuple[Did, Heard | RucioUnavailable]] = []
        answers = 0

        def one(did: Did) -> Heard:
            return ask(self._rucio, did, _known(due[did]), self._tape, self._questions)

        for did, answer in ask_side_by_side(self._context, due, one, self._options.requests_in_flight):
            heard.append((did, answer))
            answers += 1
            if len(heard) >= self._options.batch:
                self._write(heard, due)
                heard = []
        self._write(heard, due)
        return answers == len(due) and not self._tally.alarm

    def _write(self, heard: Sequence[tuple[Did, Heard | RucioUnavailable]], due: dict[Did, Request | None]) -> None:
        context, tally = self._context, self._tally
        if not heard:
            return
        context.check()
        tally.alarm = tally.alarm or self._shrunk(heard, due)
        if tally.alarm:
            return
        fault_points.reach("before_write")
        with context.writing() as connection:
            same: list[Asked] = []
            for did, answer in heard:
                before = due[did]
                if isinstance(answer, RucioUnavailable):
                    tally.no_answer += 1
                    tally.last_failure = answer.what
                    failed = schedule.after_failure(did, _asked(before), context.now, self._options.pace)
                    replica_requests.write_failure(connection, failed)
                elif answer.answer is None and before is not None:
                    tally.found += 1
                    tally.unchanged += 1
                    digest = before.asked.digest or ""
                    same.append(schedule.after_answer(did, before.asked, digest, context.now, self._options.pace))
                elif answer.answer is not None:
                    digest = answer.answer.digest()
                    changed = before is None or before.asked.digest != digest
                    self._count(answer.answer, changed)
                    asked = schedule.after_answer(did, _asked(before), digest, context.now, self._options.pace)
                    replica_requests.write_answer(
                        connection, answer.answer, asked, answer.replicas_digest, context.now, changed=changed
                    )
            replica_requests.write_unchanged(connection, same, context.now)
            fault_points.reach("after_write_before_commit")

    def _count(self, answer: Answer, changed: bool) -> None:
        self._tally.found += answer.outcome == FOUND
        self._tally.not_found += answer.outcome != FOUND
        self._tally.changed += changed and answer.outcome == FOUND
        self._tally.unchanged += not changed
        self._tally.dropped_rows += answer.dropped_rows

    def _shrunk(self, heard: Sequence[tuple[Did, Heard | RucioUnavailable]], due: dict[Did, Request | None]) -> str:
        """Why the answers of a batch are not to be believed; empty if they are."""
        had = [
            one.answer
            for did, one in heard
            if isinstance(one, Heard) and (before := due[did]) is not None and _had_replicas(before)
        ]
        lost = sum(answer is not None and not (answer.replicas or answer.contents) for answer in had)
        if len(had) < _FEWEST_GUARDED or lost <= self._options.max_shrink * len(had):
            return ""
        return f"shrunk: {lost} of {len(had)} datasets have lost all replicas at once"


def _had_replicas(request: Request) -> bool:
    return request.outcome == FOUND and request.replicas_digest not in (None, digest_of([]))


def _known(request: Request | None) -> Known:
    return Known() if request is None else Known(request.replicas_digest, request.settled)


def _asked(request: Request | None) -> Asked | None:
    return None if request is None else request.asked
