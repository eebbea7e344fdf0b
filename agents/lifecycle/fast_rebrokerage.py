"""The agent that takes waiting jobs back from queues that have far more of them than they run, or where jobs fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from pydantic import Field

from agents.lifecycle import ending_options as job_moving
from agents.lifecycle.ending_options import EndingOptions, MoveOutcome
from agents.lifecycle.rebrokerage import Findings, RebrokerageAgent
from agents.service.base import CycleContext
from broker.gdpconfig.publish import Published
from broker.gdpconfig.tuning import Tuning
from broker.lifecycle.model.failing_places import RULE as FAILING_PLACES, TAKE_BACK, FailingPlaces, Why, failing_places
from broker.lifecycle.model.fast_rebrokerage import RULE, SLOTS, UNKNOWN_QUEUE, FastVerdict, check_shares
from broker.lifecycle.model.jobs import FAST_REBROKERAGE, Queue, WaitingJob
from broker.lifecycle.model.limits import FRACTION, RATIO, THRESHOLD, fast_limits
from broker.lifecycle.statements import failing_reads, rebrokerage_reads
from broker.lifecycle.statements.actions import JobAction
from broker.store.connection.tables import TableCatalogue

MAX_MOVES = "FAST_REBRO_MAX_MOVES"


@dataclass(frozen=True)
class FailingPicks:
    """The jobs that are taken back, in order, each with the rule that keeps new ones away.

    Attributes:
        jobs: those taken back, each with its rule.
        places: where jobs fail.
        moved_often: number of jobs left alone because their input was moved too often.
        note: a remark for operators, empty for none.
    """

    jobs: tuple[tuple[WaitingJob, Why], ...] = ()
    places: FailingPlaces = field(default_factory=lambda: FailingPlaces({}, {}))
    moved_often: int = 0
    note: str = ""

    def moves(self) -> list[JobAction]:
        """The actions on the jobs, with the figures of the places where they wait."""
        return [
            JobAction(
                job.pandaid, job.table, job.jobstatus, job.modificationtime, job.queue, job.jeditaskid, FAILING_PLACES,
                "reassigned", FAST_REBROKERAGE, detail={"reason": why, **self._figures(job, why)},
            )
            for job, why in self.jobs
        ]  # fmt: skip

    def _figures(self, job: WaitingJob, why: Why) -> Mapping[str, Any]:
        if why == "task_fails_here":
            failures = self.places.tasks[job.jeditaskid or 0][job.queue]
            return {"failed_jobs": failures.failed, "ended_jobs": failures.ended}
        states = [health for (queue, _), health in self.places.closed.items() if queue == job.queue]
        worst = max(states, key=lambda health: health.statistic)
        return {"failed_jobs": worst.failed_jobs, "ended_jobs": worst.ended_jobs, "failed_tasks": worst.failed_tasks}

    def messages(self, moved: MoveOutcome, *, dry_run: bool) -> list[dict[str, Any]]:
        """One object for each queue and rule."""
        counts = Counter((job.queue, why) for job, why in self.jobs)
        picked = {key: [job.pandaid for job, why in self.jobs if (job.queue, why) == key] for key in counts}
        return [
            {
                "queue": queue, "reason": why, "picked": picked[queue, why], "dry_run": dry_run,
                "moved": moved.counts_of(picked[queue, why])[0], "skipped": moved.counts_of(picked[queue, why])[1],
            }
            for queue, why in sorted(counts)
        ]  # fmt: skip


def look_at_failing(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    context: CycleContext,
    published: Published,
    queues: Mapping[str, Queue],
    exempt: Collection[str],
) -> FailingPicks:
    """The jobs that wait where jobs fail; none unless LEARNED_TAKE_BACK is on.

    Args:
        connection: a read-only transaction.
        catalogue: the tables of the database.
        context: the context of the cycle.
        published: the values in force; those of the installation's own VO count.
        queues: the queues on record.
        exempt: queues that are left alone.
    """
    tuning = published.tuning(published.catalogue.vo)
    if not tuning.flag(TAKE_BACK):
        return FailingPicks()
    if not failing_reads.is_known(connection, context.now):
        return FailingPicks(note="how jobs end is not known: agent outcomes has not run recently")
    online = sorted(name for name, queue in queues.items() if queue.status == "online")
    places = failing_places(
        failing_reads.read_closed(connection),
        failing_reads.read_failing_tasks(connection),
        online,
        context.now.timestamp(),
        tuning,
    )
    queue_names = [queue for queue in places.queues if queue in queues and queue not in exempt]
    waiting = failing_reads.read_waiting(connection, catalogue, queue_names) if queue_names else []
    candidates = {
        entry.job.pandaid: (entry.job, why)
        for entry in waiting
        if (why := places.why(entry.job.queue, entry.prodsourcelabel, entry.job.jeditaskid)) is not None
        and (context.request.task_ids is None or entry.job.jeditaskid in context.request.task_ids)
    }
    most_moves = int(tuning.number(MAX_MOVES))
    often = rebrokerage_reads.moved_often(
        connection, catalogue, list(candidates), most_moves, context.now, FAILING_PLACES
    )
    free = [job for job, _ in candidates.values() if job.pandaid not in often]
    order = job_moving.least_loss_first(connection, free, context.now) if free else []
    return FailingPicks(tuple(candidates[pandaid] for pandaid in order), places, len(often))


@dataclass(frozen=True)
class _Picks:
    """A share at a queue, the jobs picked there in order, and how many were left out as moved too often."""

    verdict: FastVerdict
    jobs: tuple[WaitingJob, ...] = ()
    moved_often: int = 0


@dataclass(frozen=True)
class _FastFindings(Findings):
    """The jobs picked from each share at each queue and where jobs fail, and the tuning that decided it."""

    picks: list[_Picks]
    tuning: Tuning
    failing: FailingPicks

    def moves(self) -> list[JobAction]:
        """The jobs that wait where jobs fail, then those of the shares that have a threshold of their own."""
        first = self.failing.moves()
        gone = {move.pandaid for move in first}
        own = [_move(job, pick.verdict) for pick in self.picks if pick.verdict.triggers for job in pick.jobs]
        return [*first, *(move for move in own if move.pandaid not in gone)]

    def output(self, moved: MoveOutcome, *, writes: bool) -> Iterator[dict[str, Any]]:
        """One object for each queue where jobs fail, and one for each queue and share."""
        yield from self.failing.messages(moved, dry_run=not writes)
        yield from (_message(pick, self.tuning, moved, writes=writes) for pick in self.picks)

    def counts(self, moves: Sequence[JobAction], moved: MoveOutcome) -> Mapping[str, int]:
        """The numbers of queues, of shares at queues, and of jobs."""
        overloaded = [pick for pick in self.picks if pick.verdict.excess > 0]
        return {
            "queues": len({pick.verdict.load.queue for pick in self.picks}),
            "shares_at_queues": len(self.picks),
            "overloaded": len(overloaded),
            "only_reported": sum(not pick.verdict.triggers for pick in overloaded),
            "moved_often": sum(pick.moved_often for pick in overloaded),
            "where_jobs_fail": len(self.failing.jobs),
            "picked": len(moves),
            "moved": len(moved.acted),
            "skipped": len(moved.skipped),
        }


class FastRebrokerageOptions(EndingOptions):
    """Options of the agent.

    Attributes:
        settle_s: seconds for which a share whose jobs were taken back is left alone, until they wait somewhere again.
    """

    settle_s: float = Field(default=1800.0, ge=0, le=86_400)


class FastRebrokerageAgent(RebrokerageAgent[FastRebrokerageOptions]):
    """Closes the excess of waiting jobs of a share at a queue, so that their input is brokered again."""

    name = "fast_rebrokerage"
    title = (
        "fast rebrokerage: waiting jobs are taken back from queues with far more of them than they run, or that fail"
    )
    options_type = FastRebrokerageOptions

    def look(self, connection: sa.Connection, context: CycleContext, published: Published) -> _FastFindings:
        """Check every queue and share once; the excess is taken back where the share has a threshold."""
        tuning = published.tuning(None)
        catalogue, inputs = self.inputs_of(connection, context, tuning)
        queues = {name: queue for name, queue in inputs.timeout_context.queues.items() if queue.known}
        loads = rebrokerage_reads.read_loads(connection, catalogue, self.process.job_statistics)
        unknown = {load.queue for load in loads} - set(queues)
        exempt = dict.fromkeys(unknown, UNKNOWN_QUEUE)
        exempt |= {name: queue.exceptions[0] for name, queue in queues.items() if queue.exceptions}
        exempt |= dict.fromkeys(rebrokerage_reads.read_slots(connection, catalogue, context.now), SLOTS)
        context.check()
        settling = rebrokerage_reads.settling_shares(connection, context.now, self.options.settle_s)
        limits = fast_limits(tuning, {load.gshare for load in loads if load.gshare is not None})
        verdicts = check_shares(loads, limits, exempt, settling)
        picks = self._pick(connection, catalogue, context, verdicts, int(tuning.number(MAX_MOVES)))
        not_moved = {name for name, why in exempt.items() if why != SLOTS}
        failing = look_at_failing(connection, catalogue, context, published, queues, not_moved)
        notes = inputs.notes_on(("queues",))
        notes += [failing.note] if failing.note else []
        if unknown:
            notes.append(f"jobs at {len(unknown)} queues that are not on record were left alone, but counted")
        return _FastFindings(notes, catalogue, picks, tuning, failing)

    def _pick(
        self,
        connection: sa.Connection,
        catalogue: TableCatalogue,
        context: CycleContext,
        verdicts: Sequence[FastVerdict],
        most_moves: int,
    ) -> list[_Picks]:
        """Pick the jobs to take back from each overloaded queue: those that lose least.

        Where nothing will be moved, jobs are picked only if they are reported.
        """
        output = context.request.emit is not None
        overloaded = [
            (one.load.queue, one.load.gshare) for one in verdicts if one.excess > 0 and (one.triggers or output)
        ]
        jobs = rebrokerage_reads.read_waiting_of_shares(connection, catalogue, overloaded) if overloaded else []
        if context.request.task_ids is not None:
            jobs = [job for job in jobs if job.jeditaskid in context.request.task_ids]
        context.check()
        often = rebrokerage_reads.moved_often(connection, catalogue, [j.pandaid for j in jobs], most_moves, context.now)
        jobs_by_share: dict[tuple[str, str | None], list[WaitingJob]] = {}
        for job in jobs:
            jobs_by_share.setdefault((job.queue, job.gshare), []).append(job)
        picks = []
        for verdict in verdicts:
            waiting = jobs_by_share.get((verdict.load.queue, verdict.load.gshare), []) if verdict.excess > 0 else []
            free = {job.pandaid: job for job in waiting if job.pandaid not in often}
            order = job_moving.least_loss_first(connection, list(free.values()), context.now) if free else []
            chosen = tuple(free[pandaid] for pandaid in order[: verdict.excess])
            picks.append(_Picks(verdict, chosen, len(waiting) - len(free)))
        return picks


def _move(job: WaitingJob, verdict: FastVerdict) -> JobAction:
    detail = {
        "gshare": verdict.load.gshare,
        "nqueue": verdict.load.nqueue,
        "nrunning": verdict.load.nrunning,
        "nqueue_total": verdict.nqueue_total,
        "threshold": verdict.threshold,
        "excess": verdict.excess,
    }
    return JobAction(
        job.pandaid, job.table, job.jobstatus, job.modificationtime, job.queue, job.jeditaskid, RULE,
        "reassigned", FAST_REBROKERAGE, detail=detail,
    )  # fmt: skip


def _message(picks: _Picks, tuning: Tuning, moved: MoveOutcome, *, writes: bool) -> dict[str, object]:
    verdict, load = picks.verdict, picks.verdict.load
    picked = [job.pandaid for job in picks.jobs]
    acted, skipped = moved.counts_of(picked)
    return {
        "queue": load.queue,
        "gshare": load.gshare,
        "nqueue": load.nqueue,
        "nrunning": load.nrunning,
        "nqueue_total": verdict.nqueue_total,
        "limits": {
            "ratio": tuning.number(RATIO),
            "fraction": tuning.number(FRACTION),
            "threshold": verdict.threshold,
            "moves": int(tuning.number(MAX_MOVES)),
        },
        "keys": [RATIO, FRACTION, f"{THRESHOLD}_{load.gshare}" if verdict.triggers else None, MAX_MOVES],
        "over_ratio": verdict.over_ratio,
        "over_threshold": verdict.over_threshold,
        "over_fraction": verdict.over_fraction,
        "exempt": verdict.exempt,
        "excess": verdict.excess,
        "picked": picked,
        "moved_often": picks.moved_often,
        "dry_run": not (writes and verdict.triggers),
        "moved": acted,
        "skipped": skipped,
    }
