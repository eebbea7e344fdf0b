"""The answer of shadow mode: how far our decisions agree with what JEDI really did, and the gate's verdict."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from broker.alongside.model.gate_file import GateFile
from broker.store.query_context import Answer

Side = Literal["panda_only", "ours_only"]
Placer = Literal["plugin", "agent"]
Placed = Literal["panda", "ours", "panda_only", "ours_only"]


class Interval(Answer):
    """Where a share lies, with the confidence of the answer; both ends between 0 and 1."""

    low: float
    high: float


class AgreementLine(Answer):
    """Agreement for one brokerage, of it for one label or one share, or of it in one hour.

    What ours placed itself is in none of the numbers.

    Attributes:
        brokerage: of ours.
        label: prodsourcelabel; None for all.
        share: the global share; None for all.
        hour: start of the hour; None for all.
        jobs: that PanDA placed (tasks at a nucleus: 1 each).
        compared_jobs: of them, those for whose chunk ours had a decision that was young enough.
        agreed_jobs: of those, the ones at a candidate of ours.
        chunks: chunks or tasks of compared jobs, and of waits that were compared.
        agreed_chunks: of them, those where nothing differs.
        tasks: tasks of compared jobs and waits.
        witnesses: as how many tasks of equal size those of the compared jobs count.
        job_interval: of agreed jobs among the compared ones; None without any.
        chunk_interval: of agreed chunks; None without any.
        waits: times that PanDA let a task wait and ours had a decision.
        agreed_waits: of them, those where ours found nothing either.
        same_place: how much of the jobs ours, drawing by weight, would have put at the same queues: between 0 and 1;
            None where ours brokered nothing.
    """

    brokerage: str
    label: str | None
    share: str | None
    hour: datetime | None
    jobs: int
    compared_jobs: int
    agreed_jobs: int
    chunks: int
    agreed_chunks: int
    tasks: int
    witnesses: float
    job_interval: Interval | None
    chunk_interval: Interval | None
    waits: int
    agreed_waits: int
    same_place: float | None

    @property
    def job_agreement(self) -> float | None:
        """Agreed jobs of those that were compared, between 0 and 1; None without any."""
        return self.agreed_jobs / self.compared_jobs if self.compared_jobs else None


class DisagreementLine(Answer):
    """Disagreements by the rule that made them.

    Attributes:
        brokerage: of ours.
        side: ``panda_only``: PanDA placed jobs at a queue that ours refused; ``ours_only``: PanDA let a task wait that
            ours brokered.
        code: the reason code of ours that refused the queue, or for which the chunk waited; of ``ours_only`` PanDA's
            criterion as its dialog has it.
        jobs: placed by PanDA; 0 for waits.
        waits: times that PanDA let a task wait; 0 for jobs.
        chunks: chunks or tasks.
        tasks: tasks.
        queues: queues, those with the most jobs first; at most ten.
        such_as: some of the tasks.
    """

    brokerage: str
    side: Side
    code: str
    jobs: int
    waits: int
    chunks: int
    tasks: int
    queues: tuple[str, ...]
    such_as: tuple[int, ...]


class QueueComparison(Answer):
    """What a queue (or nucleus) got from PanDA, and would have got from ours.

    Attributes:
        brokerage: of ours.
        queue: unified queue, or nucleus.
        panda_jobs: compared jobs that PanDA placed there.
        our_jobs: of all compared jobs, those that ours would have drawn this queue for, by weight.
        agreed_jobs: of PanDA's jobs, those for which it is a candidate of ours.
        by_chance: jobs by which drawing alone is off here, in 95 % of the draws at most.
        main_code: the rule that refused most of the others; None without any.
    """

    brokerage: str
    queue: str
    panda_jobs: int
    our_jobs: float
    agreed_jobs: int
    by_chance: float
    main_code: str | None


class Uncompared(Answer):
    """Jobs and waits that could not be compared: ``no_decision``, ``too_old`` or ``no_dataset``."""

    brokerage: str
    reason: str
    jobs: int
    waits: int


class PlacedByOurs(Answer):
    """What the plug-in or an agent of ours placed, or let wait: it is compared with nothing.

    Attributes:
        brokerage: of ours.
        by: ``plugin``: JEDI's plug-in decided about the chunk or task at that time; ``agent``: an agent wrote it.
        jobs: jobs, or tasks at a nucleus.
        waits: times that a task waits.
        tasks: tasks of both.
    """

    brokerage: str
    by: Placer
    jobs: int
    waits: int
    tasks: int


class DecidedBy(Answer):
    """What decided: jobs and waits that were compared with decisions of one profile, version and tuning.

    Attributes:
        brokerage: of ours.
        profile: of rules; None where that is not on record: decided by the plug-in, or by a release before this.
        engine: version of the broker.
        tuning: version of the gdpconfig values.
        jobs: compared.
        waits: compared.
        first_at: when the first of the decisions was made.
        last_at: when the last was.
    """

    brokerage: str
    profile: str | None
    engine: str
    tuning: int
    jobs: int
    waits: int
    first_at: datetime
    last_at: datetime


class ByChance(Answer):
    """What "same place" would be if both sides drew by the very same weights: those in force for the compared jobs.

    PanDA keeps no weights in its tables. Where ours decides as PanDA (profile ``panda``), these are PanDA's own.

    Attributes:
        brokerage: of ours.
        label: prodsourcelabel; None for all.
        jobs: compared ones that ours brokered.
        same_place: mean of it over the draws, between 0 and 1.
        interval: in 95 % of the draws it is within.
        drawn_twice: mean part of the jobs that two draws put at the same places.
        draws: how often all was drawn.
    """

    brokerage: str
    label: str | None
    jobs: int
    same_place: float
    interval: Interval
    drawn_twice: float
    draws: int


class Consequence(Answer):
    """What it means where jobs go, by what is on record of the queues in the time that is looked at.

    Both sides are measured alike, by the records of the queues: no job is measured twice. What is not known is counted.

    Attributes:
        brokerage: of ours.
        placed: by ``panda``, or as ``ours`` would have drawn; ``panda_only`` and ``ours_only``: of these the jobs at
            queues at which the other side has none.
        queues: how many.
        jobs: of the compared ones.
        wan_bytes: input that is not on disk next to the queue; None where the place of no input is known.
        wan_unknown_jobs: jobs whose input is not in the replica catalogue.
        waiting_s: median time from being made to the start at the queue, mean over the jobs.
        failure_rate: failed among failed and finished jobs of the queue, mean over the jobs, between 0 and 1.
        core_hours: cores times hours of a job at the queue, summed over the jobs.
        no_record_jobs: jobs at queues where nothing started or ended in this time; in none of the last three figures.
    """

    brokerage: str
    placed: Placed
    queues: int
    jobs: float
    wan_bytes: float | None
    wan_unknown_jobs: float
    waiting_s: float | None
    failure_rate: float | None
    core_hours: float | None
    no_record_jobs: float


class ShareConsequence(Answer):
    """What a global share gets of the compared jobs on either side: ours lets chunks wait that PanDA does not.

    Attributes:
        brokerage: of ours.
        share: the global share.
        panda_jobs: compared jobs that PanDA placed.
        our_jobs: of them, those whose chunks ours brokers.
        panda_part: of all compared jobs of PanDA's, between 0 and 1.
        our_part: of all those that ours brokers; None where ours brokers nothing.
    """

    brokerage: str
    share: str
    panda_jobs: int
    our_jobs: float
    panda_part: float
    our_part: float | None


class Shadow(Answer):
    """Our decisions beside what JEDI did, from ``since`` to ``until``.

    Attributes:
        confidence: of all intervals, which are Wilson's for as many witnesses as there are tasks.
        brokerages: one line each.
        labels: one line for each label of each.
        shares: one line for each share of each.
        hours: one line for each hour of each, in the order of time.
        rules: disagreements, most jobs first.
        queues: by brokerage, those with the most jobs of PanDA's first.
        uncompared: what was dropped, and why.
        placed_by_ours: what ours placed itself, which is left out of all other numbers.
        decided_by: profile, version and tuning of the decisions.
        by_chance: what drawing alone gives, for each brokerage and for each label of it.
        consequences: of where either side places jobs.
        share_consequences: what shares get on either side.
        notes: what makes these numbers say less than they seem to.
    """

    since: datetime
    until: datetime
    max_age_s: float
    confidence: float
    brokerages: tuple[AgreementLine, ...]
    labels: tuple[AgreementLine, ...]
    shares: tuple[AgreementLine, ...]
    hours: tuple[AgreementLine, ...]
    rules: tuple[DisagreementLine, ...]
    queues: tuple[QueueComparison, ...]
    uncompared: tuple[Uncompared, ...]
    placed_by_ours: tuple[PlacedByOurs, ...]
    decided_by: tuple[DecidedBy, ...]
    by_chance: tuple[ByChance, ...]
    consequences: tuple[Consequence, ...]
    share_consequences: tuple[ShareConsequence, ...]
    notes: tuple[str, ...]


Criterion = Literal["days", "chunks", "agreement", "queue_share", "rule_share", "profile", "fall_backs", "doctor"]


class GateLine(Answer):
    """One criterion.

    Attributes:
        brokerage: of ours; None for the installation as a whole.
        label: prodsourcelabel; None for all of them.
        criterion: named as in the file; ``days``: on which something was compared.
        passed: whether it holds.
        value: what was found; None where there was nothing to be found, or where it is no number.
        limit: what it is held against; None where it is no number.
        detail: what stands behind it: what is beyond the limit, or why there is no value.
    """

    brokerage: str | None
    label: str | None
    criterion: Criterion
    passed: bool
    value: float | None
    limit: float | None
    detail: str


class Gate(Answer):
    """Whether work may be handed over.

    Attributes:
        passed: whether every criterion holds.
        where: file with the criteria.
        gate: the criteria.
        lines: each of them, with what was found.
        shadow: all that was compared.
    """

    passed: bool
    where: str
    gate: GateFile
    lines: tuple[GateLine, ...]
    shadow: Shadow
