from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.codec.packed_reasons import Reasons
from broker.codec.packed_remarks import Remarks
from broker.domain.chosen_candidates import ChosenCandidates
from broker.snapshot import raw
from broker.store.connection.database import Database
from broker.store.decisions import decision_rows as decisions
from broker.store.gdpconfig_rows import TuningStore
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import Lease
from broker.store.snapshots import stored_snapshots as snapshots
from tests.fault.auditor import audit, baseline
from tests.fault.processes import AGENT, NOW, SEED, cycle_here, load_grid, made_jobs, take_lease


@pytest.fixture
def grid(database: Database) -> Database:
    load_grid(database)
    return database


def run_request(
    database: Database,
    request: CycleRequest,
    process: ProcessSettings | None = None,
    lease: Lease | None = None,
    **options: Any,
) -> RunRecord:
    agent = registry.make(AGENT, options, process or ProcessSettings())
    run_id = None if lease is None else open_run(database, AGENT, lease)
    return run_cycle(agent, CycleContext(database, NOW, SEED, 600.0, request, lease=lease, run_id=run_id))


def objects_of(database: Database, **request: Any) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = []
    assert run_request(database, CycleRequest(emit=objects.append, **request)).outcome == "done"
    return objects


def count(database: Database, table: str) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one())


def test_a_cycle_writes_what_it_reports(grid: Database) -> None:
    before = baseline(grid)
    record = cycle_here(grid)
    assert record.outcome == "done"
    assert record.counts["jobs"] == made_jobs(grid) > 0
    assert record.counts["chunks"] == count(grid, "broker.decisions") > 0
    assert {"load_s", "decide_s", "cut_s", "write_s"} <= record.timings.keys()
    assert audit(grid, before) == []


