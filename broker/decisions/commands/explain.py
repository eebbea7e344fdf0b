"""``broker explain`` and ``broker why-not``: the last decision about a task, and why a queue was not chosen.

On the terminal a decision shows the answer, what would help, its position among the waiting work, then the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.context import at_option, check_time, moment_of, open_store, settings_of
from broker.cli.elsewhere import Arguments, Document, RemoteAnswer
from broker.cli.output import Column, print_facts, print_json, print_table, say
from broker.cli.rendering.cells import Percent, TimeWithAge, remark
from broker.cli.rendering.plotting import Plot, check_plot
from broker.decisions.answers.decision import task_decision
from broker.decisions.answers.decision_model import (
    ExplainedDecision,
    FilterSummary,
    TaskDecision,
    WhyNot,
    WhyNotLine,
    is_of_program,
)
from broker.decisions.answers.phrases import comparison
from broker.decisions.answers.sentences import (
    candidate_sentence,
    cure_sentence,
    feasible_sentence,
    missing_sentences,
    position_sentence,
    remedy_sentence,
    remedy_sentences,
    task_sentence,
    together_sentence,
    verdict_sentence,
    waiting_sentence,
)
from broker.domain.rejection_counts import Counts
from broker.domain.words import many, several
from broker.errors import NOT_PLACED
from broker.store.query_context import QueryContext

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

#: Most helpful changes shown; the others are in --json.
SHOWN_REMEDIES = 6
#: Work that waits for its input, or for its user's other jobs, waits at every queue.
NO_MATTER_WHERE = ("input_missing", "throttled")


def show_explained(answer: TaskDecision) -> None:
    """Print the answer, then what would help and the tables of each decision."""
    show_answer(answer)
    for one in answer.decisions:
        show_decision(answer, one)


def show_answer(answer: TaskDecision) -> None:
    """Print the outcome of each chunk in one sentence, then the task and how long it has waited."""
    for one in answer.decisions:
        say(f"{_chunk(answer, one)}{verdict_sentence(one)} {waiting_sentence(one)}".strip())
    for text in dict.fromkeys(filter(None, map(cure_sentence, answer.decisions))):
        say(text)
    for text in dict.fromkeys(text for one in answer.decisions for text in missing_sentences(one)):
        say(text)
    facts = [
        ("task", task_sentence(answer.task)),
        ("waiting since", TimeWithAge(answer.task.waiting_since, answer.now) if answer.task.waiting_since else None),
        ("next try", _next_try(answer)),
        ("its next job", answer.start.sentence if answer.start else None),
    ]
    print_facts(facts, title=f"Task {answer.task.jeditaskid}")


def _next_try(answer: TaskDecision) -> object:
    if answer.task.redecide == "each_cycle":
        return "decided again each cycle"
    return TimeWithAge(answer.task.next_try_at, answer.now) if answer.task.next_try_at else None


def _chunk(answer: TaskDecision, one: ExplainedDecision) -> str:
    """Prefix naming the chunk, if there are several."""
    if len(answer.decisions) == 1 or one.datasetid is None:
        return ""
    return f"{_named(one).capitalize()}: "


def _named(one: ExplainedDecision) -> str:
    return f"dataset {one.datasetid}, ramcount {one.ramcount or 0:g}"


def show_decision(answer: TaskDecision, one: ExplainedDecision) -> None:
    """Print what would help, the nearest candidates, and the tables of one decision."""
    if len(answer.decisions) > 1:
        say(f"{one.brokerage}{'' if one.datasetid is None else f', {_named(one)}'}")
    _show_help(one)
    _show_near(one)
    print_facts(
        [
            ("decision", one.id),
            ("brokerage", one.brokerage),
            ("chunk", None if one.datasetid is None else _named(one)),
            ("outcome", f"{one.outcome} {one.reason}".strip()),
            ("decided at", TimeWithAge(one.decided_at, answer.now)),
            ("seen again", f"{one.times_seen} times, last {one.seen_at:%H:%M:%S}" if one.times_seen > 1 else None),
            ("snapshot, tuning, seed", f"{one.snapshot}, {one.tuning}, {one.seed}"),
            ("notes", ", ".join(note for note in one.notes if not _shown_elsewhere(note)) or None),
        ],
        title="Decision",
    )
    _show_summary(one.summary, one.candidate_kind)
    _show_candidates(one)
    _show_together(one)
    show_pins(one)


def _show_help(one: ExplainedDecision) -> None:
    if one.remedies.evaluated:
        helpful = one.remedies.helpful[:SHOWN_REMEDIES]
        for remedy in helpful:
            say(f"Would help: {remedy_sentence(remedy, one.candidate_kind)}")
        for sentence in list(remedy_sentences(one))[len(one.remedies.helpful) :]:
            say(sentence)
        more = len(one.remedies.helpful) - len(helpful)
        if more:
            say(f"{many(more, 'change')} more in --json")
    if one.position is not None and one.position.decides:
        say(position_sentence(one.position))


def _show_near(one: ExplainedDecision) -> None:
    if one.near_misses and one.verdict.code not in NO_MATTER_WHERE:
        say("Nearest:")
        for miss in one.near_misses:
            say(f"  {candidate_sentence(miss)}")


def _show_summary(summary: FilterSummary, kind: str) -> None:
    """Print the reasons; in both columns, all rejections and the chosen candidates add up to the start."""
    with_pseudo = summary.start.pseudo_queues is not None
    plural = several(kind)
    heads = ("reason", plural, "remaining", *(("pseudo-queues", "of them remaining") if with_pseudo else ()))
    rows: list[tuple[object, ...]] = [("start", *_pairs(None, summary.start, with_pseudo), "")]
    for line in summary.rejections:
        rows.append((line.code, *_pairs(line.rejected, line.remaining, with_pseudo), ", ".join(line.such_as)))
    rows.append(("chosen", *_pairs(summary.chosen, None, with_pseudo), ""))
    print_table((*heads, Column("such as", drop_order=1)), rows, title=f"Reasons: {plural} rejected and remaining")
    if summary.not_candidates:
        reasons = sorted(summary.not_candidates.items())
        print_table(("name", "why"), reasons, title=f"Named by the task, but no {kind}")


def _pairs(rejected: Counts | None, remaining: Counts | None, with_pseudo: bool) -> tuple[object, ...]:
    numbers: list[object] = []
    for name in ("queues", "pseudo_queues") if with_pseudo else ("queues",):
        numbers += [None if counts is None else getattr(counts, name) for counts in (rejected, remaining)]
    return tuple(numbers)


def _show_candidates(one: ExplainedDecision) -> None:
    factors = list(one.candidates[0].factors) if one.candidates else []
    assignment = "drawn" if one.draw is not None else one.assigned_kind
    columns: tuple[str | Column, ...] = (
        "candidate",
        "probability",
        assignment,
        "weight",
        *(Column(name, drop_order=place + 1) for place, name in enumerate(factors)),
    )
    rows = [
        (
            line.name,
            Percent(line.probability),
            bool(line.assigned) if one.draw is not None else line.assigned,
            line.weight,
            *(line.factors.get(name) for name in factors),
        )
        for line in one.candidates
    ]
    print_table(columns, rows, title="Candidates")


def _shown_elsewhere(note: str) -> bool:
    return note.startswith("throttle:") or is_of_program(note)


def _show_together(one: ExplainedDecision) -> None:
    """Print the queues left by filters and cuts, with the cost of one more job and the binding limit."""
    if one.together is None:
        return
    say(together_sentence(one.together))
    rows = [(queue.name, queue.planned, queue.dearer_hs06h, feasible_sentence(queue)) for queue in one.together.queues]
    columns = ("queue", "jobs", "HS06 h dearer", "what binds")
    print_table(columns, rows, title="Feasible queues, and by how much a job more there is dearer than its best use")


def show_pins(answer: ExplainedDecision | WhyNot) -> None:
    """Print the fields held by operators, which override the values from CRIC."""
    rows = [(one.queue, one.field, str(one.value), one.until, one.editor, one.reason) for one in answer.pins]
    if rows:
        print_table(("queue", "field", "held at", "until", "by", "reason"), rows, title="Held by operators")


Task = Annotated[int, typer.Argument(help="The task (jeditaskid).")]
Json = Annotated[bool, typer.Option("--json", help="One object per line.")]
Name = Annotated[str, typer.Argument(metavar="QUEUE|NUCLEUS", help="A queue, or a nucleus for the task brokerage.")]
Brokerage = Annotated[str | None, typer.Option("--brokerage", help="Brokerage whose last decision is shown [any].")]
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
        bool, typer.Option("--exit-code", help="Exit with status 5 if part of the task was not placed.")
    ] = False,
    plot: Plot = None,
) -> None:
    """Explain why a task waits or where it went: a one-sentence answer, what would help, reasons and candidates."""
    check_time(at)  # report an invalid time before anything is opened
    check_plot(plot)
    with open_store(context) as database:
        now = moment_of(None, database, of_scenario=True)
        until = None if at is None else moment_of(at, database)
        with database.begin() as connection:
            query = QueryContext(connection, database.names, now, settings_of(context).config)
            decision = task_decision(query, task, at=until, brokerage=brokerage, evaluate=evaluate)
    if plot is not None:
        from broker.decisions.commands.decision_pictures import plot_decisions

        plot_decisions(decision, plot)
    if as_json:
        print_json(decision)
    else:
        show_explained(decision)
    if exit_code and any(one.outcome != "brokered" for one in decision.decisions):
        raise typer.Exit(NOT_PLACED)


def why_not(
    context: typer.Context,
    task: Task,
    queue: Name,
    at: At = None,
    every_rule: Annotated[
        bool, typer.Option("--every-rule", help="Show the result of every rule, not only of the one that decided.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the rule that rejected a queue or nucleus for a task, the value, the limit, and the key that set it."""
    from broker.decisions.answers.why_not import why_not as why_not_answer

    check_time(at)  # report an invalid time before anything is opened
    with open_store(context) as database:
        now = moment_of(None, database, of_scenario=True)
        until = None if at is None else moment_of(at, database)
        with database.begin() as connection:
            query = QueryContext(connection, database.names, now, settings_of(context).config)
            answer = why_not_answer(query, database, task, queue, until, every_rule, remark)
    if as_json:
        for line in answer.answers:
            print_json(line)
        return
    show_why_not(answer)


