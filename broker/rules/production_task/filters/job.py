"""A nucleus must be able to run the jobs itself."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, Filter, Observation, Reason, TaskPairs, Value, number, text


class Job(Filter[TaskPairs]):
    """Rejects nuclei none of whose queues passes the filters of the job brokerage for the first input of the task.

    If the job brokerage cannot judge, the result is unknown for every nucleus. Source: PanDA production brokerage, job
    check.
    """

    name = "job"
    reason = Reason(
        code="job",
        title="A queue of the nucleus could run the jobs",
        violation="No queue could run the jobs of the task if their output went to the nucleus",
        no_candidate="has a queue that could run the jobs",
        who="ask",
        cure="`broker explain TASK` names what the queues lack. Ask for less where the jobs ask for too much; else the "
        "operators look at the queues.",
    )
    provenance = "ATLAS Production Task Brokerage"
    kind = "temporary"
    sources = ("queues",)

    def keep(self, pairs: TaskPairs) -> Bools:
        """(T, N): true where a queue of the nucleus could run the jobs."""
        return np.asarray(pairs.facts.able_queues > 0)

    def unknown(self, pairs: TaskPairs) -> Bools:
        """(T, 1): the job brokerage could not judge."""
        return pairs.facts.job_check_failed

    def observe(self, pairs: TaskPairs) -> Observation:
        """The number of queues that could run the jobs, the number of all, and the codes that rejected the others."""
        inputs: dict[str, Value] = {"queues": number(pairs.facts.queues), "rejected": text(pairs.facts.job_codes)}
        return Observation(number(pairs.facts.able_queues), ">", 0.0, "queues", "rule", inputs)