def test_a_cycle_makes_no_names_of_its_rejections(grid: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, funnels and words are made when they are read; a cycle stores only numbers."""

    def fail(reasons: Reasons) -> dict[str, str]:
        raise AssertionError("a cycle made names")

    with monkeypatch.context() as patched:
        for name in ("rejected", "funnel"):
            patched.setattr(Reasons, name, property(fail))
        patched.setattr(Remarks, "notes", property(fail))
        patched.setattr(ChosenCandidates, "objects", property(fail))
        assert cycle_here(grid).outcome == "done"
    with grid.begin() as connection:
        task = connection.execute(sa.text("SELECT min(jeditaskid) FROM broker.decisions")).scalar_one()
        (stored, *_) = decisions.latest(connection, task)
    assert stored.record.decision.rejected and stored.record.decision.funnel


def test_a_dry_run_emits_the_same_and_writes_nothing(grid: Database) -> None:
    objects = objects_of(grid, dry_run=True)
    assert made_jobs(grid) == count(grid, "broker.decisions") == count(grid, "broker.agent_runs") == 0
    assert count(grid, "broker.snapshots") == 0
    record = cycle_here(grid)
    assert sum(sum(item["assigned"].values()) for item in objects) == record.counts["jobs"]
    with grid.begin() as connection:
        for item in objects:
            stored = {s.record.decision.datasetid: s for s in decisions.latest(connection, item["jeditaskid"])}
            decision = stored[item["datasetid"]].record
            assert dict(decision.assigned) == item["assigned"]
            assert [c.name for c in decision.decision.candidates] == [c["name"] for c in item["candidates"]]
            assert [c.weight for c in decision.decision.candidates] == [c["weight"] for c in item["candidates"]]


def test_the_object_has_the_fields_of_the_contract_in_their_order(grid: Database) -> None:
    fields = (
        "jeditaskid datasetid ramcount brokerage outcome reason candidates rejected funnel assigned pending_until"
        " snapshot tuning"
    )
    for item in objects_of(grid, dry_run=True):
        assert " ".join(item) == fields
        assert isinstance(item["ramcount"], int | None)
        assert (item["pending_until"] is not None) == (item["outcome"] == "pending")
        assert bool(item["assigned"]) == (item["outcome"] == "brokered")


def test_the_same_seed_gives_the_same_objects_and_independence_needs_no_order(grid: Database) -> None:
    assert objects_of(grid, dry_run=True) == objects_of(grid, dry_run=True)
    alone = objects_of(grid, independent=True)
    for item in alone[:3]:
        (repeated,) = [
            t
            for t in objects_of(grid, independent=True, task_ids=(item["jeditaskid"],))
            if t["datasetid"] == item["datasetid"]
        ]
        assert repeated == item
    assert made_jobs(grid) == 0


def test_tasks_requested_by_name_that_have_nothing_to_broker_say_why(grid: Database) -> None:
    with grid.begin() as connection:
        tasks = list(
            connection.execute(sa.text("SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1 LIMIT 3")).scalars()
        )
        for task, change in zip(tasks, ("status = 'done'", "nucleus = NULL", "goal = 0"), strict=True):
            connection.execute(sa.text(f"UPDATE doma_panda.jedi_tasks SET {change} WHERE jeditaskid = {task}"))
        connection.execute(
            sa.text(f"UPDATE doma_panda.jedi_dataset_contents SET status = 'finished' WHERE jeditaskid = {tasks[2]}")
        )
    objects = objects_of(grid, dry_run=True, task_ids=(*tasks, 1))
    assert [(item["jeditaskid"], item["outcome"], item["reason"]) for item in objects] == [
        (tasks[0], "skipped", "task_status_done"),
        (tasks[1], "skipped", "no_nucleus"),
        (tasks[2], "skipped", "no_ready_input"),
        (1, "skipped", "no_such_task"),
    ]


def test_beside_jedi_decisions_are_recorded_and_nothing_else_is_touched(grid: Database) -> None:
    before = count(grid, "doma_panda.tasks_statuslog")
    record = run_request(grid, CycleRequest(), ProcessSettings(job_generation="jedi"), take_lease(grid))
    assert record.outcome == "done"
    assert count(grid, "broker.decisions") == record.counts["chunks"] > 0
    assert made_jobs(grid) == 0
    assert count(grid, "doma_panda.jedi_tasks WHERE status = 'pending'") == 0
    assert count(grid, "doma_panda.tasks_statuslog") == before


def test_beside_jedi_unchanged_chunks_are_seen_again(grid: Database) -> None:
    """This holds for all seeds of the cycles, so that a chunk takes one row a day."""
    lease = take_lease(grid)
    for number in range(3):
        agent = registry.make(AGENT, {}, ProcessSettings(job_generation="jedi"))
        now, run_id = NOW + timedelta(seconds=30 * number), open_run(grid, AGENT, lease)
        context = CycleContext(grid, now, SEED + number, 600.0, CycleRequest(), lease=lease, run_id=run_id)
        record = run_cycle(agent, context)
        assert record.outcome == "done"
    assert count(grid, "broker.decisions") == count(grid, "broker.chunk_states") == record.counts["chunks"] > 0
    assert count(grid, "broker.chunk_states WHERE seen_again = 2 AND outcome = 'brokered'") > 0
    assert count(grid, "broker.chunk_states WHERE seen_again <> 2") == 0


def test_small_batches_make_the_same_jobs(grid: Database, make_database: Any) -> None:
    second_grid = make_database()
    load_grid(second_grid)
    cycle_here(grid)
    assert (
        run_request(second_grid, CycleRequest(), lease=take_lease(second_grid), chunks_of_a_batch=1).outcome == "done"
    )
    query = sa.text(
        "SELECT jeditaskid, computingsite, ninputdatafiles, count(*) FROM doma_panda.jobsdefined4"
        " WHERE lockedby = 'jedi' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )
    with grid.begin() as connection, second_grid.begin() as second_connection:
        assert connection.execute(query).all() == second_connection.execute(query).all()


def test_the_snapshot_of_a_decision_can_be_read_back(grid: Database) -> None:
    record = cycle_here(grid)
    assert record.snapshot is not None
    with grid.begin() as connection:
        parts = snapshots.read(connection, record.snapshot)
        assert count(grid, "broker.snapshots") == 1
    assert {raw.decode(digest, data).name for digest, data in parts.values()} == set(parts)


def test_a_new_tuning_version_is_used_by_the_next_cycle(grid: Database) -> None:
    first = cycle_here(grid)
    with grid.begin() as connection:
        store = TuningStore(grid.names)
        store.set_value(connection, "NQUEUED_SAT_CAP", 173, vo="atlas", editor="operator", reason="test")
    second = cycle_here(grid)
    assert first.tuning is not None
    assert second.tuning is not None
    assert second.tuning > first.tuning


@pytest.mark.parametrize(
    "damage",
    ["DELETE FROM doma_panda.schedconfig_json", "UPDATE doma_panda.schedconfig_json SET last_update = '2026-01-01'"],
)
def test_without_its_queues_a_cycle_is_refused_and_nothing_is_put_on_hold(grid: Database, damage: str) -> None:
    with grid.begin() as connection:
        connection.execute(sa.text(damage))
    record = cycle_here(grid)
    assert record.outcome == "refused"
    assert "queues" in (record.error or "")
    assert made_jobs(grid) == count(grid, "broker.decisions") == 0
    assert count(grid, "doma_panda.jedi_tasks WHERE status = 'pending'") == 0


def test_a_grid_that_suddenly_shrinks_is_not_believed(grid: Database) -> None:
    assert cycle_here(grid).outcome == "done"
    with grid.begin() as connection:
        connection.execute(
            sa.text(
                "DELETE FROM doma_panda.schedconfig_json WHERE panda_queue NOT IN"
                " (SELECT panda_queue FROM doma_panda.schedconfig_json ORDER BY 1 LIMIT 3)"
            )
        )
        connection.execute(sa.text("DELETE FROM doma_panda.panda_site"))
    record = cycle_here(grid, seed=SEED + 1)
    assert any("source queues is shrunk" in note for note in record.notes)
