"""The source ``queues``: CRIC's queues with the operators' pins, and ATLAS sites with their queues."""

from __future__ import annotations

from dataclasses import dataclass

from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.queue_rows import QueueRecord, read_queue
from broker.snapshot.raw import BadValueError, RawSource, name, text
from broker.snapshot.source import SourceLimit, TableRead
from broker.snapshot.sources.pins import NO_PINS, PINS, Pinned, unknown_queues


@dataclass(frozen=True)
class KnownQueues:
    """Queues and sites.

    Attributes:
        records: the usable queues by name; row u of a table of unified queues is the u-th record.
        rows: name of a queue to its row.
        site_of_queue: queue to ATLAS site.
        sites: ATLAS site to its role and state.
    """

    records: list[QueueRecord]
    rows: dict[str, int]
    site_of_queue: dict[str, str]
    sites: dict[str, tuple[str | None, str | None]]


class Queues(GridSource[KnownQueues]):
    """CRIC queues, refreshed every 200 s."""

    name = "queues"
    reads = (
        TableRead("schedconfig_json", ("panda_queue", "data", "last_update"), ("data",), "last_update"),
        TableRead("panda_site", ("panda_site_name", "site_name")),
        TableRead("site", ("site_name", "role", "state")),
    )
    limit = SourceLimit(max_age_s=86_400.0, may_be_empty=False, max_shrink=0.5, main_table="schedconfig_json")

    def build(self, raw: RawSource, draft: Draft) -> KnownQueues:
        """Build queues with their pins, and sites; a pin of an unknown queue is noted."""
        records = read_queues(raw, draft.dropped_rows, draft.of(PINS))
        site_of_queue, sites = read_sites(raw, draft.dropped_rows)
        rows = {record.name: index for index, record in enumerate(records)}
        unknown_queues(draft.raw(PINS.name), rows, draft.dropped_rows)
        return KnownQueues(records, rows, site_of_queue, sites)


QUEUES = Queues()


def read_queues(source: RawSource, dropped_rows: list[DroppedRow], pinned: Pinned = NO_PINS) -> list[QueueRecord]:
    """The usable queues by name; row ``ALL`` and rows without data are skipped, a second row of a name is dropped.

    ``pinned``: fields held by operators, by queue.
    """
    records: dict[str, QueueRecord] = {}
    # sorted, so that of two rows with one name the same is used in whatever order they are read
    for row in sorted(source.rows("schedconfig_json").records(), key=lambda row: str(row["panda_queue"])):
        if row["panda_queue"] == "ALL" or row["data"] is None:
            continue
        try:
            record = read_queue(row["panda_queue"], row["data"], pinned)
            if record.name in records:
                raise BadValueError("duplicate", "nickname", record.name)
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("queues", str(row["panda_queue"])[:80], bad.code, str(bad)))
            continue
        dropped_rows.extend(DroppedRow("queues", record.name, "defaulted", fault) for fault in record.faults)
        records[record.name] = record
    return [records[key] for key in sorted(records)]


def read_sites(
    source: RawSource, dropped_rows: list[DroppedRow]
) -> tuple[dict[str, str], dict[str, tuple[str | None, str | None]]]:
    """Queue to ATLAS site, and ATLAS site to (role, state)."""
    site_of_queue = {
        row["panda_site_name"]: row["site_name"]
        for row in source.rows("panda_site").records()
        if row["panda_site_name"] and row["site_name"]
    }
    sites: dict[str, tuple[str | None, str | None]] = {}
    for row in source.rows("site").records():
        try:
            sites[name(row["site_name"], "site_name")] = (text(row["role"], "role"), text(row["state"], "state"))
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("queues", str(row["site_name"])[:80], bad.code, str(bad)))
    return site_of_queue, sites
