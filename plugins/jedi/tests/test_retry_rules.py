"""PanDA's real retry module beside the broker's retry rules: on the same errors both do the same.

But where PanDA's module has a fault that is not copied; each has a case of its own here.
"""

from __future__ import annotations

import random
from datetime import UTC
from types import SimpleNamespace
from typing import Any

import pytest
from grids.generator import scenario
from panda import task_buffer
from panda.installation import CLOCK

from broker.retries.model.retry_effects import effect_of
from broker.retries.model.retry_rules import JobError, JobScope, RetryRule, by_error, judge
from broker.retries.statements import retry_rows, retry_writes
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue

FIRST = ("increase_memory", "increase_memory_xtimes", "increase_cputime", "reduce_input_per_job")
SOURCES = ("pilotErrorCode", "exeErrorCode", "ddmErrorCode", "transExitCode")
MESSAGES = ("out of memory", "lost\nheartbeat", "", "no space left")
PATTERNS = (None, None, ".*memory", "memory", "out", "lost.*beat", "no space$")
RELEASES, ARCHITECTURES, QUEUES = (None, "A", "B"), (None, "x86", "arm"), (None, 1, 2)


class Recording:
    """Stands for the task buffer: gives rules, and keeps what the module asks of it."""

    def __init__(self, rules: list[RetryRule]) -> None:
        self.asked: list[tuple[str, int | None]] = []
        self._rules: dict[str, dict[int, list[dict[str, Any]]]] = {}
        for one in rules:
            self._rules.setdefault(one.source, {}).setdefault(one.code, []).append({
                "error_id": one.rule_id, "error_diag": one.diag, "action": one.action, "params": dict(one.parameters),
                "architecture": one.scope.architecture, "release": one.scope.release, "wqid": one.scope.workqueue_id,
                "active": one.active,
            })  # fmt: skip

    def getRetrialRules(self) -> Any:
        return self._rules

    def setNoRetry(self, *_: Any) -> None:
        self.asked.append(("no_retry", 0))

    def setMaxAttempt(self, *given: Any) -> None:
        self.asked.append(("limit_retry", given[-1]))

    def increaseRamLimitJobJEDI(self, *_: Any) -> None:
        self.asked.append(("increase_memory", None))

    def increaseRamLimitJobJEDI_xtimes(self, *_: Any) -> None:
        self.asked.append(("increase_memory_xtimes", None))

    def initialize_cpu_time_task(self, *_: Any) -> tuple[None, None]:
        self.asked.append(("increase_cputime", None))
        return None, None

    def requestTaskParameterRecalculation(self, *_: Any) -> int:
        return 1

    def reduce_input_per_job(self, *_: Any) -> tuple[bool, str]:
        self.asked.append(("reduce_input_per_job", None))
        return True, ""


def asked_by_panda(rules: list[RetryRule], errors: list[JobError], job: JobScope) -> list[tuple[str, int | None]]:
    from pandaserver.taskbuffer import retryModule

    buffer = Recording(rules)
    spec = SimpleNamespace(
        PandaID=1, jediTaskID=1, AtlasRelease=job.release, cmtConfig=job.architecture, workQueue_ID=job.workqueue_id,
        Files=[], prodSourceLabel="managed", minRamCount=1, computingSite="Q", attemptNr=1,
    )  # fmt: skip
    given = [{"source": one.source, "error_code": one.code, "error_diag": one.diag} for one in errors]
    retryModule.apply_retrial_rules(buffer, spec, given, 1)
    return buffer.asked


def asked_by_broker(rules: list[RetryRule], errors: list[JobError], job: JobScope) -> list[tuple[str, int | None]]:
    found = judge(by_error(rules), errors, job)
    return [(one.rule.action, one.rule.most_attempts) for one in found if one.rule.active]


def rule(number: int, action: Any, source: str = SOURCES[0], code: int = 1, **columns: Any) -> RetryRule:
    return RetryRule("panda", number, source, code, action, columns.pop("active", True), **columns)


def limit(number: int, most: str) -> RetryRule:
    return rule(number, "limit_retry", parameters={"maxAttempt": most})


