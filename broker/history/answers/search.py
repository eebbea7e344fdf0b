"""Search by a few letters: a task or job by number, and tasks, queues, sites, keys and reasons by name."""

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
from broker.store.query_context import Answer, Asking

Kind = Literal["task", "job", "queue", "site", "user", "key", "reason", "rule"]
MOST_OF_A_KIND, LONGEST_NUMBER = 8, 18
#: Numbers of PanDA begin with 1.
FIRST_NUMBER = 1


class SearchHit(Answer):
    """Something with a page.

    Attributes:
        kind: of what kind it is.
        name: its number or name.
        said: what is said of it.
        place: its number or name as part of the address of its page.
    """

    kind: Kind
    name: str
    said: str
    place: str


class Search(Answer):
    """What was found for some letters: what has that very name first, then what has a name like it.

    Attributes:
        asked: the letters.
        hits: the nearest names first.
        exact: whether the first is what was asked for, by its number or whole name.
    """

    asked: str
    exact: bool
    hits: tuple[SearchHit, ...]


def search(asking: Asking, text: str, keys: Iterable[str], *, with_names: bool) -> Search:
    """Results of a search.

    Args:
        asking: of the request.
        text: some letters, or a number.
        keys: of the tuning.
        with_names: whether names of users, and of tasks, which may hold those, are looked at.
    """
    wanted = text.strip()
    if not wanted:
        return Search(asked="", exact=False, hits=())
    hits = list(_by_number(asking, wanted)) + _by_name(asking, wanted, keys)
    if with_names:
        hits += _of_people(asking, wanted)
    folded = wanted.casefold()
    hits.sort(key=lambda hit: (hit.name.casefold() != folded, folded not in hit.name.casefold()))
    exact = bool(hits) and hits[0].name.casefold() == folded
    return Search(asked=wanted, exact=exact, hits=tuple(hits))


def _by_number(asking: Asking, wanted: str) -> Iterable[SearchHit]:
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) <= LONGEST_NUMBER and int(wanted) >= FIRST_NUMBER):
        return
    number = int(wanted)
    facts = read_task_facts(asking.connection, asking.catalogue, TaskSelection(tasks=[number])).get(number)
    if facts is not None:
        yield SearchHit(kind="task", name=wanted, said=str(facts["taskname"] or ""), place=str(number))
    job = read_job(asking.connection, asking.catalogue, number)
    if job is not None:
        yield SearchHit(kind="job", name=wanted, said=str(job["jobstatus"]), place=str(number))


def _by_name(asking: Asking, wanted: str, keys: Iterable[str]) -> list[SearchHit]:
    lines = {line.queue: line for line in queues(asking, with_decisions=False).queues}
    sites = {line.site for line in lines.values() if line.site}
    codes = glossary(asking).codes
    rules = {one.name: one.title for one in profile_rules(asking.config)}
    found = [
        SearchHit(kind="queue", name=name, said=f"{lines[name].status or 'unknown'}, site {lines[name].site or '-'}",
                  place=name)
        for name in nearest(wanted, lines, MOST_OF_A_KIND)
    ]  # fmt: skip
    found += [
        SearchHit(kind="site", name=name, said="its queues", place=name)
        for name in nearest(wanted, sites, MOST_OF_A_KIND)
    ]
    found += [
        SearchHit(kind="reason", name=name, said=codes[name], place=name)
        for name in nearest(wanted, codes, MOST_OF_A_KIND)
    ]
    found += [
        SearchHit(kind="rule", name=name, said=rules[name], place=name)
        for name in nearest(wanted, rules, MOST_OF_A_KIND)
    ]
    found += [
        SearchHit(kind="key", name=name, said="of the tuning", place=name)
        for name in nearest(wanted, keys, MOST_OF_A_KIND)
    ]
    return found


def _of_people(asking: Asking, wanted: str) -> list[SearchHit]:
    users = read_user_names(asking.connection, asking.catalogue)
    found = [
        SearchHit(kind="user", name=name, said="tasks, throttles, caps", place=name)
        for name in nearest(wanted, users, MOST_OF_A_KIND)
    ]
    tasks = read_task_names(asking.connection, asking.catalogue, wanted, MOST_OF_A_KIND)
    return found + [
        SearchHit(kind="task", name=name, said=f"task {number}", place=str(number)) for number, name in tasks
    ]
