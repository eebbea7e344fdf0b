"""A broker reduced to its write transaction: the agent's fence and statements, in the agent's order."""

from __future__ import annotations

from collections.abc import Callable

from broker.domain.decisions import Candidate, Decision, DecisionRecord, Origin
from broker.domain.placements import Placement
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing as decisions
from broker.store.service import agent_runs, leases
from broker.store.service.leases import Lease
from broker.store.writes.job_rows import AssignmentWriter, WriteBack
from tests.store.small_work import NOW

AGENT = "production_job"


def records(placement: Placement, result: WriteBack) -> list[DecisionRecord]:
    """Return one decision for each task, with the jobs that were written for it."""
    decision_records = []
    for task in placement.tasks:
        job_counts: dict[str, int] = {}
        for job in range(len(placement.jobs)):
            if placement.jobs.jeditaskid[job] == task.jeditaskid and result.kept[job]:
                name = placement.queue_names[placement.jobs.queue[job]]
                job_counts[name] = job_counts.get(name, 0) + 1
        candidates = tuple(Candidate(name, 1.0, {}) for name in placement.queue_names)
        decision = Decision(task.jeditaskid, 10 * task.jeditaskid, None, AGENT, "brokered", "", candidates, {}, ())
        decision_records.append(DecisionRecord(decision, job_counts))
    return decision_records


def start_run(database: Database, lease: Lease) -> int:
    """Insert the run row of a writer."""
    with database.begin() as connection:
        return agent_runs.start(connection, lease.name, lease)


def write_fenced(
    database: Database,
    lease: Lease,
    run_id: int,
    placement: Placement,
    *,
    between: Callable[[], None] = lambda: None,
    fenced: bool = True,
) -> WriteBack:
    """Write a placement with its decisions; call ``between`` before the closing fence."""
    with database.begin() as connection:
        if fenced:
            leases.fence(connection, lease)
        raw = Database.raw(connection)
        result = AssignmentWriter(raw, database.names, NOW).write(placement)
        decisions.save(raw, Origin(run_id, NOW, None, 0, 1, "test"), records(placement, result))
        between()
        if fenced:
            leases.fence(connection, lease, closing=True)
    return result
