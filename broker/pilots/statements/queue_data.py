"""Queues and endpoints as pilots read them. Source: PanDA pilot, queue data and storage data; CRIC, their documents."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from broker.json_depth import is_too_deep
from broker.store.connection.tables import Names

_READ_QUEUES = """
SELECT panda_queue, data::text AS data FROM {panda}.schedconfig_json
WHERE data IS NOT NULL AND panda_queue <> 'ALL'
  AND (CAST(:queue AS text) IS NULL OR panda_queue = :queue OR data ->> 'nickname' = :queue)
ORDER BY panda_queue IS DISTINCT FROM :queue, panda_queue"""
_READ_ENDPOINTS = """
SELECT ddm_endpoint_name AS name, site_name AS site, ddm_spacetoken_name AS token, 'ACTIVE' AS state, type,
    upper(coalesce(is_tape, 'N')) = 'Y' AS is_tape
FROM {panda}.ddm_endpoint ORDER BY 1"""


def queue_data(connection: sa.Connection, names: Names, queue: str) -> dict[str, Any] | None:
    """The settings of a queue; None where there is no such queue, or its settings cannot be read."""
    for row in connection.execute(sa.text(names.sql(_READ_QUEUES)), {"queue": queue}):
        return _for_pilot(row.panda_queue, row.data)
    return None


def all_queue_data(connection: sa.Connection, names: Names) -> dict[str, dict[str, Any]]:
    """The settings of all queues that can be read, by name."""
    rows = connection.execute(sa.text(names.sql(_READ_QUEUES)), {"queue": None})
    settings = {row.panda_queue: _for_pilot(row.panda_queue, row.data) for row in rows}
    return {name: data for name, data in settings.items() if data is not None}


def storage_data(connection: sa.Connection, names: Names) -> dict[str, dict[str, Any]]:
    """The endpoints by name."""
    rows = connection.execute(sa.text(names.sql(_READ_ENDPOINTS))).mappings()
    return {row["name"]: {key: value for key, value in row.items() if value is not None} for row in rows}


def _for_pilot(name: str, text: str) -> dict[str, Any] | None:
    """The settings with the keys that a pilot needs: it fails without atlas_site, and ends without state."""
    if is_too_deep(text):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    nickname = data.get("nickname") or name
    resource = data.get("panda_resource") or nickname
    needed = {"nickname": nickname, "panda_resource": resource, "atlas_site": nickname, "state": "ACTIVE"}
    return needed | {key: value for key, value in data.items() if value is not None}