def drawn(draw: random.Random, active: bool) -> list[RetryRule]:
    """Some rules without what PanDA's module does wrong: see the cases below."""
    found = []
    limits = {(source, code): draw.choice(("no_retry", "limit_retry")) for source in SOURCES for code in (1, 2)}
    for number in range(draw.randint(0, 14)):
        source, code = draw.choice(SOURCES), draw.choice((1, 2))
        action = draw.choice((*FIRST, limits[source, code], limits[source, code]))
        is_for_any = draw.random() >= 0.5
        scope = JobScope() if is_for_any else JobScope(*map(draw.choice, (RELEASES, ARCHITECTURES, QUEUES)))
        parameters = {"maxAttempt": str(draw.randint(1, 9))} if action == "limit_retry" else {}
        diag = draw.choice(PATTERNS)
        found.append(rule(number, action, source, code, active=active, diag=diag, parameters=parameters, scope=scope))
    return found


def test_ten_thousand_errors_lead_to_the_same_actions() -> None:
    draw = random.Random(36)
    acted = 0
    for number in range(10_000):
        rules = drawn(draw, active=number % 10 > 0)
        errors = [
            JobError(source, draw.choice((1, 2, 3)), "" if source == "transExitCode" else draw.choice(MESSAGES))
            for source in SOURCES if draw.random() < 0.6
        ]  # fmt: skip
        job = JobScope(draw.choice(RELEASES), draw.choice(ARCHITECTURES), draw.choice(QUEUES))
        theirs, ours = asked_by_panda(rules, errors, job), asked_by_broker(rules, errors, job)
        assert ours == theirs, (number, rules, errors, job)
        acted += bool(ours)
    assert acted > 2000


ERROR, NEXT, ANY = JobError(SOURCES[0], 1, "x"), JobError(SOURCES[1], 1, "x"), JobScope()


@pytest.mark.parametrize(
    ("rules", "theirs", "ours"),
    [
        (
            [limit(1, "10"), limit(2, "5")],
            [("limit_retry", 10)], [("limit_retry", 5)],
        ),
        (
            [limit(1, "5"), rule(2, "no_retry")],
            [("limit_retry", 5)], [("no_retry", 0)],
        ),
        (
            [rule(1, "no_retry", active=False), rule(2, "increase_memory", SOURCES[1])],
            [], [("increase_memory", None)],
        ),
    ],
    ids=["attempts compared as text", "no retry against a limit", "a passive rule ends the turn"],
)  # fmt: skip
def test_faults_that_are_not_copied(rules: list[RetryRule], theirs: Any, ours: Any) -> None:
    assert asked_by_panda(rules, [ERROR, NEXT], ANY) == theirs
    assert asked_by_broker(rules, [ERROR, NEXT], ANY) == ours


TASK, JOB, FILES = 77_777, 88_888, 10
ACTIONS = ("no_retry", "limit_retry", *FIRST)
TABLES = ("jedi_tasks", "jedi_datasets", "jedi_dataset_contents", "filestable4", "jobsarchived4")
STATE = """
    SELECT ramcount, cputime, cputimeunit, splitrule, walltimeunit IS NULL FROM doma_panda.jedi_tasks
    WHERE jeditaskid = %s"""
FILE_STATE = """
    SELECT fileid, ramcount, maxattempt FROM doma_panda.jedi_dataset_contents WHERE jeditaskid = %s ORDER BY 1"""
SET_STATE = "SELECT nfilesused, nfilesfailed FROM doma_panda.jedi_datasets WHERE jeditaskid = %s"


def insert(site: Any, table: str, **columns: Any) -> None:
    names, places = ", ".join(columns), ", ".join("%s" for _ in columns)
    site.run(f"INSERT INTO doma_panda.{table} ({names}) VALUES ({places})", *columns.values())


