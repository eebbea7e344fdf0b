"""A nucleus must be able to run the jobs itself."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation, Value
from broker.domain.grid import NucleusTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.rules.contract import NucleusFilter, TuningView
from broker.rules.observing import number, text


class Job(NucleusFilter):
    """Rejects nuclei none of whose queues passes the filters of the job brokerage for the first input of the task.

    Where the job brokerage cannot answer, nothing is known of any nucleus. Source: PanDA production brokerage, job
    check.
    """

    name = "job"
    code = "job"
    title = "A queue of the nucleus could run the jobs"
    kind = "temporary"
    sources = ("queues",)

    def keep(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Bools:
        """(T, N)."""
        return np.asarray(facts.able_queues > 0)

    def unknown(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Bools:
        """(T, 1): the job brokerage could not be asked."""
        return facts.job_check_failed

    def observe(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Observation:
        """Queues that could run the jobs, of how many, and what rejected the others."""
        inputs: dict[str, Value] = {"queues": number(facts.queues), "rejected": text(facts.job_codes)}
        return Observation(number(facts.able_queues), ">", 0.0, "queues", "rule", inputs)
