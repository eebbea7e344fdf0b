"""Values of filters that are known: a list about a name that is nowhere would be empty and say nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from broker.classes.share_preference import ShareNode
from broker.decisions.answers.reason_codes import all_rules, glossary
from broker.decisions.answers.rules import states_now
from broker.domain.work import DroppedRow
from broker.errors import MOST_NEAR, WRONG_USAGE, BrokerError, nearest
from broker.feeds.statements.table_writing import queue_names, site_names
from broker.formats.model.sss.states import GROUP_STATE_OF
from broker.grid.answers.grid import last_snapshot
from broker.grid.answers.models import QueueFilters
from broker.history.answers.list_models import TaskFilters
from broker.history.answers.tasks import OUTCOMES
from broker.history.statements.task_facts import ENDED, read_task_values
from broker.snapshot.build_classes import share_values
from broker.store.classes.share_hs06 import read_share_rows
from broker.store.query_context import Asking

QUEUE_STATUSES = ("online", "offline", "brokeroff", "test", "standby", "paused")
MOST_LISTED = 12
"""Where no name is near and there are no more than these, all of them are said."""


class UnknownValue(BrokerError):
    """A filter has a value that nothing has.

    Attributes:
        field: the filter.
        nearest: known values that are like the one given.
    """

    exit_status = WRONG_USAGE

    def __init__(self, field: str, value: str, known: Iterable[str], where: str = "") -> None:
        names = sorted(set(known))
        self.field, self.nearest = field, nearest(value, names, MOST_NEAR)
        listed = f"known are {', '.join(names)}" if 0 < len(names) <= MOST_LISTED else ""
        remedy = f"did you mean {' or '.join(self.nearest)}?" if self.nearest else listed
        super().__init__(f"there is no {field.replace('_', ' ')} {value[:80]}", where or f"--{field}", remedy)


def known_value(field: str, value: str, known: Iterable[str], where: str = "") -> str:
    """The one of the ``known`` values that is meant, whatever its case.

    Raises:
        UnknownValue: there is none; it says which are near.
    """
    names = set(known)
    if value in names:
        return value
    for one in sorted(names):
        if one.casefold() == value.casefold():
            return one
    raise UnknownValue(field, value, names, where)


def known_task_filters(asking: Asking, filters: TaskFilters) -> TaskFilters:
    """The filters with their values as they are known.

    Raises:
        UnknownValue: nothing has a value.
    """
    known: dict[str, Callable[[], Iterable[str]]] = {
        "status": lambda: {*OUTCOMES, *GROUP_STATE_OF, *ENDED, *_of_tasks(asking, "status")},
        "reason": lambda: _reasons(asking),
        "queue": lambda: {*_of_snapshot(asking, "queue"), *queue_names(asking.connection, asking.names)},
        "nucleus": lambda: {*_of_snapshot(asking, "nucleus"), *_of_tasks(asking, "nucleus")},
        "gshare": lambda: {*_shares(asking), *_of_tasks(asking, "gshare")},
        "user": lambda: _of_tasks(asking, "username"),
    }
    return filters.model_copy(update=_as_known(known, filters))


def known_queue_filters(asking: Asking, filters: QueueFilters) -> QueueFilters:
    """The filters with their values as they are known.

    Raises:
        UnknownValue: nothing has a value.
    """
    known: dict[str, Callable[[], Iterable[str]]] = {
        "status": lambda: {*QUEUE_STATUSES, *_of_snapshot(asking, "status")},
        "site": lambda: {*_of_snapshot(asking, "site"), *site_names(asking.connection, asking.names)},
    }
    return filters.model_copy(update=_as_known(known, filters))


def _as_known(known: Mapping[str, Callable[[], Iterable[str]]], filters: TaskFilters | QueueFilters) -> dict[str, str]:
    given = {field: value for field in known if (value := getattr(filters, field)) is not None}
    return {field: known_value(field, value, known[field]()) for field, value in given.items()}


def _of_tasks(asking: Asking, column: str) -> list[str]:
    return read_task_values(asking.connection, asking.catalogue, column)


def _of_snapshot(asking: Asking, what: str) -> set[str]:
    snapshot = last_snapshot(asking)
    if snapshot is None:
        return set()
    unified = snapshot.unified
    columns = {
        "queue": unified.name,
        "status": unified.status,
        "site": unified.atlas_site,
        "nucleus": snapshot.nuclei.name,
    }
    return {str(one) for one in columns[what] if one}


def _shares(asking: Asking) -> set[str]:
    dropped: list[DroppedRow] = []
    return {
        ShareNode(*value).name for value in share_values(read_share_rows(asking.connection, asking.catalogue), dropped)
    }


def _reasons(asking: Asking) -> set[str]:
    """What rules and steps may give, and what waits for now."""
    unknown = {f"unknown_{one.line.rule}" for one in all_rules(asking)}
    present = {code for one in states_now(asking) for code in (one.reason, one.main_code) if code}
    return {*glossary(asking).codes, *unknown, *present}