def show_why_not(answer: WhyNot) -> None:
    """Print which rule rejected a queue, and what it compared."""
    rows = []
    for line in answer.answers:
        one, seen = line.candidate, line.candidate.compared
        compared = ("",) * 5 if seen is None else (seen.value, seen.operator, seen.limit, seen.unit, seen.key)
        rows.append((f"{line.datasetid or ''}/{line.ramcount or 0:g}", one.name, one.code, one.rule, *compared))
    columns = (
        Column("chunk", drop_order=4),
        "queue",
        "code",
        Column("rule", drop_order=3),
        "value",
        "must be",
        "limit",
        Column("unit", drop_order=1),
        Column("set by", drop_order=2),
    )
    print_table(columns, rows, title=f"Task {answer.jeditaskid} and {answer.name}")
    for line in answer.answers:
        say(candidate_sentence(line.candidate))
    for line in answer.answers:
        if line.every_rule:
            _show_every_rule(line)
    show_pins(answer)


def _show_every_rule(line: WhyNotLine) -> None:
    rows = [
        (one.rule, one.code, one.verdict.replace("_", " "), "" if one.compared is None else comparison(one.compared))
        for one in line.every_rule
    ]
    print_table(("rule", Column("code", drop_order=1), "says", "saw"), rows, title=line.candidate.name)


def _ask(client: BrokerClient, given: Arguments) -> Document:
    return client.explain(
        given["task"], brokerage=given.get("brokerage"), evaluate=given.get("evaluate", True) and client.has_token
    )


EXPLAIN_ELSEWHERE = RemoteAnswer(_ask, TaskDecision, show_explained)
WHY_NOT_ELSEWHERE = RemoteAnswer(
    lambda client, given: client.why_not(given["task"], given["queue"]), WhyNot, show_why_not, "answers"
)
