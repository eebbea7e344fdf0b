"""Search by a few letters: tasks and jobs by number; tasks, queues, sites, keys and reasons by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from broker.decisions.answers.reason_codes import glossary, profile_rules
from broker.errors import nearest
from broker.grid.answers.queues import queues
from broker.history.statements.task_facts import (
    TaskSelection,
    read_job,
    read_task_facts,
    read_task_names,
    read_user_names,
)
from broker.store.query_context import QueryContext, ResponseModel

Kind = Literal["task", "job", "queue", "site", "user", "key", "reason", "rule"]
MOST_OF_A_KIND, LONGEST_NUMBER = 8, 18
#: PanDA's numbers begin with 1.
FIRST_NUMBER = 1


class SearchHit(ResponseModel):
    """An object with a page.

    Attributes:
        kind: kind of object.
        name: number or name.
        said: description.
        place: number or name as part of the address of its page.
    """

    kind: Kind
    name: str
    said: str
    place: str


class Search(ResponseModel):
    """Search results: exact matches first, then similar names.

    Attributes:
        asked: search text.
        hits: results, nearest names first.
        exact: whether the first result matches by its number or whole name.
    """

    asked: str
    exact: bool
    hits: tuple[SearchHit, ...]


def search(query: QueryContext, text: str, keys: Iterable[str], *, with_names: bool) -> Search:
    """Return the results of a search.

    Args:
        query: query context of the request.
        text: a few letters, or a number.
        keys: tuning keys.
        with_names: whether to search the names of users, and of tasks, which may contain user names.
    """
    words = text.strip()
    if not words:
        return Search(asked="", exact=False, hits=())
    hits = list(_by_number(query, words)) + _by_name(query, words, keys)
    if with_names:
        hits += _of_people(query, words)
    folded = words.casefold()
    hits.sort(key=lambda hit: (hit.name.casefold() != folded, folded not in hit.name.casefold()))
    exact = bool(hits) and hits[0].name.casefold() == folded
    return Search(asked=words, exact=exact, hits=tuple(hits))


def _by_number(query: QueryContext, words: str) -> Iterable[SearchHit]:
    if not (words.isascii() and words.isdigit() and len(words) <= LONGEST_NUMBER and int(words) >= FIRST_NUMBER):
        return
    number = int(words)
    facts = read_task_facts(query.connection, query.catalogue, TaskSelection(tasks=[number])).get(number)
    if facts is not None:
        yield SearchHit(kind="task", name=words, said=str(facts["taskname"] or ""), place=str(number))
    job = read_job(query.connection, query.catalogue, number)
    if job is not None:
        yield SearchHit(kind="job", name=words, said=str(job["jobstatus"]), place=str(number))


def _by_name(query: QueryContext, words: str, keys: Iterable[str]) -> list[SearchHit]:
    lines = {line.queue: line for line in queues(query, with_decisions=False).queues}
    sites = {line.site for line in lines.values() if line.site}
    codes = glossary(query).codes
    rules = {rule.name: rule.title for rule in profile_rules(query.config)}
    hits = [
        SearchHit(kind="queue", name=name, said=f"{lines[name].status or 'unknown'}, site {lines[name].site or '-'}",
                  place=name)
        for name in nearest(words, lines, MOST_OF_A_KIND)
    ]  # fmt: skip
    hits += [
        SearchHit(kind="site", name=name, said="its queues", place=name)
        for name in nearest(words, sites, MOST_OF_A_KIND)
    ]
    hits += [
        SearchHit(kind="reason", name=name, said=codes[name], place=name)
        for name in nearest(words, codes, MOST_OF_A_KIND)
    ]
    hits += [
        SearchHit(kind="rule", name=name, said=rules[name], place=name)
        for name in nearest(words, rules, MOST_OF_A_KIND)
    ]
    hits += [
        SearchHit(kind="key", name=name, said="of the tuning", place=name)
        for name in nearest(words, keys, MOST_OF_A_KIND)
    ]
    return hits


def _of_people(query: QueryContext, words: str) -> list[SearchHit]:
    users = read_user_names(query.connection, query.catalogue)
    hits = [
        SearchHit(kind="user", name=name, said="tasks, throttles, caps", place=name)
        for name in nearest(words, users, MOST_OF_A_KIND)
    ]
    tasks = read_task_names(query.connection, query.catalogue, words, MOST_OF_A_KIND)
    return hits + [
        SearchHit(kind="task", name=name, said=f"task {number}", place=str(number)) for number, name in tasks
    ]
