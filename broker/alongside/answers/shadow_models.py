"""The answer of shadow mode: how far our decisions agree with what JEDI really did, and the gate's verdict."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from broker.alongside.model.gate_file import GateFile
from broker.store.query_context import ResponseModel

Side = Literal["panda_only", "ours_only"]
Placer = Literal["plugin", "agent"]
Placed = Literal["panda", "ours", "panda_only", "ours_only"]


class Interval(ResponseModel):
    """Interval of a share, at the confidence of the answer; both ends between 0 and 1."""

    low: float
    high: float


class AgreementLine(ResponseModel):
    """Agreement for one brokerage, or for one of its labels, shares or hours.

    None of the numbers include work that ours placed.

    Attributes:
        brokerage: our brokerage.
        label: prodsourcelabel; null for all.
        share: global share; null for all.
        hour: start of the hour; null for all.
        jobs: jobs that PanDA placed (tasks at a nucleus: 1 each).
        compared_jobs: of these, jobs for whose chunk ours had a recent enough decision.
        agreed_jobs: of these, jobs at one of our candidates.
        chunks: chunks or tasks of compared jobs and compared waits.
        agreed_chunks: of these, those without any difference.
        tasks: tasks of compared jobs and waits.
        witnesses: effective number of tasks of equal size among those of the compared jobs.
        job_interval: interval of agreed jobs among compared jobs; null if there are none.
        chunk_interval: interval of agreed chunks; null if there are none.
        waits: times that PanDA let a task wait while ours had a decision.
        agreed_waits: of these, times that ours found nothing either.
        same_place: fraction of the jobs that ours, drawing by weight, would have put at the same queues: between 0 and
            1; null if ours brokered nothing.
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


class DisagreementLine(ResponseModel):
    """Disagreements by the rule that caused them.

    Attributes:
        brokerage: our brokerage.
        side: ``panda_only``: PanDA placed jobs at a queue that ours refused; ``ours_only``: PanDA let a task wait that
            ours brokered.
        code: our reason code that refused the queue, or for which the chunk waited; for ``ours_only``, PanDA's
            criterion as in its dialog.
        jobs: jobs that PanDA placed; 0 for waits.
        waits: times that PanDA let a task wait; 0 for jobs.
        chunks: chunks or tasks.
        tasks: tasks.
        queues: queues with the most jobs first; at most ten.
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


class QueueComparison(ResponseModel):
    """Jobs that a queue (or nucleus) got from PanDA, and would have got from ours.

    Attributes:
        brokerage: our brokerage.
        queue: unified queue, or nucleus.
        panda_jobs: compared jobs that PanDA placed there.
        our_jobs: of all compared jobs, those for which ours would have drawn this queue, by weight.
        agreed_jobs: of PanDA's jobs, those for which it is one of our candidates.
        by_chance: upper bound, in 95 % of the draws, of the deviation by drawing alone, in jobs.
        main_code: rule that refused most of the other jobs; null if there is none.
    """

    brokerage: str
    queue: str
    panda_jobs: int
    our_jobs: float
    agreed_jobs: int
    by_chance: float
    main_code: str | None


class Uncompared(ResponseModel):
    """Jobs and waits that could not be compared: ``no_decision``, ``too_old`` or ``no_dataset``."""

    brokerage: str
    reason: str
    jobs: int
    waits: int


class PlacedByOurs(ResponseModel):
    """Work that our plug-in or agent placed, or let wait; it is not compared.

    Attributes:
        brokerage: our brokerage.
        by: ``plugin``: JEDI's plug-in decided about the chunk or task at that time; ``agent``: an agent wrote it.
        jobs: jobs, or tasks at a nucleus.
        waits: times that a task waited.
        tasks: tasks of both.
    """

    brokerage: str
    by: Placer
    jobs: int
    waits: int
    tasks: int


class DecidedBy(ResponseModel):
    """Jobs and waits compared with decisions of one profile, version and tuning.

    Attributes:
        brokerage: our brokerage.
        profile: profile of rules; null if not on record: decided by the plug-in, or by an earlier release.
        engine: version of the broker.
        tuning: version of the tuning.
        jobs: compared jobs.
        waits: compared waits.
        first_at: time of the first decision.
        last_at: time of the last decision.
    """

    brokerage: str
    profile: str | None
    engine: str
    tuning: int
    jobs: int
    waits: int
    first_at: datetime
    last_at: datetime


class ByChance(ResponseModel):
    """The value of "same place" if both sides drew by the same weights: those in force for the compared jobs.

    PanDA keeps no weights in its tables. Where ours decides as PanDA (profile ``panda``), these are PanDA's own.

    Attributes:
        brokerage: our brokerage.
        label: prodsourcelabel; null for all.
        jobs: compared jobs that ours brokered.
        same_place: its mean over the draws, between 0 and 1.
        interval: range of 95 % of the draws.
        drawn_twice: mean fraction of the jobs that two draws put at the same places.
        draws: number of draws.
    """

    brokerage: str
    label: str | None
    jobs: int
    same_place: float
    interval: Interval
    drawn_twice: float
    draws: int


class Consequence(ResponseModel):
    """Consequences of the placement of jobs, from the queues' records in the period.

    Both sides are measured alike, by the records of the queues: no job is measured twice. Unknown values are counted.

    Attributes:
        brokerage: our brokerage.
        placed: ``panda``, or ``ours`` as we would have drawn; ``panda_only`` and ``ours_only``: of these, the jobs at
            queues where the other side has none.
        queues: number of queues.
        jobs: number of compared jobs.
        wan_bytes: input that is not on disk next to the queue; null if no input has a known place.
        wan_unknown_jobs: jobs whose input is not in the replica catalogue.
        waiting_s: median time from creation to start at the queue, mean over the jobs.
        failure_rate: failed among failed and finished jobs of the queue, mean over the jobs, between 0 and 1.
        core_hours: cores times hours of a job at the queue, summed over the jobs.
        no_record_jobs: jobs at queues where nothing started or ended in the period; excluded from the last three
            figures.
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


