"""Outputs from the outbox into Rucio: a dataset with its rule, its files in batches, and its close.

Nothing is written here while Rucio is asked, and what Rucio was told is marked afterwards: a crash in between has the
same told again, which changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from agents.service import fault_points
from agents.service.base import CycleContext
from broker.feeds.model.rucio.client import RucioUnavailable
from broker.feeds.model.rucio.writing import CLOSED, MISMATCH, NOT_VALID, RucioRefused, RucioWriter, Rule
from broker.tasks.model.output_registration import OutputFile, Problem, as_told, difference, pause, unusable
from broker.tasks.statements import rucio_outputs
from broker.tasks.statements.rucio_outputs import Work

Outcomes = list[tuple[OutputFile, Problem | None]]
RuleOf = Callable[[Work, str], Rule | None]
"""The rule of a dataset whose first file is at an endpoint."""
USE_OF_BUDGET = 0.7
"""Part of the cycle's time after which nothing more is begun."""


@dataclass(frozen=True)
class Terms:
    """How much is told at once, and how long is waited after a failure.

    Attributes:
        files_of_a_batch: files of one call.
        files_of_a_cycle: files of all calls of a cycle.
        first_pause_s: after the first failure; doubled with each further one ...
        longest_pause_s: ... up to this.
    """

    files_of_a_batch: int
    files_of_a_cycle: int
    first_pause_s: float
    longest_pause_s: float


