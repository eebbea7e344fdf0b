"""Registers outputs from the outbox in Rucio: creates a dataset with its rule, adds its files in batches, closes it.

Nothing is written here during a call to Rucio; what Rucio accepted is marked afterwards. After a crash in between, the
same call is repeated, which changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from agents.service import fault_points
from agents.service.base import CycleContext
from broker.feeds.model.rucio.questions import RucioUnavailable
from broker.feeds.model.rucio.writing import CLOSED, MISMATCH, NOT_VALID, RucioRefused, RucioWriter, Rule
from broker.tasks.model.output_registration import OutputFile, Problem, difference, pause, registration_of, unusable
from broker.tasks.statements import rucio_outputs
from broker.tasks.statements.rucio_outputs import Work

Outcomes = list[tuple[OutputFile, Problem | None]]
RuleOf = Callable[[Work, str], Rule | None]
"""The rule of a dataset whose first file is at an endpoint."""
USE_OF_BUDGET = 0.7
"""Part of the cycle's time after which no more work is started."""


@dataclass(frozen=True)
class Terms:
    """How much is registered at once, and how long to wait after a failure.

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
        """Start with nothing registered."""
        self._context, self._rucio, self._terms, self._rule_of = context, rucio, terms, rule_of
        self._names = context.database.names
        self._left = terms.files_of_a_cycle
        self.counts: Counter[str] = Counter(registered=0, refused=0, made=0, closed=0, postponed=0)
        self.notes: list[str] = []

    def run(self, works: Sequence[Work]) -> None:
        """Process datasets in turn; when Rucio does not answer, all that are left are postponed."""
        for number, work in enumerate(works):
            self._context.check()
            if self._left <= 0 or self._context.left_s < (1 - USE_OF_BUDGET) * self._context.budget_s:
                self.notes.append(f"{len(works) - number} datasets are left to the next cycle")
                return
            try:
                self._process(work)
            except RucioUnavailable as error:
                self._postpone(works[number:], Problem("unavailable", f"Rucio gives no answer: {error.what}"))
                return
            except RucioRefused as error:
                self._postpone([work], Problem(error.kind, f"{':'.join(work.did)}: {error.what}"))

    def _process(self, work: Work) -> None:
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
        """Make the dataset ready for files: create it with its rule and in its container, or reopen it."""
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
        """Register all files, endpoint by endpoint; a refused batch does not hold back the others."""
        refused: RucioRefused | None = None
        for rse, batch in self._batches(files):
            self._context.check()
            fault_points.reach("before_rucio_files")
            try:
                outcomes = self._add_files(work, rse, batch)
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
        for rse, group in by_rse.items():
            for start in range(0, len(group), size):
                yield rse, group[start : start + size]

    def _add_files(self, work: Work, rse: str, files: Sequence[OutputFile]) -> Outcomes:
        """Add files at one endpoint; those that differ at Rucio are singled out, and do not hold back the rest."""
        try:
            self._rucio.add_files(work.did, rse, [registration_of(file) for file in files])
        except RucioRefused as error:
            if error.kind == CLOSED:
                return self._closed_meanwhile(work, files)
            if error.kind == MISMATCH:
                differing = [(file, problem) for file, problem in self._compared(files) if problem is not None]
                if differing:
                    differing_ids = {file.fileid for file, _ in differing}
                    rest = [file for file in files if file.fileid not in differing_ids]
                    return differing + (self._add_files(work, rse, rest) if rest else [])
            if error.kind not in (MISMATCH, NOT_VALID):
                raise
            if len(files) == 1:
                return [(files[0], Problem("refused_by_rucio", error.what[:300]))]
            middle = len(files) // 2
            return self._add_files(work, rse, files[:middle]) + self._add_files(work, rse, files[middle:])
        return self._compared(files)

    def _compared(self, files: Sequence[OutputFile]) -> Outcomes:
        """Compare the files with what Rucio has: it silently accepts another guid."""
        metadata = self._rucio.about_files([file.did for file in files])
        return [(file, difference(file, metadata.get(file.did, {}))) for file in files]

    def _closed_meanwhile(self, work: Work, files: Sequence[OutputFile]) -> Outcomes:
        """Handle a dataset that somebody else has closed: files in it count as registered, the rest are refused."""
        if self._rucio.state_of(work.did).is_open:
            raise RucioRefused(CLOSED, f"{':'.join(work.did)} takes no files, though it is open")
        present = {(row["scope"], row["name"]): row for row in self._rucio.files_of(work.did)}
        closed = Problem("dataset_closed", f"{':'.join(work.did)} was closed at Rucio, and not by this installation")
        return [(file, difference(file, present[file.did]) if file.did in present else closed) for file in files]

    def _close(self, work: Work) -> None:
        """Close a dataset whose task has ended, if Rucio has what the jobs have reported."""
        now, name = self._context.now, ":".join(work.did)
        # files that were written while their dataset was being taken on
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
        refused = [problem for _, problem in outcomes if problem is not None]
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
