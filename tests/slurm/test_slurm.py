"""Fifty jobs on a real Slurm, from ``broker task submit`` to their outputs, despite failures at every stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import TestServer
from tests.slurm.experiment import SlurmExperiment
from tests.slurm.slurm_cluster import SlurmCluster, free_port

JOBS = 50
FINISHED = """
SELECT count(*), count(DISTINCT file.lfn), count(DISTINCT input.fileid)
FROM doma_panda.jobsarchived4 AS job
JOIN doma_panda.filestable4 AS file ON file.pandaid = job.pandaid AND file.type = 'output'
JOIN doma_panda.filestable4 AS input ON input.pandaid = job.pandaid AND input.type = 'pseudo_input'
WHERE job.jeditaskid = :task AND job.jobstatus = 'finished'"""
DONE = "SELECT count(*) FROM doma_panda.jobsarchived4 WHERE jeditaskid = :task AND jobstatus = 'finished'"
RUNNING = "SELECT count(*) FROM broker.submitted_pilots WHERE state = 'running'"
ALIVE = "SELECT count(*) FROM broker.submitted_pilots WHERE state <> 'ended'"
SUBMITTED = "SELECT count(*) FROM broker.submitted_pilots WHERE state = 'submitted'"
OUTCOMES = "SELECT outcome, count(*) FROM broker.submitted_pilots WHERE state = 'ended' GROUP BY 1"
TWICE = "SELECT native_id FROM broker.submitted_pilots WHERE native_id IS NOT NULL GROUP BY 1 HAVING count(*) > 1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    slurm = SlurmCluster(tmp_path_factory.mktemp("slurm"))
    slurm.start()
    yield slurm
    slurm.stop()


@pytest.fixture
def experiment(test_server: TestServer, cluster: SlurmCluster, tmp_path: Path) -> Iterator[SlurmExperiment]:
    with test_server.opened(test_server.create()) as database:
        slurm_experiment = SlurmExperiment(database, cluster, tmp_path)
        yield slurm_experiment
        slurm_experiment.stop()
        cluster.output_of("scancel", "--me")


def count(experiment: SlurmExperiment, query: str, **values: int) -> int:
    return int(experiment.rows(query, **values)[0][0])


def test_fifty_jobs_run_exactly_once_despite_failures(experiment: SlurmExperiment, cluster: SlurmCluster) -> None:
    port = free_port()
    experiment.serve(port)
    task = experiment.submit("hits", JOBS)
    experiment.until(lambda: count(experiment, DONE, task=task) >= 4, 120)

    running_jobs = cluster.output_of("squeue", "--me", "--noheader", "--states=running", "--format=%i").split()
    assert running_jobs, "pilots run"
    cluster.output_of("scancel", *running_jobs)

    experiment.until(lambda: count(experiment, DONE, task=task) >= 12, 120)
    cluster.kill_node()
    cluster.start_node()

    experiment.until(lambda: count(experiment, DONE, task=task) >= 20, 150)
    experiment.kill()
    experiment.serve(port)

    experiment.until(lambda: experiment.status(task) == "done", 600)
    jobs, outputs, inputs = experiment.rows(FINISHED, task=task)[0]
    assert (jobs, outputs, inputs) == (JOBS, JOBS, JOBS), "each once, nothing lost"
    assert experiment.rows(TWICE) == []
    experiment.until(lambda: count(experiment, ALIVE) == 0, 60)
    counts_by_outcome = dict(experiment.rows(OUTCOMES))
    assert (
        counts_by_outcome.get("cancelled", 0) + counts_by_outcome.get("failed", 0) + counts_by_outcome.get("ended", 0)
        >= 1
    ), counts_by_outcome
    assert counts_by_outcome.get("finished", 0) >= 1, counts_by_outcome


@pytest.mark.parametrize("point", ["before_submission", "after_submission"])
def test_a_crash_around_the_submission_is_healed_by_the_name(experiment: SlurmExperiment, point: str) -> None:
    port = free_port()
    experiment.serve(port, BROKER_FAULT=f"{point}:kill")
    task = experiment.submit("small", 3)
    experiment.until(experiment.has_died, 90)
    alive = count(experiment, ALIVE)
    assert alive >= 1
    experiment.serve(port)
    experiment.until(lambda: experiment.status(task) == "done", 150)
    assert count(experiment, DONE, task=task) == 3
    first = experiment.rows("SELECT outcome, native_id FROM broker.submitted_pilots WHERE worker = 1")[0]
    assert (first[0] == "never_submitted") == (point == "before_submission"), first
    assert experiment.rows(TWICE) == []


def test_pilots_that_wait_too_long_are_ended_and_limits_hold(
    experiment: SlurmExperiment, cluster: SlurmCluster
) -> None:
    cluster.output_of("scontrol", "update", "PartitionName=main", "State=DOWN")
    experiment.serve(free_port())
    try:
        experiment.submit("waiting", 20)
        experiment.until(lambda: count(experiment, SUBMITTED) == 4, 90)
        pending_jobs = cluster.output_of("squeue", "--me", "--noheader", "--states=pending", "--format=%i").split()
        assert len(pending_jobs) == 4, "most_waiting, and never more"
        experiment.stop()
        file = experiment.config / "agents.yaml"
        file.write_text(file.read_text().replace('"most_pilots"', '"longest_wait_s": 1, "most_new": 0, "most_pilots"'))
        experiment.broker("run", "submitter")
        assert dict(experiment.rows(OUTCOMES)) == {"waited_too_long": 4}
        experiment.until(lambda: not cluster.output_of("squeue", "--me", "--noheader", "--states=pending").strip(), 30)
    finally:
        cluster.output_of("scontrol", "update", "PartitionName=main", "State=UP")