class OutputRegistering:
    """One cycle's work with one Rucio.

    Attributes:
        counts: what was done.
        notes: what operators should know.
    """

    def __init__(self, context: CycleContext, rucio: RucioWriter, terms: Terms, rule_of: RuleOf) -> None:
        """Nothing was told yet."""
        self._context, self._rucio, self._terms, self._rule_of = context, rucio, terms, rule_of
        self._names = context.database.names
        self._left = terms.files_of_a_cycle
        self.counts: Counter[str] = Counter(registered=0, refused=0, made=0, closed=0, postponed=0)
        self.notes: list[str] = []

    def run(self, works: Sequence[Work]) -> None:
        """Work on datasets in turn; when Rucio gives no answer, all that are left wait."""
        for number, work in enumerate(works):
            self._context.check()
            if self._left <= 0 or self._context.left_s < (1 - USE_OF_BUDGET) * self._context.budget_s:
                self.notes.append(f"{len(works) - number} datasets are left to the next cycle")
                return
            try:
                self._one(work)
            except RucioUnavailable as error:
                self._postpone(works[number:], Problem("unavailable", f"Rucio gives no answer: {error.what}"))
                return
            except RucioRefused as error:
                self._postpone([work], Problem(error.kind, f"{':'.join(work.did)}: {error.what}"))

    def _one(self, work: Work) -> None:
        with self._context.database.read_snapshot() as connection:
            files = rucio_outputs.read_queued(connection, work, self._left)
        self._left -= len(files)
        if work.state == "template":
            self._mark(work, [(file, Problem("site_unknown", f"job {file.pandaid} is not known")) for file in files])
            return
        if work.state in ("closed", "empty") and work.has_ended and not work.ended_again:
            what = f"{':'.join(work.did)} is closed: its task had ended before the report came"
            self._mark(work, [(file, Problem("after_close", what)) for file in files])
            return
        usable = self._without_unusable(work, files)
        if usable:
            self._prepare(work, usable[0])
            self._register(work, usable)
        if work.has_ended:
            self._close(work)
        elif work.failures:
            self._write(lambda connection: rucio_outputs.settle(connection, work, self._context.now))

    def _without_unusable(self, work: Work, files: Sequence[OutputFile]) -> list[OutputFile]:
        """The files that can be registered at Rucio, each name once."""
        usable: dict[tuple[str, str], OutputFile] = {}
        refused: Outcomes = []
        for file in files:
            problem = unusable(file)
            if problem is None and file.did in usable:
                writer = usable[file.did].pandaid
                problem = Problem("name_twice", f"jobs {writer} and {file.pandaid} both wrote {':'.join(file.did)}")
            if problem is None:
                usable[file.did] = file
            else:
                refused.append((file, problem))
        self._mark(work, refused)
        return list(usable.values())

    def _prepare(self, work: Work, first: OutputFile) -> None:
        """Have the dataset ready for files: made with its rule, in its container, or opened again."""
        if work.state in ("planned", "empty"):
            self._rucio.add_dataset(work.did, self._rule_of(work, first.rse or ""))
            fault_points.reach("after_rucio_dataset")
            if work.container is not None:
                self._rucio.add_to_container(work.container, work.did)
            self.counts["made"] += 1
        elif work.state == "closed":
            # its task was started again
            self._rucio.set_open(work.did, True)
        else:
            return
        self._write(lambda connection: rucio_outputs.set_state(connection, work, "open", self._context.now))

    def _register(self, work: Work, files: Sequence[OutputFile]) -> None:
        """Tell of all files, endpoint by endpoint; one that is refused keeps no other back."""
        refused: RucioRefused | None = None
        for rse, batch in self._batches(files):
            self._context.check()
            fault_points.reach("before_rucio_files")
            try:
                outcomes = self._tell(work, rse, batch)
            except RucioRefused as error:
                refused = error
                continue
            fault_points.reach("after_rucio_files")
            self._mark(work, outcomes)
        if refused is not None:
            raise refused

    def _batches(self, files: Sequence[OutputFile]) -> Iterator[tuple[str, list[OutputFile]]]:
        by_rse: dict[str, list[OutputFile]] = {}
        for file in files:
            by_rse.setdefault(file.rse or "", []).append(file)
        size = self._terms.files_of_a_batch
        for rse, some in by_rse.items():
            for start in range(0, len(some), size):
                yield rse, some[start : start + size]

    def _tell(self, work: Work, rse: str, files: Sequence[OutputFile]) -> Outcomes:
        """Tell of files at one endpoint; those that Rucio has otherwise are found, and do not keep the rest back."""
        try:
            self._rucio.add_files(work.did, rse, [as_told(file) for file in files])
        except RucioRefused as error:
            if error.kind == CLOSED:
                return self._closed_meanwhile(work, files)
            if error.kind == MISMATCH:
                differing = [(file, found) for file, found in self._compared(files) if found is not None]
                if differing:
                    known = {file.fileid for file, _ in differing}
                    rest = [file for file in files if file.fileid not in known]
                    return differing + (self._tell(work, rse, rest) if rest else [])
            if error.kind not in (MISMATCH, NOT_VALID):
                raise
            if len(files) == 1:
                return [(files[0], Problem("refused_by_rucio", error.what[:300]))]
            middle = len(files) // 2
            return self._tell(work, rse, files[:middle]) + self._tell(work, rse, files[middle:])
        return self._compared(files)

    def _compared(self, files: Sequence[OutputFile]) -> Outcomes:
        """The files with what Rucio has of them: it takes another guid without a word."""
        found = self._rucio.about_files([file.did for file in files])
        return [(file, difference(file, found.get(file.did, {}))) for file in files]

    def _closed_meanwhile(self, work: Work, files: Sequence[OutputFile]) -> Outcomes:
        """Somebody else has closed the dataset: what is in it is registered, the rest is refused."""
        if self._rucio.state_of(work.did).is_open:
            raise RucioRefused(CLOSED, f"{':'.join(work.did)} takes no files, though it is open")
        there = {(row["scope"], row["name"]): row for row in self._rucio.files_of(work.did)}
        closed = Problem("dataset_closed", f"{':'.join(work.did)} was closed at Rucio, and not by this installation")
        return [(file, difference(file, there[file.did]) if file.did in there else closed) for file in files]

    def _close(self, work: Work) -> None:
        """Close a dataset whose task has ended, if Rucio has what the jobs have reported."""
        now, name = self._context.now, ":".join(work.did)
        # a file that was written while its dataset was being taken on
        self._write(lambda connection: rucio_outputs.queue_files(connection, self._names, work.key[:2], now))
        with self._context.database.read_snapshot() as connection:
            sums = rucio_outputs.read_sums(connection, work)
        if sums.queued:
            return
        if sums.refused:
            what = f"{name} stays open: {sums.refused} files were refused; see broker outputs"
            self._postpone([work], Problem("files_refused", what))
            return
        if not sums.registered and work.state == "planned":
            self._write(lambda connection: rucio_outputs.set_state(connection, work, "empty", now, 0, 0))
            return
        state = self._rucio.state_of(work.did)
        if (state.files, state.bytes) != (sums.registered, sums.bytes):
            reported = f"jobs reported {sums.registered} of {sums.bytes} bytes"
            what = f"{name} stays open: {state.files} files of {state.bytes} bytes are at Rucio, {reported}"
            self._postpone([work], Problem("counts_differ", what))
            return
        self._rucio.set_open(work.did, False)
        fault_points.reach("after_rucio_close")
        figures = (sums.registered, sums.bytes)
        self._write(lambda connection: rucio_outputs.set_state(connection, work, "closed", now, *figures))
        self.counts["closed"] += 1
        self._emit(work, closed=sums.registered)

    def _mark(self, work: Work, outcomes: Outcomes) -> None:
        if not outcomes:
            return
        with self._context.writing() as connection:
            rucio_outputs.mark_files(connection, work, outcomes, self._context.now)
            fault_points.reach("after_write_before_commit")
        fault_points.reach("after_commit")
        refused = [found for _, found in outcomes if found is not None]
        self.counts.update(registered=len(outcomes) - len(refused), refused=len(refused))
        if refused:
            self.notes.append(f"{len(refused)} files of {':'.join(work.did)} were refused: {refused[0].what}")
        self._emit(work, registered=len(outcomes) - len(refused), refused=len(refused))

    def _postpone(self, works: Sequence[Work], problem: Problem) -> None:
        self.notes.append(problem.what + (f"; {len(works)} datasets wait" if len(works) > 1 else ""))
        with self._context.writing() as connection:
            for work in works:
                wait = pause(work.failures + 1, self._terms.first_pause_s, self._terms.longest_pause_s)
                rucio_outputs.postpone(connection, work, problem, self._context.now + wait)
                self.counts["postponed"] += 1

    def _write(self, write: Callable[[sa.Connection], object]) -> None:
        with self._context.writing() as connection:
            write(connection)

    def _emit(self, work: Work, **counts: int) -> None:
        if self._context.request.emit is not None:
            self._context.request.emit({"jeditaskid": work.key[0], "dataset": ":".join(work.did), **counts})
