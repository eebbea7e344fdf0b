"""``broker demo``: load, broker and explain an example grid from start to finish, in a database of its own."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from broker import resources
from broker.cli.context import open_store, require, settings_of
from broker.cli.output import console, print_json
from broker.decisions.answers.agent_cycle import JOB_AGENT, TASK_AGENT, USER_AGENT, broker_once
from broker.decisions.answers.explain import answers_about
from broker.engine.shared.answer import CandidateVerdict
from broker.simulation.answers.demo_driver import DemoDriver
from broker.simulation.answers.shipped_simulation import keep_shipped_simulation
from broker.simulation.commands.demo_live import go_on
from broker.simulation.commands.demo_report import DemoRun, print_next, print_report, report_object
from broker.simulation.model.demo.facts import DemoFacts, facts_from_texts
from broker.simulation.model.demo.grid import build_scenario
from broker.simulation.model.demo.summary import Decision, Summary, nuclei_given, summarise, user_tasks
from broker.simulation.model.demo.task_rows import FIRST_TASK
from broker.store.connection.database import Database
from broker.store.connection.opening import open_database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario

FOLDER = "demo"
EXPLAINED_TASK = "too_much_memory"
DEFAULT_SEED = 1
PORT = 8642


def demo(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the jobs.")] = False,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the grid's load and of the draws.")
    ] = DEFAULT_SEED,
    where: Annotated[
        bool, typer.Option("--where", help="Only print the folder of its database, for BROKER_HOME.")
    ] = False,
    web: Annotated[
        bool, typer.Option("--web", help="Then keep the grid running, and serve the page on it, until stopped.")
    ] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the page; 0: any free port.")] = PORT,
    as_json: Annotated[bool, typer.Option("--json", help="One object on stdout.")] = False,
) -> None:
    """Broker a whole example grid: load it, place its jobs, show who got what and why some tasks wait.

    It runs in an embedded database of its own, or in the (empty) one that --db names.
    """
    if web:
        require("web")
    if where:
        typer.echo(str(settings_of(context).home / FOLDER))
        return
    stages = _Stages(quiet=as_json)
    with contextlib.ExitStack() as stack:
        with stages.shown():
            with stages.stage("Reading the grid"):
                facts = facts_from_texts(
                    path.read_text(encoding="utf-8") for path in sorted(resources.path("config/demo").glob("*.yaml"))
                )
                now = datetime.now(UTC).replace(microsecond=0)
                scenario = Scenario.of(build_scenario(facts, now, seed, quick))
            with stages.stage("Starting the database"):
                database = stack.enter_context(_open(context))
            run = _run(context, database, facts, scenario, seed, stages)
        _print(run, as_json=as_json, web=web)
        if web:
            driver = DemoDriver(database, facts, seed, scenario.now)
            go_on(database, driver, settings_of(context), settings_of(context).home / FOLDER, port)


def _print(run: DemoRun, *, as_json: bool, web: bool) -> None:
    if as_json:
        print_json(report_object(run))
        return
    print_report(run)
    print_next(run)
    if not web:
        print("\nSee it live on a web page, with cycles going on:\n  broker demo --web")


@dataclass
class _Stages:
    """Shows the progress of the stages on stderr, and measures the time of each."""

    quiet: bool
    seconds: dict[str, float] = field(default_factory=dict)
    _bar: Progress | None = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console(sys.stderr), disable=self.quiet) as self._bar:
            yield

    @contextlib.contextmanager
    def stage(self, title: str, steps: int = 1) -> Iterator[_Step]:
        bar = self._bar
        if bar is None:
            raise RuntimeError("no progress is shown; enter shown() first")
        number = bar.add_task(title, total=steps)
        started = perf_counter()
        yield _Step(bar, number)
        self.seconds[title] = perf_counter() - started
        bar.update(number, completed=steps)


@dataclass(frozen=True)
class _Step:
    """The current stage."""

    bar: Progress
    number: Any

    def advance(self) -> None:
        """Count one more finished step."""
        self.bar.advance(self.number)


def _open(context: typer.Context) -> Database:
    settings = settings_of(context)
    if settings.database_url is not None:
        return open_store(context, make=True)
    return open_database(None, settings.home / FOLDER)


def _run(
    context: typer.Context, database: Database, facts: DemoFacts, scenario: Scenario, seed: int, stages: _Stages
) -> DemoRun:
    own = settings_of(context).database_url is None
    rows = sum(len(table) for table in scenario.tables.values())
    with stages.stage(f"Loading {rows:,} rows"):
        load(database, scenario, replace=own)
        keep_shipped_simulation(database)
    of_tasks: list[Decision] = []
    waiting = sum(task.waits_for_nucleus for task in facts.tasks)
    with stages.stage("Finding nuclei", waiting):
        broker_once(TASK_AGENT, database, scenario.now, seed, of_tasks.append)
    output: list[Decision] = []
    of_users: list[Decision] = []
    users = {FIRST_TASK + index: task.user for index, task in enumerate(facts.tasks) if task.user is not None}
    for title, agent, tasks, decisions in (
        ("Brokering", JOB_AGENT, len(facts.tasks) - len(users), output),
        ("Brokering users' tasks", USER_AGENT, len(users), of_users),
    ):
        with stages.stage(title, tasks) as step:
            broker_once(agent, database, scenario.now, seed, partial(_record_decision, decisions, step))
    summary = summarise(output)
    with stages.stage("Asking why"):
        explained = _explanation(database, facts, summary, output)
    where = str(settings_of(context).home / FOLDER) if own else repr(database)
    waiting_users = [int(entry["jeditaskid"]) for entry in of_users if entry["outcome"] in ("throttled", "pending")]
    return DemoRun(
        summary=summary,
        titles={FIRST_TASK + index: (task.name, task.note) for index, task in enumerate(facts.tasks)},
        grid={
            "sites": len(facts.sites),
            "queues": len(facts.queues),
            "nuclei": sum(site.nucleus for site in facts.sites.values()),
            "links": len(facts.links),
            "tasks": len(facts.tasks) - len(users),
            "tasks of users": len(users),
            "input files": sum(row["status"] == "ready" for row in scenario.tables["jedi_dataset_contents"]),
        },
        seconds=stages.seconds,
        explained=explained,
        where=where,
        commands=_commands(where if own else None, summary, explained, waiting_users),
        nuclei=nuclei_given(of_tasks, output),
        user_tasks=user_tasks(of_users),
        users=users,
    )


def _record_decision(decisions: list[Decision], step: _Step, decision: Decision) -> None:
    decisions.append(decision)
    step.advance()


def _explanation(
    database: Database, facts: DemoFacts, summary: Summary, decisions: Sequence[Decision]
) -> tuple[int, list[CandidateVerdict]] | None:
    """One waiting task, and the answer about one queue for each of the codes that removed most of its candidates."""
    waiting = {chunk.jeditaskid: chunk for chunk in summary.waiting if chunk.codes}
    if not waiting:
        return None
    wanted = next((FIRST_TASK + index for index, task in enumerate(facts.tasks) if task.name == EXPLAINED_TASK), None)
    chunk = waiting.get(wanted or 0) or next(iter(waiting.values()))
    rejected = next(one["rejected"] for one in decisions if one["jeditaskid"] == chunk.jeditaskid)
    answers: list[CandidateVerdict] = []
    for code, _ in chunk.codes:
        queue = next((name for name, why in rejected.items() if why == code), None)
        if queue is not None:
            answers += answers_about(database, chunk.jeditaskid, queue)[:1]
    return chunk.jeditaskid, answers


def _commands(
    home: str | None,
    summary: Summary,
    explained: tuple[int, Sequence[CandidateVerdict]] | None,
    of_users: Sequence[int],
) -> list[str]:
    """Commands to try next on the loaded grid."""
    first = [f"export BROKER_HOME={home}"] if home is not None else []
    waiting = [] if explained is None else [f"broker explain {explained[0]}"]
    if explained is not None and summary.queues:
        waiting.append(f"broker why-not {explained[0]} {summary.queues[0].queue}")
    return [
        *first,
        *waiting,
        f"broker explain {FIRST_TASK}",
        *(f"broker explain {task}" for task in of_users),
        "broker rules production_task",
        "broker rules production_job",
        "broker rules analysis_job",
        "broker config set 'NQUEUELIMITSITE_MC 23' 800 --reason 'let queues hold more jobs'",
        "broker run production_job --dry-run",
    ]
