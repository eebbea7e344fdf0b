"""``broker user``: a user's tasks, throttles and usage."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import Json, query_context
from broker.cli.elsewhere import RemoteAnswer
from broker.cli.output import print_json, print_table, say
from broker.decisions.answers.known_reasons import cure
from broker.domain.words import many, number, size
from broker.history.answers.list_models import TaskFilters, TaskList, UserAnswer
from broker.history.answers.user import throttle_sentences, user_answer
from broker.history.commands.tasks import show_tasks

ADVICE = {
    "you": "You can do something about",
    "wait": "It goes away by itself: wait for",
    "ask": "Ask whoever runs the queues about",
}


def user(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="User, case-insensitive.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Show a user's tasks, what throttles them in words, who can act on what waits, and the quota."""
    with query_context(context) as query:
        answer = user_answer(query, name)
    if as_json:
        print_json(answer)
        return
    show_user(answer)


def show_user(answer: UserAnswer) -> None:
    """Print a user's tasks, throttles and usage."""
    waiting = sum(line.chunks_waiting > 0 for line in answer.tasks)
    say(f"{answer.user}: {many(len(answer.tasks), 'task')}; waiting: {waiting}.")
    for sentence in throttle_sentences(answer):
        say(sentence)
    for who, text in ADVICE.items():
        codes = [code for code, whose in answer.advice.items() if whose == who]
        if codes:
            say(f"{text} {', '.join(codes)}.")
        for code in codes if who == "you" else ():
            say(f"{code}: {cure(code)}")
    filters = TaskFilters(user=answer.user)
    show_tasks(
        TaskList(now=answer.now, filters=filters, total=len(answer.tasks), tasks=answer.tasks), answer.tasks, "Tasks"
    )
    _show_use(answer)


def _show_use(answer: UserAnswer) -> None:
    rows = [
        (
            cap.condition.replace("_", " "),
            number(cap.figure),
            number(cap.cap) if cap.cap > 0 else "none",
            cap.unit,
            cap.key,
        )
        for cap in answer.caps
    ]
    print_table(("what", "now", "cap", "unit", "set by"), rows, title="Caps")
    quotas = [
        (quota.place, size(quota.used_bytes), "none" if quota.limit_bytes is None else size(quota.limit_bytes))
        for quota in answer.quotas
    ]
    print_table(("place", "used", "limit"), quotas, title="Quota")


ELSEWHERE = RemoteAnswer(lambda client, given: client.user(given["name"]), UserAnswer, show_user)
