"""The source ``storages``: endpoints, their space, and the queues that use them.

Source: PanDA data model, sites, storages and relations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, floats, texts
from broker.domain.grid import RelationTable, StorageTable
from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import BadValueError, RawSource, json_object, name, not_negative, number, text
from broker.snapshot.source import SourceLimit, TableRead
from broker.snapshot.sources.queues import QUEUES

SPACE_COLUMNS = ("space_total", "space_free", "space_expired", "space_min_free", "space_unavailable")
ACTIVITIES = ("read_lan", "write_lan", "read_wan", "write_wan")


@dataclass(frozen=True)
class KnownStorages:
    """Endpoints, and the relations of queues to them."""

    storages: StorageTable
    relations: RelationTable


class Storages(GridSource[KnownStorages]):
    """Endpoints, their space, and relations of queues to them."""

    name = "storages"
    reads = (
        TableRead(
            "ddm_endpoint",
            (
                "ddm_endpoint_name",
                "site_name",
                "type",
                "is_tape",
                *SPACE_COLUMNS,
                "blacklisted_read",
                "detailed_status",
                "space_timestamp",
            ),
            ("detailed_status",),
            "space_timestamp",
            optional=("space_min_free", "space_unavailable", "detailed_status"),
        ),
        TableRead(
            "panda_ddm_relation",
            (
                "panda_site_name",
                "ddm_endpoint_name",
                "is_local",
                "roles",
                "order_read",
                "order_write",
                "default_read",
                "default_write",
                "scope",
            ),
        ),
    )
    limit = SourceLimit(max_age_s=172_800.0, may_be_empty=False, max_shrink=0.5, main_table="ddm_endpoint")

    def build(self, raw: RawSource, draft: Draft) -> KnownStorages:
        """Build the endpoints by name, and the relations of known queues to them."""
        storages = build_storages(raw, draft.dropped_rows)
        return KnownStorages(storages, build_relations(raw, draft.of(QUEUES).rows, storages, draft.dropped_rows))


STORAGES = Storages()


def _activity_states(record: dict[str, Any], document: Any, dropped_rows: list[DroppedRow]) -> dict[str, bool]:
    # an unpublished activity is usable; an unreadable document publishes nothing, which is reported
    published: dict[str, Any] = {}
    if document is not None:
        try:
            published = json_object(document, "detailed_status")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("storages", record["name"], "defaulted", str(bad)))
    states = {activity: published.get(activity) in (None, "", "ON") for activity in ACTIVITIES}
    return states | {f"open_{activity}": published.get(activity) not in ("OFF", "TEST") for activity in ACTIVITIES}


def _storage_record(row: dict[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = {"name": name(row["ddm_endpoint_name"], "ddm_endpoint_name")}
    record["site_name"] = text(row["site_name"], "site_name")
    record["type"] = text(row["type"], "type")
    record["is_tape"] = row["is_tape"] == "Y"
    record["blacklisted_read"] = row["blacklisted_read"] == "Y"
    for column in SPACE_COLUMNS:
        record[column] = not_negative(row[column], column)
    return record


def build_storages(source: RawSource, dropped_rows: list[DroppedRow]) -> StorageTable:
    """The endpoints by name. One with an impossible space figure is dropped."""
    records: dict[str, dict[str, Any]] = {}
    for row in source.rows("ddm_endpoint").records():
        try:
            record = _storage_record(row)
            if record["name"] in records:
                raise BadValueError("duplicate", "ddm_endpoint_name", record["name"])
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("storages", str(row["ddm_endpoint_name"])[:80], bad.code, str(bad)))
            continue
        record.update(_activity_states(record, row["detailed_status"], dropped_rows))
        records[record["name"]] = record
    rows = [records[key] for key in sorted(records)]

    def bits(key: str) -> Bools:
        return np.array([row[key] for row in rows], dtype=np.bool_)

    return StorageTable(
        name=texts(row["name"] for row in rows),
        site_name=texts(row["site_name"] for row in rows),
        type=texts(row["type"] for row in rows),
        is_tape=bits("is_tape"),
        space_total_gb=floats(row["space_total"] for row in rows),
        space_free_gb=floats(row["space_free"] for row in rows),
        space_expired_gb=floats(row["space_expired"] for row in rows),
        space_min_free_gb=floats(row["space_min_free"] for row in rows),
        space_unavailable_gb=floats(row["space_unavailable"] for row in rows),
        blacklisted_read=bits("blacklisted_read"),
        read_lan=bits("read_lan"),
        write_lan=bits("write_lan"),
        read_wan=bits("read_wan"),
        write_wan=bits("write_wan"),
        **{f"open_{activity}": bits(f"open_{activity}") for activity in ACTIVITIES},
    )


def _relation(row: dict[str, Any], blacklisted_read: bool) -> tuple[Any, ...]:
    scope = text(row["scope"], "scope") or "default"
    roles = {role.strip().removesuffix(f"_{scope}") for role in (text(row["roles"], "roles") or "").split(",")}
    return (
        scope,
        "read_lan" in roles and not blacklisted_read,
        "write_lan" in roles,
        number(row["order_read"], "order_read"),
        number(row["order_write"], "order_write"),
        row["default_read"] == "Y",
        row["default_write"] == "Y",
        row["is_local"] != "N",
    )


def build_relations(
    source: RawSource, unified: dict[str, int], storages: StorageTable, dropped_rows: list[DroppedRow]
) -> RelationTable:
    """The relations of queues to endpoints; a relation to an endpoint that is not on record is dropped."""
    storage_index = {str(key): index for index, key in enumerate(storages.name)}
    rows = []
    for row in source.rows("panda_ddm_relation").records():
        queue = unified.get(row["panda_site_name"])
        if queue is None:
            continue
        storage = storage_index.get(row["ddm_endpoint_name"])
        if storage is None:
            pair = f"{row['panda_site_name']} {row['ddm_endpoint_name']}"
            dropped_rows.append(
                DroppedRow("storages", pair[:80], "unknown_endpoint", "relation to an endpoint not on record")
            )
            continue
        try:
            rows.append((queue, storage, *_relation(row, bool(storages.blacklisted_read[storage]))))
        except BadValueError as bad:
            pair = f"{row['panda_site_name']} {row['ddm_endpoint_name']}"
            dropped_rows.append(DroppedRow("storages", pair[:80], bad.code, str(bad)))
    rows.sort(key=lambda relation: relation[:3])
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(10)]
    return RelationTable(
        unified=np.array(columns[0], dtype=np.int64),
        storage=np.array(columns[1], dtype=np.int64),
        scope=texts(columns[2]),
        is_input=np.array(columns[3], dtype=np.bool_),
        is_output=np.array(columns[4], dtype=np.bool_),
        order_read=floats(columns[5]),
        order_write=floats(columns[6]),
        default_read=np.array(columns[7], dtype=np.bool_),
        default_write=np.array(columns[8], dtype=np.bool_),
        is_local=np.array(columns[9], dtype=np.bool_),
    )
