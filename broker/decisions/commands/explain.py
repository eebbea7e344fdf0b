"""``broker explain`` and ``broker why-not``: the last decision about a task, and why a queue was not chosen."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import open_store, settings_of
from broker.cli.rendering.json_lines import print_json
from broker.cli.rendering.plot_option import Plot, check_plot
from broker.cli.rendering.tables import Column, print_table, say
from broker.cli.rendering.visible_text import remark
from broker.cli.time_arguments import at_option, check_time, moment_of
from broker.decisions.answers.decision import task_decision
from broker.decisions.answers.decision_model import WhyNot, WhyNotLine
from broker.decisions.answers.phrases import comparison
from broker.decisions.answers.sentences import candidate_sentence
from broker.decisions.commands.explain_text import show_explained, show_pins
from broker.errors import NOT_PLACED
from broker.store.query_context import Asking

Task = Annotated[int, typer.Argument(help="The task (jeditaskid).")]
Json = Annotated[bool, typer.Option("--json", help="One object a line.")]
Name = Annotated[str, typer.Argument(metavar="QUEUE|NUCLEUS", help="A queue, or a nucleus for the task brokerage.")]
Brokerage = Annotated[str | None, typer.Option("--brokerage", help="The last decision of this brokerage; else of any.")]
At = Annotated[str | None, at_option("The last decision up to this time", without="the last of all")]


def explain(
    context: typer.Context,
    task: Task,
    at: At = None,
    brokerage: Brokerage = None,
    as_json: Json = False,
    evaluate: Annotated[
        bool, typer.Option("--evaluate/--no-evaluate", help="Evaluate again for near misses and what would help.")
    ] = True,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with 5 if something of the task was not placed.")
    ] = False,
    plot: Plot = None,
) -> None:
    """Why a task waits, or where it went: the answer in a sentence, what would help, then reasons and candidates."""
    check_time(at)  # a wrong time is told before anything is opened
    check_plot(plot)
    with open_store(context) as database:
        now = moment_of(None, database, of_scenario=True)
        wanted = None if at is None else moment_of(at, database)
        with database.begin() as connection:
            asking = Asking(connection, database.names, now, settings_of(context).config)
            found = task_decision(asking, task, at=wanted, brokerage=brokerage, evaluate=evaluate)
    if plot is not None:
        from broker.cli.rendering.pictures import plot_decisions

        plot_decisions(found, plot)
    if as_json:
        print_json(found)
    else:
        show_explained(found)
    if exit_code and any(one.outcome != "brokered" for one in found.decisions):
        raise typer.Exit(NOT_PLACED)


def why_not(
    context: typer.Context,
    task: Task,
    queue: Name,
    at: At = None,
    every_rule: Annotated[
        bool, typer.Option("--every-rule", help="What every rule says, not only the one that decided.")
    ] = False,
    as_json: Json = False,
) -> None:
    """The rule that rejected a queue or nucleus for a task, the value it saw, the limit, and the key that set it."""
    from broker.decisions.answers.why_not import why_not as why_not_answer

    check_time(at)  # a wrong time is told before anything is opened
    with open_store(context) as database:
        now = moment_of(None, database, of_scenario=True)
        wanted = None if at is None else moment_of(at, database)
        with database.begin() as connection:
            asking = Asking(connection, database.names, now, settings_of(context).config)
            found = why_not_answer(asking, database, task, queue, wanted, every_rule, remark)
    if as_json:
        for line in found.answers:
            print_json(line)
        return
    show_why_not(found)


def show_why_not(found: WhyNot) -> None:
    """Print which rule rejected a queue, and what it compared."""
    rows = []
    for line in found.answers:
        one, seen = line.candidate, line.candidate.compared
        compared = ("",) * 5 if seen is None else (seen.value, seen.operator, seen.limit, seen.unit, seen.key)
        rows.append((f"{line.datasetid or ''}/{line.ramcount or 0:g}", one.name, one.code, one.rule, *compared))
    columns = (
        Column("chunk", give_up=4),
        "queue",
        "code",
        Column("rule", give_up=3),
        "value",
        "must be",
        "limit",
        Column("unit", give_up=1),
        Column("set by", give_up=2),
    )
    print_table(columns, rows, title=f"Task {found.jeditaskid} and {found.name}")
    for line in found.answers:
        say(candidate_sentence(line.candidate))
    for line in found.answers:
        if line.every_rule:
            _show_every_rule(line)
    show_pins(found)


def _show_every_rule(line: WhyNotLine) -> None:
    rows = [
        (one.rule, one.code, one.verdict.replace("_", " "), "" if one.compared is None else comparison(one.compared))
        for one in line.every_rule
    ]
    print_table(("rule", Column("code", give_up=1), "says", "saw"), rows, title=line.candidate.name)
