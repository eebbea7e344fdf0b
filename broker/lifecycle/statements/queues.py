"""Queues as the timeouts see them, from the rows of CRIC and of the pilots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from broker.domain.instants import naive
from broker.lifecycle.model.jobs import DISABLE_REASSIGN, PAUSED, UNREADABLE, Queue
from broker.snapshot.queue_rows import Catchall
from broker.snapshot.raw import BadValueError, RawSource, json_object, name, text


def queues_of(queues: RawSource, pilots: RawSource | None) -> dict[str, Queue]:
    """Every queue by each name that jobs may carry.

    PanDA looks up paused queues by the name of the row and the others by the nickname in it. Where the two differ, a
    job may carry either, and a queue that is exempt under one is exempt under both.

    Args:
        queues: the source of that name.
        pilots: the source of that name; None when it cannot be used, so that no queue counts as inactive by it.
    """
    by_name: dict[str, Queue] = {}
    for row in queues.rows("schedconfig_json").records():
        if row["panda_queue"] == "ALL" or row["data"] is None:
            continue
        for queue in _read_queue(row["panda_queue"], row["data"]):
            known = by_name.get(queue.name, queue)
            by_name[queue.name] = replace(known, exceptions=tuple(dict.fromkeys(known.exceptions + queue.exceptions)))
    for site, laststart in _last_starts(pilots).items():
        by_name[site] = replace(by_name.get(site, Queue(site, known=False)), laststart=laststart)
    return by_name


def _read_queue(row_name: str, document: Any) -> Iterator[Queue]:
    try:
        data = json_object(document, "data")
        nickname = name(data.get("nickname") or row_name, "nickname")
    except BadValueError:
        yield Queue(row_name, exceptions=(UNREADABLE,), status=None)
        return
    queue = Queue(nickname, True, *_settings(data))
    yield queue
    if row_name != nickname:
        yield replace(queue, name=row_name)


def _settings(data: dict[str, Any]) -> tuple[tuple[str, ...], str | None, str | None]:
    """Exceptions, status and workflow; what cannot be read may be an exception, so it counts as one."""
    try:
        status, workflow = text(data.get("status"), "status"), text(data.get("workflow"), "workflow")
        params = data.get("params")
        if params is not None and not isinstance(params, dict):
            raise BadValueError("wrong_type", "params", params)
        catchall = Catchall(text(data.get("catchall"), "catchall"), params or {})
    except BadValueError:
        return (UNREADABLE,), None, None
    exceptions = {PAUSED: status == PAUSED, DISABLE_REASSIGN: catchall.flag(DISABLE_REASSIGN)}
    return tuple(name for name, holds in exceptions.items() if holds), status, workflow


def _last_starts(pilots: RawSource | None) -> dict[str, datetime]:
    if pilots is None:
        return {}
    return {
        row["site"]: naive(row["laststart"])
        for row in pilots.rows("sitedata").records()
        if row["flag"] == "production" and isinstance(row["laststart"], datetime)
    }
