"""A decision of the task brokerage, asked again: why a task did not get a nucleus."""

from __future__ import annotations

from pathlib import Path

from broker.brokerages.production_job import NAME as JOB_BROKERAGE
from broker.brokerages.production_task import task_cycle
from broker.cli.rules import chain_of
from broker.domain.decisions import Decision
from broker.domain.task_work_codec import decode_task_work
from broker.engine.chain import NucleusChain
from broker.engine.task_why_not import why_not_nucleus
from broker.engine.why_not import Answer
from broker.gdpconfig.publish import Published
from broker.snapshot.snapshot import Snapshot


def nucleus_answer(
    decision: Decision,
    data: bytes,
    snapshot: Snapshot,
    published: Published,
    chain: NucleusChain,
    nucleus: str,
    config: Path | None,
) -> Answer:
    """Why the task did not get ``nucleus``, or that it did.

    Args:
        decision: as it was stored.
        data: its work.
        snapshot: on which it was decided.
        published: the gdpconfig values with which it was decided.
        chain: the rules of the brokerage.
        nucleus: the name asked for.
        config: folder with configuration files of the operator's own.

    Raises:
        WorkCorruptError: the work cannot be read back.
    """
    work = decode_task_work(data)
    tuning = published.tuning(work.tasks.vo[0])
    cycle = task_cycle(snapshot, work, tuning, chain, chain_of(JOB_BROKERAGE, config), with_codes=True)
    chosen = decision.candidates[0].name if decision.outcome == "brokered" else None
    return why_not_nucleus(cycle, cycle.result(0), nucleus, chosen)
