"""``broker classes``: the classes of queues, users and tasks, and the usage of shares, with their age."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import typer

from broker.cli.context import at_option, check_time, moment_of, open_store
from broker.cli.output import print_json, print_table
from broker.domain.classification import (
    SHARE_METRIC,
    SITE_CLASS_NAMES,
    SITE_METRIC,
    TASK_CLASS_NAMES,
    USER_METRIC,
    WAIT_METRIC,
)
from broker.snapshot.raw import MAX_METRIC_CHARACTERS, BadValueError, json_object, seconds
from broker.snapshot.sources.metrics import METRIC_VALIDITY_S
from broker.store.classes.class_rows import read_metric_rows, read_task_rows
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.analysis_requests import EVALUATION_VALID

_SHOWN = {
    "queue": ("queue", "class", "strr_1d", "n", "w_cl95upp", "long_q_n", "long_q_mean"),
    "share": ("gshare", "rank", "usage_perc", "eqiv_usage_perc", "running_hs", "queuing_hs", "target_hs"),
    "user": ("user", "rem_slots_A", "rem_slots_B"),
    "task": ("jeditaskid", "class", "user", "gshare", "pct_finished"),
}
_AGE = ("age_s", "limit_s", "fresh", "problem")


def classes(
    context: typer.Context,
    at: Annotated[str | None, at_option("Ages as of this time")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per class on stdout.")] = False,
) -> None:
    """List the classes of queues, users and tasks, and the usage of shares, with age and whether they count."""
    check_time(at)  # report a wrong time before anything is opened
    with open_store(context) as database:
        now = moment_of(at, database)
        with database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, database.names)
            metrics, tasks = read_metric_rows(connection, catalogue), read_task_rows(connection, catalogue)
    rows_by_kind = {
        "queue": list(_queues(metrics, now)),
        "share": list(_shares(metrics, now)),
        "user": list(_users(metrics, now)),
        "task": list(_tasks(tasks, now)),
    }
    for kind, rows in rows_by_kind.items():
        if json:
            for row in rows:
                print_json({"kind": kind, **row})
            continue
        columns = (*_SHOWN[kind], *_AGE)
        print_table(columns, [[row.get(column) for column in columns] for row in rows], title=f"{kind}: {len(rows)}")


def _queues(rows: list[dict[str, Any]], now: datetime) -> Iterator[dict[str, Any]]:
    waits = {row["computingsite"]: row for row in rows if row["metric"] == WAIT_METRIC}
    limit_s = METRIC_VALIDITY_S[SITE_METRIC]
    for row in rows:
        if row["metric"] == SITE_METRIC:
            document, problem = _document(row)
            wait = waits.pop(row["computingsite"], None)
            class_name = _class_name(document, SITE_CLASS_NAMES)
            measured = {} if wait is None else _document(wait)[0]
            age = _age(row, now, limit_s, problem or _fault(class_name))
            yield {"queue": row["computingsite"], **document, "class": class_name, **measured, **age}
    for queue, row in waits.items():
        document, problem = _document(row)
        age = _age(row, now, limit_s, problem or "too few samples for a class")
        yield {"queue": queue, "class": None, **document, **age}


def _shares(rows: list[dict[str, Any]], now: datetime) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row["metric"] == SHARE_METRIC:
            document, problem = _document(row)
            age = _age(row, now, METRIC_VALIDITY_S[SHARE_METRIC], problem)
            yield {**document, "gshare": row["gshare"], **age}


def _users(rows: list[dict[str, Any]], now: datetime) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row["metric"] != USER_METRIC:
            continue
        document, problem = _document(row)
        if problem is not None:
            yield {"user": None, **_age(row, now, METRIC_VALIDITY_S[USER_METRIC], problem)}
        for user, entry in document.items():
            fault = None if isinstance(entry, dict) else "not an object"
            about = entry if isinstance(entry, dict) else {}
            yield {**about, "user": user, **_age(row, now, METRIC_VALIDITY_S[USER_METRIC], fault)}


def _tasks(rows: list[dict[str, Any]], now: datetime) -> Iterator[dict[str, Any]]:
    for row in rows:
        document, problem = _document(row)
        class_name = _class_name(document, TASK_CLASS_NAMES)
        age = _age(row, now, EVALUATION_VALID.total_seconds(), problem or _fault(class_name))
        yield {"jeditaskid": row["jeditaskid"], **document, "class": class_name, **age}


def _document(row: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The document of a row, and what is wrong with it."""
    try:
        return _finite(json_object(row["value_json"], "value_json", MAX_METRIC_CHARACTERS)), None
    except BadValueError as bad:
        return {}, str(bad)


def _finite(value: Any) -> Any:
    """``value`` with None for numbers that are too large for a float, as 1e999."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _class_name(document: dict[str, Any], names: dict[int, str]) -> str | None:
    number = document.get("class")
    return names.get(int(number)) if isinstance(number, int | float) and number in names else None


def _fault(class_name: str | None) -> str | None:
    return "there is no such class" if class_name is None else None


def _age(row: dict[str, Any], now: datetime, limit_s: float, problem: str | None) -> dict[str, Any]:
    """The age of a row; a row without a time, or with an unreadable document, does not count."""
    timestamp_s = seconds(row["timestamp"], "timestamp")
    age_s = None if row["timestamp"] is None else max(0.0, round(now.timestamp() - timestamp_s, 1))
    fresh = problem is None and now.timestamp() - timestamp_s <= limit_s
    return {"timestamp": row["timestamp"], "age_s": age_s, "limit_s": limit_s, "fresh": fresh, "problem": problem}
