"""Builds a stored cycle of each brokerage, and reads the rules as shipped."""

from __future__ import annotations

from typing import Any

from broker import resources
from broker.brokerages.profile import read_profile
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import read_proposals
from broker.store.connection.database import Database
from broker.whatif.answers.stored_cases import Selection, stored_cases
from broker.whatif.model.cases import Case, Change, ProfileRules, read_switches, with_switches
from tests.brokerages.small_grid import TASK, dataset, input_files, jobs as jobs_at, one_cycle, replica, scenario, task
from tests.brokerages.task_grid import broker_tasks, outputs, pseudo_input, task_scenario, waiting
from tests.brokerages.test_analysis_scenarios import analysis

SEED = 5
RULES = ProfileRules(read_profile(resources.path("config/profiles/seed.yaml").read_text(encoding="utf-8")))
JOBS, TASKS, ANALYSIS = "production_job", "production_task", "analysis_job"


def change(*values: str, rules: tuple[str, ...] = ()) -> Change:
    """The change that ``--set`` and ``--rule`` would request."""
    profile = with_switches(RULES.profile, read_switches(rules))
    return Change(read_proposals(shipped_catalogue(), values, "atlas"), ProfileRules(profile))


def job_scenario() -> Any:
    """Two tasks of one share, the first taking room from the second, and a third task without any queue."""
    masters, rows = [], []
    for number, count in enumerate((150, 40, 20)):
        ids = {"jeditaskid": TASK + number, "datasetid": TASK + number + 1000}
        masters.append(dataset(count, **ids))
        files = input_files(count, 2 * 1024**3)
        rows += [{**row, **ids, "fileid": (TASK + number) * 200 + at} for at, row in enumerate(files)]
    return scenario(
        jedi_tasks=[task(), task(jeditaskid=TASK + 1), task(jeditaskid=TASK + 2, ramcount=90_000)],
        jedi_datasets=masters,
        jedi_dataset_contents=rows,
        dataset_replicas=[replica("ALPHA", 150, 150), replica("BETA", 150, 150)],
        jobsactive4=[*jobs_at("ALPHA_MCORE", 1, running=49), *jobs_at("BETA", 100, running=30)],
    )


def assigning_scenario() -> Any:
    """Two tasks of one share that need a nucleus; the second sees the work of the first."""
    return task_scenario(
        jedi_tasks=[waiting(), waiting(jeditaskid=TASK + 1, currentpriority=400)],
        jedi_datasets=[
            *(pseudo_input(jeditaskid=TASK + at, datasetid=8000 + at * 10) for at in range(2)),
            *(row for at in range(2) for row in outputs(TASK + at, 8100 + at * 10)),
        ],
        jedi_dataset_contents=[
            {**row, "jeditaskid": TASK + at, "datasetid": 8000 + at * 10, "fileid": at * 50 + number}
            for at in range(2)
            for number, row in enumerate(input_files(5, 0, type="pseudo_input", fsize=None))
        ],
    )


def stored_case(database: Database, brokerage: str) -> Case:
    """The cycle of a brokerage in a fresh database."""
    if brokerage == TASKS:
        broker_tasks(database, assigning_scenario(), seed=SEED)
    else:
        chosen_scenario = job_scenario() if brokerage == JOBS else analysis()
        assert one_cycle(database, chosen_scenario, seed=SEED, agent=brokerage)[0].outcome == "done"
    (case,) = stored_cases(database, Selection())
    return case