class ShareConsequence(ResponseModel):
    """Compared jobs of a global share on either side: ours lets chunks wait that PanDA does not.

    Attributes:
        brokerage: our brokerage.
        share: global share.
        panda_jobs: compared jobs that PanDA placed.
        our_jobs: of these, jobs whose chunks ours brokers.
        panda_part: fraction of all compared jobs of PanDA, between 0 and 1.
        our_part: fraction of all jobs that ours brokers; null if ours brokers nothing.
    """

    brokerage: str
    share: str
    panda_jobs: int
    our_jobs: float
    panda_part: float
    our_part: float | None


class Shadow(ResponseModel):
    """Our decisions compared with JEDI's, from ``since`` to ``until``.

    Attributes:
        confidence: confidence of all intervals (Wilson, with tasks as witnesses).
        brokerages: one line per brokerage.
        labels: one line per brokerage and label.
        shares: one line per brokerage and share.
        hours: one line per brokerage and hour, in order of time.
        rules: disagreements, most jobs first.
        queues: queues by brokerage, those with the most jobs of PanDA first.
        uncompared: work that was not compared, and why.
        placed_by_ours: work that ours placed, excluded from all other numbers.
        decided_by: profile, version and tuning of the decisions.
        by_chance: expected result of drawing alone, per brokerage and per label.
        consequences: consequences of the placements of either side.
        share_consequences: jobs of the shares on either side.
        notes: limitations of these numbers.
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


class GateLine(ResponseModel):
    """One criterion.

    Attributes:
        brokerage: our brokerage; null for the installation as a whole.
        label: prodsourcelabel; null for all.
        criterion: name as in the file; ``days``: days on which something was compared.
        passed: whether the criterion holds.
        value: measured value; null if there is none, or if it is not a number.
        limit: limit of the criterion; null if it is not a number.
        detail: explanation: what exceeds the limit, or why there is no value.
    """

    brokerage: str | None
    label: str | None
    criterion: Criterion
    passed: bool
    value: float | None
    limit: float | None
    detail: str


class Gate(ResponseModel):
    """Whether work may be handed over.

    Attributes:
        passed: whether every criterion holds.
        where: file with the criteria.
        gate: the criteria.
        lines: result of each criterion.
        shadow: the whole comparison.
    """

    passed: bool
    where: str
    gate: GateFile
    lines: tuple[GateLine, ...]
    shadow: Shadow
