"""Output must not pile up at the queue."""

from __future__ import annotations

import numpy as np

from broker.domain.estimates import or_else
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.waiting_limit import waiting_limit
from broker.rules.contract import Bools, Filter, Floats, JobPairs, Observation, Reason, Value, flag, number

DEFAULT_LIMIT_JOBS = 2000.0
TIMES_RUNNING = 2.0


class Transferring(Filter[JobPairs]):
    """Rejects queues with more transferring jobs than ``transferringlimit`` (else 2000) and twice the running ones.

    Jobs of all shares count, except those for a nucleus that cannot be written to. Not where output stays: at the
    nucleus, with its storage, or without a known storage. Source: ATLAS Production Job Brokerage, too many
    transferring jobs.
    """

    name = "transferring"
    reason = Reason(
        code="transferring",
        title="Not too many jobs of the queue are transferring output",
        violation="Too many jobs of the queue are transferring their output",
        no_candidate="has room for more transferring jobs",
        who="wait",
        cure="Wait until the output has been transferred. The site may raise `transferringlimit`.",
    )
    kind = "temporary"
    sources = ("queues", "jobs")

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q), or (1, Q) if no queue is over its limit."""
        within = pairs.facts.transferring <= _limit(pairs.candidates, pairs.facts)
        return np.asarray(within) if within.all() else np.asarray(within | ~_sends_output(pairs.facts))

    def observe(self, pairs: JobPairs) -> Observation:
        """Transferring jobs; no limit where output stays."""
        limit = number(_limit(pairs.candidates, pairs.facts)) if flag(_sends_output(pairs.facts)) else None
        inputs: dict[str, Value] = {
            "transferringlimit": number(pairs.candidates.transferringlimit),
            "running": number(pairs.facts.all_running),
        }
        return Observation(number(pairs.facts.transferring), "<=", limit, "jobs", "queue.transferringlimit", inputs)


def _limit(candidates: QueueTable, facts: JobFacts) -> Floats:
    own = or_else(candidates.transferringlimit, DEFAULT_LIMIT_JOBS)
    return np.asarray(waiting_limit(own, TIMES_RUNNING, facts.all_running))


def _sends_output(facts: JobFacts) -> Bools:
    stays = facts.at_nucleus | facts.shares_storage | facts.storage_at_nucleus
    return np.asarray(facts.storage_known & ~stays)
