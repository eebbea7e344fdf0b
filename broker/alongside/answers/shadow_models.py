"""The answer of shadow mode: how far our decisions agree with what JEDI really did."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from broker.store.query_context import Answer

Side = Literal["panda_only", "ours_only"]


class AgreementLine(Answer):
    """Agreement for one brokerage, of it for one share, or of it in one hour.

    Attributes:
        brokerage: of ours.
        share: the global share; None for all.
        hour: start of the hour; None for all.
        jobs: that PanDA placed (tasks at a nucleus: 1 each).
        compared_jobs: of them, those for whose chunk ours had a decision that was young enough.
        agreed_jobs: of those, the ones at a candidate of ours.
        chunks: chunks or tasks of compared jobs, and of waits that were compared.
        agreed_chunks: of them, those where nothing differs.
        waits: times that PanDA let a task wait and ours had a decision.
        agreed_waits: of them, those where ours found nothing either.
        same_place: how much of the jobs ours, drawing by weight, would have put at the same queues: between 0 and 1;
            None where ours brokered nothing.
    """

    brokerage: str
    share: str | None
    hour: datetime | None
    jobs: int
    compared_jobs: int
    agreed_jobs: int
    chunks: int
    agreed_chunks: int
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
        chunks: chunks or tasks.
        tasks: tasks.
        queues: queues, those with the most jobs first; at most ten.
        such_as: some of the tasks.
    """

    brokerage: str
    side: Side
    code: str
    jobs: int
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
        main_code: the rule that refused most of the others; None without any.
    """

    brokerage: str
    queue: str
    panda_jobs: int
    our_jobs: float
    agreed_jobs: int
    main_code: str | None


class Uncompared(Answer):
    """Jobs and waits that could not be compared: ``no_decision``, ``too_old`` or ``no_dataset``."""

    brokerage: str
    reason: str
    jobs: int
    waits: int


class Shadow(Answer):
    """Our decisions beside what JEDI did, from ``since`` to ``until``.

    Attributes:
        brokerages: one line each.
        shares: one line for each share of each.
        hours: one line for each hour of each, in the order of time.
        rules: disagreements, most jobs first.
        queues: by brokerage, those with the most jobs of PanDA's first.
        uncompared: what was dropped, and why.
    """

    since: datetime
    until: datetime
    max_age_s: float
    brokerages: tuple[AgreementLine, ...]
    shares: tuple[AgreementLine, ...]
    hours: tuple[AgreementLine, ...]
    rules: tuple[DisagreementLine, ...]
    queues: tuple[QueueComparison, ...]
    uncompared: tuple[Uncompared, ...]
