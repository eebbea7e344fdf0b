"""The agent that keeps the replica catalogue up to date, from Rucio, for the input of tasks that need brokerage."""

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
from broker.feeds.model.rucio.answers import FOUND, DatasetReply, Did, RequestRecord
from broker.feeds.model.rucio.questions import (
    DatasetUpdate,
    LastReply,
    Questions,
    Rucio,
    RucioUnavailable,
    ask,
    digest_of,
)
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
"""A batch with fewer datasets that had replicas is not checked for lost replicas."""


class ReplicaOptions(RucioOptions):
    """Options of the agent.

    Attributes:
        first_s: seconds until a dataset is queried the second time, and after each change.
        longest_s: maximum seconds between two queries.
        growth: factor by which the time grows while nothing changes.
        failed_s: seconds until the next try after one without an answer.
        virtual_placement: query virtual placements as well.
        most_files: a larger dataset is not looked up file by file.
        max_shrink: share of the datasets of a batch that may lose all their replicas.
        batch: datasets of one transaction.
        datasets_of_a_cycle: datasets queried.
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
        """How often a dataset is requested."""
        return schedule.Pace(self.first_s, self.longest_s, self.growth, self.failed_s)


@dataclass
class _Tally:
    """The results of a cycle so far."""

    existing: int = 0
    missing: int = 0
    changed: int = 0
    unchanged: int = 0
    no_answer: int = 0
    alarm: str = ""
    last_failure: str = ""
    dropped_rows: list[DroppedRow] = field(default_factory=list)

    @property
    def answers(self) -> int:
        return self.existing + self.missing


class RucioReplicasAgent(RucioAgent[ReplicaOptions]):
    """Requests the replicas of due datasets, the most urgent first; no brokerage cycle waits for it."""

    name = "rucio_replicas"
    title = "replicas of the input of tasks, from Rucio"
    options_type = ReplicaOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Request the datasets that are due, and the constituents of containers found among them.

        Raises:
            FeedAlarm: Rucio gave no answer, or its answers were implausible.
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
        requester = _Requester(context, self.options, rucio, tape, pace, tally)
        seen: set[Did] = set()
        while due := {did: request for did, request in self._due(context).items() if did not in seen}:
            seen.update(due)
            if not requester.run(due):
                break
        requested_s = perf_counter() - started
        reactivated = self._reactivate_tasks(context)
        report = self._close(context, tally, pace, requested_s)
        return replace(report, counts={**report.counts, "tasks_reactivated": reactivated})

    def _reactivate_tasks(self, context: CycleContext) -> int:
        """Reactivate tasks that waited for Rucio's answers and now have them; alongside PanDA, JEDI does this."""
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
            requests = replica_requests.requests_of(connection, (item.did for item in needed))
        records = {did: request.record for did, request in requests.items()}
        due_dids = schedule.due(needed, records, context.now, self.options.datasets_of_a_cycle, self.options.pace)
        return {did: requests.get(did) for did in due_dids}

    def _close(self, context: CycleContext, tally: _Tally, pace: Pace, lasted_s: float) -> CycleReport:
        alarm = tally.alarm or ("" if tally.answers or not tally.no_answer else f"unreachable: {tally.last_failure}")
        dropped_rows = reasons(tally.dropped_rows)
        numbers = {"added": 0, "changed": tally.changed, "gone": tally.missing, "unchanged": tally.unchanged}
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
            "found": tally.existing,
            "not_found": tally.missing,
            "changed": tally.changed,
            "no_answer": tally.no_answer,
            "requests": pace.request_count,
        }
        return CycleReport(
            counts, {"ask_s": lasted_s}, tuple(f"left out {n} x {code}" for code, n in dropped_rows.items())
        )


class _Requester:
    """Requests datasets and writes the answers, batch by batch."""

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
        """Request all due datasets; return whether to look for more."""
        batch: list[tuple[Did, DatasetUpdate | RucioUnavailable]] = []
        answer_count = 0

        def request(did: Did) -> DatasetUpdate:
            return ask(self._rucio, did, _known(due[did]), self._tape, self._questions)

        for did, answer in ask_side_by_side(self._context, due, request, self._options.requests_in_flight):
            batch.append((did, answer))
            answer_count += 1
            if len(batch) >= self._options.batch:
                self._write(batch, due)
                batch = []
        self._write(batch, due)
        return answer_count == len(due) and not self._tally.alarm

    def _write(
        self, batch: Sequence[tuple[Did, DatasetUpdate | RucioUnavailable]], due: dict[Did, Request | None]
    ) -> None:
        context, tally = self._context, self._tally
        if not batch:
            return
        context.check()
        tally.alarm = tally.alarm or self._shrunk(batch, due)
        if tally.alarm:
            return
        fault_points.reach("before_write")
        with context.writing() as connection:
            unchanged: list[RequestRecord] = []
            for did, answer in batch:
                before = due[did]
                if isinstance(answer, RucioUnavailable):
                    tally.no_answer += 1
                    tally.last_failure = answer.what
                    failed = schedule.after_failure(did, _record_of(before), context.now, self._options.pace)
                    replica_requests.write_failure(connection, failed)
                elif answer.answer is None and before is not None:
                    tally.existing += 1
                    tally.unchanged += 1
                    digest = before.record.digest or ""
                    unchanged.append(schedule.after_answer(did, before.record, digest, context.now, self._options.pace))
                elif answer.answer is not None:
                    digest = answer.answer.digest()
                    changed = before is None or before.record.digest != digest
                    self._count(answer.answer, changed)
                    record = schedule.after_answer(did, _record_of(before), digest, context.now, self._options.pace)
                    replica_requests.write_answer(
                        connection, answer.answer, record, answer.replicas_digest, context.now, changed=changed
                    )
            replica_requests.write_unchanged(connection, unchanged, context.now)
            fault_points.reach("after_write_before_commit")

    def _count(self, answer: DatasetReply, changed: bool) -> None:
        self._tally.existing += answer.outcome == FOUND
        self._tally.missing += answer.outcome != FOUND
        self._tally.changed += changed and answer.outcome == FOUND
        self._tally.unchanged += not changed
        self._tally.dropped_rows += answer.dropped_rows

    def _shrunk(
        self, batch: Sequence[tuple[Did, DatasetUpdate | RucioUnavailable]], due: dict[Did, Request | None]
    ) -> str:
        """Return why the answers of a batch are implausible; empty if they are not."""
        answers = [
            result.answer
            for did, result in batch
            if isinstance(result, DatasetUpdate) and (before := due[did]) is not None and _had_replicas(before)
        ]
        lost = sum(answer is not None and not (answer.replicas or answer.contents) for answer in answers)
        if len(answers) < _FEWEST_GUARDED or lost <= self._options.max_shrink * len(answers):
            return ""
        return f"shrunk: {lost} of {len(answers)} datasets have lost all replicas at once"


def _had_replicas(request: Request) -> bool:
    return request.outcome == FOUND and request.replicas_digest not in (None, digest_of([]))


def _known(request: Request | None) -> LastReply:
    return LastReply() if request is None else LastReply(request.replicas_digest, request.settled)


def _record_of(request: Request | None) -> RequestRecord | None:
    return None if request is None else request.record
