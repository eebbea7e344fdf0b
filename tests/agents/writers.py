"""For each registered agent: a database in which it has something to write, and the transactions of its cycle."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from agents.feeds.rucio_replicas import RucioReplicasAgent
from agents.notifications.notifications import NotificationsAgent
from agents.pilots.submitter import SubmitterAgent
from agents.service import registry
from agents.service.base import Agent
from agents.service.configuration import ProcessSettings
from agents.tasks.rucio_output import RucioOutputAgent
from broker.notifications.model.rules import NotificationSettings
from broker.notifications.statements import subscription_rows
from broker.pools.statements.pool_registration import TaskRequirements, attach, register
from broker.simulation.model.demo import grid_documents
from broker.simulation.model.demo.grid_documents import GridSize
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.tasks.answers.task_submission import task_submission
from broker.tasks.model.refine import Submitter
from tests.agents.classified_grid import HUGE, SAMPLES, SHARES, site
from tests.agents.feeds import test_sites
from tests.agents.feeds.fake_rucio import FakeRucio, replica
from tests.agents.feeds.running import Feeding
from tests.agents.feeds.wanting import want
from tests.agents.forecasts import test_forecasts
from tests.agents.formats import test_features
from tests.agents.grid import test_summary_refreshing
from tests.agents.lifecycle import test_analysis_rebrokerage, test_fast_rebrokerage, test_retries, test_timeouts
from tests.agents.moving_jobs import fill as fill_moving
from tests.agents.notifications import telling
from tests.agents.outcomes import test_outcomes
from tests.agents.pilots import test_completion, test_pilot_demand, test_submitter
from tests.agents.pilots.test_activation import replica as dataset_replica, scenario as waiting_jobs
from tests.agents.quality import measuring_cycles
from tests.agents.tasks import test_task_sizing
from tests.agents.upkeep import test_cleanup
from tests.brokerages import analysis_grid, small_grid, task_grid, test_generic_scenarios
from tests.feeds import documents
from tests.lifecycle import lifecycle_grid
from tests.pilots.panda import pilot_grid
from tests.pools.pool_grid import PLACES, add_task, at, pool_for, publish_places
from tests.tasks.parameters import INPUT, files, parameters
from tests.tasks.writing_rucio import FakeWriter, reported

NOON = small_grid.NOW
Fill = Callable[[Database, Path], Mapping[str, Any] | None]
HELD = {"status": "pending", "oldstatus": "running", "modificationtime": "2026-08-01T01:00:00"}
"""Columns of a task that has been on hold for long enough."""


@dataclass(frozen=True)
class Writer:
    """An agent that writes.

    Attributes:
        fill: puts work into the database and returns the options of the agent.
        transactions: of its cycle, in order; in brackets if this cycle writes nothing in them.
        now: instant of the cycle.
    """

    fill: Fill
    transactions: tuple[str, ...]
    now: datetime = NOON

    @property
    def writing_numbers(self) -> list[int]:
        """The numbers of the transactions that write rows, counted from 1."""
        return [number for number, name in enumerate(self.transactions, 1) if not name.startswith("(")]


def make_agent(name: str, options: Mapping[str, Any]) -> Agent[Any]:
    """The agent, connected to fakes of Rucio, the batch system and the channels."""
    profile = "panda-gen" if name == "generic_job" else ProcessSettings().profile
    agent = registry.make(name, options, ProcessSettings(profile=profile))
    if isinstance(agent, RucioReplicasAgent):
        rucio = FakeRucio(replicas={("mc23", "a"): [replica("DISK")]})
        agent._connect = lambda options: rucio
    if isinstance(agent, SubmitterAgent):
        batch = test_submitter.FakeBatch()
        agent.connect = lambda executor: batch
    if isinstance(agent, NotificationsAgent):
        settings = NotificationSettings.model_validate(telling.PLAIN)
        agent.settings = lambda folder: settings
        agent.deliver = telling.Told().sender(settings)
    if isinstance(agent, RucioOutputAgent):
        writer = FakeWriter()
        agent._connect = lambda options: writer
    return agent


def fill_tasks(database: Database, folder: Path) -> None:
    held_task = small_grid.task(jeditaskid=77, **HELD)
    load(database, task_grid.task_scenario(jedi_tasks=[task_grid.waiting(), held_task]))


def fill_work(database: Database, folder: Path) -> None:
    files = small_grid.input_files(4, 10**9)
    tasks = [small_grid.task(), small_grid.task(jeditaskid=77, **HELD)]
    tables = {"jedi_tasks": tasks, "jedi_datasets": [small_grid.dataset(4)]}
    load(database, small_grid.scenario(**tables, jedi_dataset_contents=files))


def fill_generic(database: Database, folder: Path) -> None:
    load(database, small_grid.scenario(**test_generic_scenarios.tables()))


def fill_analysis(database: Database, folder: Path) -> None:
    load(database, analysis_grid.analysis())


def fill_classes(database: Database, folder: Path) -> None:
    metrics = [site("ALPHA_MCORE", 1)]
    load(database, analysis_grid.analysis(**SAMPLES, metrics=metrics, global_shares=SHARES, jobsactive4=HUGE))


def fill_features(database: Database, folder: Path) -> None:
    test_features.report_all(database, 20, corepower=12.5)


def fill_timeouts(database: Database, folder: Path) -> None:
    lifecycle_grid.store(database, test_timeouts.sent_jobs(3))


def fill_summaries(database: Database, folder: Path) -> None:
    test_summary_refreshing.feed_reports(database)


def fill_overloaded(database: Database, folder: Path) -> None:
    fill_moving(database, test_fast_rebrokerage.overloaded_jobs(), config=[test_fast_rebrokerage.KEY])


def fill_submission(database: Database, folder: Path) -> None:
    jobs = [test_analysis_rebrokerage.user_job(number) for number in (1, 2)]
    fill_moving(database, jobs, jobs_statuslog=[test_analysis_rebrokerage.log_row(1, test_analysis_rebrokerage.OLD)])


def fill_ends(database: Database, folder: Path) -> None:
    test_outcomes.archive(database, test_outcomes.failed_job(1, 0))


def fill_line(database: Database, folder: Path) -> None:
    """A waiting job, and an open forecast that a started job judges."""
    pilot_grid.fill(database, [test_forecasts.waiting_job(8), test_forecasts.running_job(9, 2, 6)])
    test_forecasts.remember_open(database)


def fill_scouts(database: Database, folder: Path) -> None:
    test_task_sizing.prepare_task(database, 5)


def fill_failed(database: Database, folder: Path) -> None:
    test_retries.fail_job(database, test_retries.panda_rule(1, "no_retry"))


def fill_subscribed(database: Database, folder: Path) -> None:
    """A subscription to a task that does not exist."""
    with database.begin() as connection:
        subscription_rows.add(connection, 1, "room", "", "ann", NOON)


def fill_jobs(database: Database, folder: Path) -> None:
    load(database, waiting_jobs(replicas=[dataset_replica("BETA", 4)]))


def fill_pools(database: Database, folder: Path) -> dict[str, Any]:
    """A pool, and a task whose pool was removed; the resources are in a file."""
    publish_places(database)
    add_task(database, 1)
    with database.begin() as connection:
        register(connection, pool_for(Memory=1), at(0))
        attach(connection, 1, pool_for(Memory=2), TaskRequirements())
        connection.execute(
            sa.text("DELETE FROM broker.submit_pools WHERE pool_id = :id"), {"id": pool_for(Memory=2).pool_id}
        )
    file = folder / "places.json"
    file.write_text(json.dumps({"resources": {"SITE_A": PLACES["SITE_A"]}}), encoding="utf-8")
    return {"resources": "file", "file": str(file)}


def fill_unused_pool(database: Database, folder: Path) -> None:
    with database.begin() as connection:
        register(connection, pool_for(Memory=1), at(0))


def fill_reports(database: Database, folder: Path) -> None:
    """A job with a final report, and a task with no work left."""
    test_completion.one_job(database, test_completion.report(5, data=test_completion.WRITTEN))
    with database.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO doma_panda.jedi_tasks (jeditaskid, taskname, status) VALUES (2, 't', 'running')"
        )
        connection.exec_driver_sql(
            "INSERT INTO doma_panda.jedi_datasets (jeditaskid, datasetid, type, nfiles, nfilestobeused, nfilesfinished)"
            " VALUES (2, 20, 'input', 2, 2, 2)"
        )


def fill_requests(database: Database, folder: Path) -> None:
    pilot_grid.fill(database, [])
    with database.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO broker.pilot_requests VALUES ('Q', 'getjob', 'a', %s, 1)", (NOON - timedelta(minutes=10),)
        )


def fill_chain(database: Database, folder: Path) -> None:
    """A task that waits for the output of a task that has just ended."""
    submission = task_submission(parameters({**INPUT, "files": files(1)}), Submitter())
    parent = submission.make(database, NOON - timedelta(hours=1)).jeditaskid
    read = {**INPUT, "dataset": f"mc.{parent}.hits"}
    task_submission(parameters(read, parentTaskID=parent), Submitter()).make(database, NOON - timedelta(hours=1))
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE doma_panda.jedi_tasks SET status = 'done' WHERE jeditaskid = %s", (parent,))


def fill_outputs(database: Database, folder: Path) -> None:
    """A task that ended, with an output that is not registered with Rucio yet."""
    reported(database, 1)
    pilot_grid.run_agent(database, "completion", NOON)


def fill_wanting(database: Database, folder: Path) -> None:
    """A queue with jobs that wait for pilots, and a Harvester instance."""
    test_pilot_demand.prepare(
        database,
        test_pilot_demand.jobs(3),
        {"harvester": "h"},
        harvester_worker_stats=test_pilot_demand.workers(submitted=1),
    )


def fill_submitted(database: Database, folder: Path) -> dict[str, Any]:
    """A queue of a fake batch system that could use one pilot."""
    test_submitter.prepare_demand(database, 1)
    return test_submitter.options(folder).model_dump()


def fill_sites(database: Database, folder: Path) -> dict[str, Any]:
    file = folder / "sites.yaml"
    file.write_text(test_sites.SITES, encoding="utf-8")
    return {"file": file}


def fill_cric(database: Database, folder: Path) -> dict[str, Any]:
    feeding = Feeding(database, folder)
    contents = grid_documents.cric_documents(GridSize(8), documents.NOW)
    return {"documents": {name: feeding.write(name, content) for name, content in contents.items()}}


def fill_space(database: Database, folder: Path) -> dict[str, Any]:
    feeding = Feeding(database, folder)
    feeding.grid(8)
    return {"address": feeding.write("space", grid_documents.rse_usage(GridSize(8), documents.NOW))}


def fill_network(database: Database, folder: Path) -> dict[str, Any]:
    feeding = Feeding(database, folder)
    feeding.grid(8)
    return {"address": feeding.write("net", grid_documents.network_metrics(GridSize(8), documents.NOW))}


def fill_quota(database: Database, folder: Path) -> dict[str, Any]:
    usage = {"local": {"alice": [{"rse": "DISK", "bytes": 1, "bytes_limit": 2}]}}
    return {"address": Feeding(database, folder).write("quota", usage)}


def fill_wanted(database: Database, folder: Path) -> dict[str, Any]:
    want(database, 1, "mc23:a")
    return {"requests_per_s": 10_000}


def fill_old(database: Database, folder: Path) -> dict[str, Any]:
    test_cleanup.decisions(database, 3, timedelta(days=15))
    test_cleanup.finished_job(database)
    return dict(test_cleanup.RUN)


CLEANUP = (
    "(days)", "(buckets)", "decisions", "(old_decisions)", "(decision_repeats)", "snapshots", "(snapshot_blobs)",
    "(snapshots_over_budget)", "(job_actions)", "(rebrokered_from)", "(queue_record)", "(queue_failures)",
    "(queue_cores)", "(job_starts)", "(forecasts)", "(retry_actions)", "(failed_jobs)", "(request_changes)",
    "(request_learned)", "(incidents)", "(task_subscriptions)", "(decision_quality)", "(job_status_reports)",
    "(feed_runs)", "(sandboxes)",
    "(submitted_pilots)", "(leases)", "(services)", "(chunk_states)", "(decision_legends)", "finished_jobs",
)  # fmt: skip
"""Kinds of rows that the clean-up removes, each in a transaction."""

WRITERS: Mapping[str, Writer] = {
    "production_task": Writer(fill_tasks, ("tuning", "(wake)", "(canary)", "batch")),
    "production_job": Writer(fill_work, ("tuning", "wake", "(canary)", "batch")),
    "generic_job": Writer(fill_generic, ("tuning", "(wake)", "(canary)", "batch")),
    "analysis_job": Writer(fill_analysis, ("tuning", "(wake)", "(canary)", "batch")),
    "features": Writer(fill_features, ("summaries",)),
    "site_class": Writer(fill_classes, ("classes",)),
    "task_class": Writer(fill_classes, ("classes",)),
    "share_usage": Writer(fill_classes, ("classes",)),
    "timeouts": Writer(fill_timeouts, ("tuning", "batch")),
    "gpu_summary": Writer(fill_summaries, ("summary",)),
    "worker_nodes": Writer(fill_summaries, ("summary",)),
    "fast_rebrokerage": Writer(fill_overloaded, ("tuning", "batch")),
    "analysis_rebrokerage": Writer(fill_submission, ("tuning", "batch")),
    "activation": Writer(fill_jobs, ("tuning", "batch", "task queues", "(running limits)")),
    "submit_pool_refresh": Writer(fill_pools, ("resources", "restoring", "mapping"), at(1)),
    "submit_pool_cleanup": Writer(fill_unused_pool, ("pools",), at(86_400)),
    "task_input": Writer(fill_chain, ("dataset",)),
    "rucio_output": Writer(
        fill_outputs,
        ("taking on", "dataset", "files", "(files that are missing)", "close"),
        NOON + timedelta(minutes=1),
    ),
    "completion": Writer(fill_reports, ("jobs", "(verbs)", "tasks")),
    "outcomes": Writer(fill_ends, ("tuning", "batch", "running")),
    "forecasts": Writer(fill_line, ("tuning", "judged", "told")),
    "task_sizing": Writer(fill_scouts, ("tuning", "task")),
    "notifications": Writer(fill_subscribed, ("planning", "try", "delivered")),
    "retries": Writer(fill_failed, ("tuning", "batch")),
    "pilot_activity": Writer(fill_requests, ("counts",)),
    "pilot_demand": Writer(fill_wanting, ("demand",)),
    "submitter": Writer(fill_submitted, ("plan", "submitted", "workers")),
    "cric": Writer(fill_cric, ("import",), documents.NOW),
    "sites": Writer(fill_sites, ("import",), documents.NOW),
    "rucio_space": Writer(fill_space, ("import",), documents.NOW),
    "rucio_replicas": Writer(fill_wanted, ("batch", "run"), documents.NOW),
    "rucio_quota": Writer(fill_quota, ("import",), documents.NOW),
    "network": Writer(fill_network, ("import",), documents.NOW),
    "decision_quality": Writer(measuring_cycles.fill, ("cycle",), NOON + timedelta(minutes=1)),
    "cleanup": Writer(fill_old, CLEANUP),
}
