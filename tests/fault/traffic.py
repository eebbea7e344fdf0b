"""Background load while brokers fail: tasks get new input, and pilots take, run and report jobs."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import sqlalchemy as sa

from broker.pilots.answers.jobs import ViewShelf, acquire, update
from broker.pilots.model.job_report import JobReport
from broker.pilots.model.job_request import JobRequest
from broker.store.connection.database import Database
from broker.store.connection.transient import TRANSIENT_ERRORS

MORE_INPUT_BELOW = 300
"""Ready files; below it, tasks get more."""
FAILED_SHARE = 0.1
_READY = "SELECT count(*) FROM doma_panda.jedi_dataset_contents WHERE status = 'ready' AND type LIKE '%%input'"
_MORE_INPUT = """
WITH chosen AS (
    SELECT dataset.* FROM doma_panda.jedi_datasets AS dataset JOIN doma_panda.jedi_tasks AS task USING (jeditaskid)
    WHERE dataset.masterid IS NULL AND dataset.type = 'pseudo_input' FOR UPDATE OF task, dataset
), added AS (
    INSERT INTO doma_panda.jedi_dataset_contents (jeditaskid, datasetid, fileid, lfn, type, status, proc_status, scope,
        attemptnr, maxattempt, failedattempt, maxfailure, keeptrack, nevents, startevent, endevent, ramcount)
    SELECT chosen.jeditaskid, chosen.datasetid, last.fileid + more.number, 'more.' || last.fileid + more.number,
        last.type, 'ready', 'ready', last.scope, 0, 5, 0, 3, 1, last.nevents, 0, last.nevents - 1, 0
    FROM chosen CROSS JOIN LATERAL (
        SELECT * FROM doma_panda.jedi_dataset_contents AS file
        WHERE file.jeditaskid = chosen.jeditaskid AND file.datasetid = chosen.datasetid
        ORDER BY fileid DESC LIMIT 1
    ) AS last CROSS JOIN generate_series(1000000, 1000039) AS more (number)
    RETURNING jeditaskid, datasetid
), sums AS (SELECT jeditaskid, datasetid, count(*) AS files FROM added GROUP BY 1, 2), counted AS (
    UPDATE doma_panda.jedi_datasets AS dataset
    SET nfiles = nfiles + files, nfilestobeused = nfilestobeused + files
    FROM sums WHERE (dataset.jeditaskid, dataset.datasetid) = (sums.jeditaskid, sums.datasetid)
)
UPDATE doma_panda.jedi_tasks AS task SET status = 'running', oldstatus = NULL FROM sums
WHERE task.jeditaskid = sums.jeditaskid AND task.status IN ('done', 'finished', 'failed', 'pending')"""
_QUEUES = "SELECT DISTINCT computingsite FROM doma_panda.jobsactive4 WHERE jobstatus = 'activated' ORDER BY 1"


class Traffic:
    """Pilots and tasks.

    Attributes:
        assigned_jobs: the job of each response to a pilot, in order.
        final_reports: the number of final reports accepted.
        errors: errors other than transient errors of the database.
    """

    def __init__(self, database: Database, seed: int) -> None:
        self.assigned_jobs: list[int] = []
        self.final_reports = 0
        self.errors: list[str] = []
        self._database, self._seed = database, seed
        self._lock, self._ending = threading.Lock(), threading.Event()

    @contextmanager
    def running(self, pilots: int) -> Iterator[None]:
        """Run the pilots and add input until the block ends."""
        loops: list[Callable[[], None]] = [self._add_input]
        loops += [self._pilot(number) for number in range(pilots)]
        threads = [threading.Thread(target=self._repeat, args=(loop,)) for loop in loops]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ending.set()
            for thread in threads:
                thread.join()

    def _repeat(self, loop: Callable[[], None]) -> None:
        while not self._ending.wait(0.2):
            try:
                loop()
            except TRANSIENT_ERRORS:
                pass  # the test cut a connection or held a lock
            except Exception as error:
                self.errors.append(repr(error))

    def _add_input(self) -> None:
        with self._database.begin() as connection:
            if connection.exec_driver_sql(_READY).scalar_one() < MORE_INPUT_BELOW:
                connection.exec_driver_sql(_MORE_INPUT)

    def _pilot(self, number: int) -> Callable[[], None]:
        generator, chance, shelf = np.random.default_rng((self._seed, number)), random.Random(number), ViewShelf()

        def run_jobs() -> None:
            with self._database.read_snapshot() as connection:
                queues = connection.execute(sa.text(_QUEUES)).scalars().all()
            for queue in chance.sample(queues, min(5, len(queues))):
                response = acquire(self._database, shelf, JobRequest(queue, node=f"node{number}"), generator)
                for job in response.jobs:
                    with self._lock:
                        self.assigned_jobs.append(int(job["PandaID"]))
                    self._run(int(job["PandaID"]), queue, chance)

        return run_jobs

    def _run(self, pandaid: int, queue: str, chance: random.Random) -> None:
        end = "failed" if chance.random() < FAILED_SHARE else "finished"
        for state in ("starting", "running", end, end):
            with suppress(*TRANSIENT_ERRORS):
                change = update(self._database, JobReport(pandaid, state, queue=queue, output_report="{}"), _anywhere)
                self.final_reports += change.is_final


def _anywhere(queue: str | None) -> bool:
    return True