def put(site: Any, case: dict[str, Any]) -> None:
    """A task with ten files, two of them with the failed job, and the one rule."""
    for table in TABLES:
        site.run(f"DELETE FROM doma_panda.{table} WHERE jeditaskid = %s", TASK)
    site.run("DELETE FROM doma_panda.retryerrors")
    site.run("DELETE FROM doma_panda.retryactions")
    for number, name in enumerate(ACTIONS, 1):
        insert(site, "retryactions", retryaction_id=number, retry_action=name, active="Y")
    insert(site, "retryerrors", retryerror_id=1, errorsource="pilotErrorCode", errorcode=1212, active="Y",
           retryaction=1 + ACTIONS.index(case["action"]), parameters=case.get("parameters"))  # fmt: skip
    asks = {"ramcount": 2000, "ramunit": "MBPerCore", "baseramcount": 0, "splitrule": None, "cputime": 10,
            "cputimeunit": "HS06sPerEvent", "cpuefficiency": 100, "basewalltime": 600, "walltimeunit": "s"}  # fmt: skip
    insert(site, "jedi_tasks", jeditaskid=TASK, taskname="t", status="running", vo="atlas", prodsourcelabel="managed",
           username="u", workqueue_id=1, modificationtime="2026-07-01", reqid=1,
           **asks | case.get("task", {}))  # fmt: skip
    insert(site, "jedi_datasets", jeditaskid=TASK, datasetid=1, datasetname="d", type="input", status="ready",
           nfiles=FILES, nfilesused=2, nfilesfailed=0, vo="atlas", creationtime="2026-07-01",
           modificationtime="2026-07-01")  # fmt: skip
    for number in range(1, FILES + 1):
        mine = number <= 2
        memory = 3000 if number > FILES - case.get("raised", 0) else 2000
        insert(site, "jedi_dataset_contents", jeditaskid=TASK, datasetid=1, fileid=number, lfn=f"f{number}",
               type="input", status="running" if mine else "ready", attemptnr=case.get("attempt", 1), maxattempt=12,
               keeptrack=1, failedattempt=0, maxfailure=9, nevents=1000, ramcount=memory, pandaid=JOB if mine else None,
               creationdate="2026-07-01", scope="s")  # fmt: skip
        if mine:
            insert(site, "filestable4", row_id=900_000_000 + number, pandaid=JOB, jeditaskid=TASK, datasetid=1,
                   fileid=number, lfn=f"f{number}", type="input", status="ready", fsize=3 * 1024**3,
                   attemptnr=case.get("attempt", 1), modificationtime="2026-07-01", guid="g", scope="s",
                   dataset="d")  # fmt: skip
    job = {"corecount": 8, "minramcount": 14_400, "minramunit": "MB", "attemptnr": case.get("attempt", 1)}
    queue = site.rows(
        "SELECT panda_queue FROM doma_panda.schedconfig_json WHERE (data->>'corepower')::numeric > 0 "
        "AND (data->>'maxtime')::numeric > 0 ORDER BY 1 LIMIT 1"
    )[0][0]
    insert(site, "jobsarchived4", pandaid=JOB, jeditaskid=TASK, jobstatus="failed", computingsite=queue,
           piloterrorcode=1212, piloterrordiag="killed", workqueue_id=1, prodsourcelabel="managed", vo="atlas",
           starttime="2026-07-31 00:00:00", endtime="2026-07-31 10:00:00", creationtime="2026-07-30",
           modificationtime="2026-07-31 10:00:00", statechangetime="2026-07-31 10:00:00", jobdefinitionid=0,
           transformation="run", produsername="u", **job | case.get("job", {}))  # fmt: skip


def state(site: Any) -> tuple[Any, ...]:
    task, *_ = site.rows(STATE, TASK)
    rule_set = None if task[3] is None else sorted(task[3].split(","))
    return task[:3], rule_set, task[4], site.rows(FILE_STATE, TASK), site.rows(SET_STATE, TASK)


def in_panda(site: Any) -> None:
    from pandaserver.taskbuffer import retryModule

    buffer = task_buffer.task_buffer(site.connection)
    (job,) = buffer.peekJobs([JOB], fromDefined=False, fromArchived=True, fromWaiting=False)
    errors = [{"source": "pilotErrorCode", "error_code": 1212, "error_diag": "killed"}]
    retryModule.apply_retrial_rules(buffer, job, errors, job.attemptNr)
    site.connection.commit()


