"""A broker reduced to its write transaction: the same fence, the same statements, the same order as the agent's."""

from __future__ import annotations

from collections.abc import Callable

from broker.domain.decisions import Candidate, Decision, DecisionRecord, Origin
from broker.domain.placements import Placement
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing as decisions
from broker.store.service import agent_runs, leases
from broker.store.service.leases import Lease
from broker.store.writes.job_rows import AssignmentWriter, Written
from tests.store.small_work import NOW

AGENT = "production_job"


def records(placed: Placement, written: Written) -> list[DecisionRecord]:
    """One decision a task, with the jobs that were kept of it."""
    found = []
    for task in placed.tasks:
        assigned: dict[str, int] = {}
        for job in range(len(placed.jobs)):
            if placed.jobs.jeditaskid[job] == task.jeditaskid and written.kept[job]:
                name = placed.queue_names[placed.jobs.queue[job]]
                assigned[name] = assigned.get(name, 0) + 1
        candidates = tuple(Candidate(name, 1.0, {}) for name in placed.queue_names)
        decision = Decision(task.jeditaskid, 10 * task.jeditaskid, None, AGENT, "brokered", "", candidates, {}, ())
        found.append(DecisionRecord(decision, assigned))
    return found


def start_run(database: Database, lease: Lease) -> int:
    """Open the run row of a writer."""
    with database.begin() as connection:
        return agent_runs.start(connection, lease.name, lease)


def write_fenced(
    database: Database,
    lease: Lease,
    run_id: int,
    placed: Placement,
    *,
    between: Callable[[], None] = lambda: None,
    fenced: bool = True,
) -> Written:
    """Write a placement with its decisions; ``between`` is called before the closing fence."""
    with database.begin() as connection:
        if fenced:
            leases.fence(connection, lease)
        raw = Database.raw(connection)
        written = AssignmentWriter(raw, database.names, NOW).write(placed)
        decisions.save(raw, Origin(run_id, NOW, None, 0, 1, "test"), records(placed, written))
        between()
        if fenced:
            leases.fence(connection, lease, closing=True)
    return written