def in_broker(site: Any) -> None:
    now = CLOCK.now.replace(tzinfo=UTC)
    with Database(site.url) as database, database.begin() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        rules = [one.rule for one in retry_rows.read_rules(connection, catalogue) if one.counts(now) and one.rule]
        (job,) = retry_rows.read_failed(connection, catalogue, [JOB])
        for judged in judge(by_error(rules), job.errors, job.scope):
            task = retry_rows.read_task(connection, catalogue, TASK)
            assert task is not None
            effect = effect_of(judged.rule, retry_rows.read_more(connection, catalogue, job, judged.rule), task)
            retry_writes.carry_out(connection, catalogue.names, job, effect, now)


MEMORY = {"action": "increase_memory"}
TIMES = {"action": "increase_memory_xtimes"}
LESS = {"action": "reduce_input_per_job"}
# not increase_cputime: the statements of PanDA's function for it are for Oracle, and end with an error on PostgreSQL
CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "no retry": ({"action": "no_retry"}, True),
    "limit": ({"action": "limit_retry", "parameters": "maxAttempt=5"}, True),
    "limit above": ({"action": "limit_retry", "parameters": "maxAttempt=20"}, False),
    "limit without a number": ({"action": "limit_retry"}, False),
    "memory of files": ({**MEMORY, "raised": 3}, True),
    "memory of the task": ({**MEMORY, "raised": 4}, True),
    "fixed": ({**MEMORY, "raised": 4, "task": {"ramunit": "MBPerCoreFixed"}}, True),
    "base": ({**MEMORY, "task": {"ramcount": 1800, "baseramcount": 500}, "job": {"minramcount": 13_410}}, True),
    "whole job": ({**MEMORY, "task": {"ramcount": 3500, "ramunit": "MB"}, "job": {"minramcount": 3150}}, True),
    "task above": ({**MEMORY, "task": {"ramcount": 4000}}, False),
    "highest": ({**MEMORY, "task": {"ramcount": 8000}, "job": {"minramcount": 57_600}}, False),
    "times without steps": (TIMES, False),
    "times": ({**TIMES, "task": {"splitrule": "RY=4000"}}, True),
    "times at most": ({**TIMES, "task": {"splitrule": "RY=4000,RZ=24000"}}, True),
    "times for the task": ({**TIMES, "raised": 4, "task": {"splitrule": "RY=4000"}}, True),
    "less input": ({**LESS, "attempt": 2}, True),
    "first attempt": ({**LESS, "attempt": 1}, False),
    "a quarter": ({**LESS, "attempt": 4, "task": {"splitrule": "TW=1,NG=8,MF=20"}}, True),
    "again": ({**LESS, "attempt": 7, "task": {"splitrule": "RM=NG:8|MF:20,NG=4,MF=10"}}, True),
    "files are set": ({**LESS, "attempt": 7, "task": {"splitrule": "NF=2"}}, False),
    "own steps": ({**LESS, "attempt": 1, "parameters": "steps=1,5,9&excluded_rules=nEventsPerJob",
                   "task": {"splitrule": "NF=2"}}, True),
}  # fmt: skip


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    return scenario(1, "production_job")


def test_effects_are_equal(make_site: Any, content: dict[str, Any]) -> None:
    site = make_site(content)
    different = {}
    for name, (case, changes) in CASES.items():
        put(site, case)
        before = state(site)
        in_panda(site)
        theirs = state(site)
        assert (theirs != before) == changes, (name, before, theirs)
        put(site, case)
        in_broker(site)
        if state(site) != theirs:
            different[name] = (state(site), theirs)
    assert different == {}


def test_a_file_without_memory_ends_pandas_function_and_not_ours(make_site: Any, content: dict[str, Any]) -> None:
    site = make_site(content)
    for act, changed in ((in_panda, False), (in_broker, True)):
        put(site, MEMORY)
        site.run(
            "UPDATE doma_panda.jedi_dataset_contents SET ramcount = NULL WHERE jeditaskid = %s AND fileid = 5", TASK
        )
        before = state(site)
        act(site)
        assert (state(site) != before) == changed
