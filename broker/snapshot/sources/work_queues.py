"""The source ``work_queues``: the work queues that are counted by queue and not by share."""

from __future__ import annotations

from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import BadValueError, RawSource, known, number
from broker.snapshot.source import TableRead


class WorkQueues(GridSource[frozenset[int]]):
    """Work queues whose jobs are counted by queue."""

    name = "work_queues"
    reads = (TableRead("jedi_work_queue", ("queue_id", "queue_name", "vo", "status", "queue_function")),)

    def build(self, raw: RawSource, draft: Draft) -> frozenset[int]:
        """Build the ids of the work queues of function Resource."""
        return resource_work_queues(raw, draft.dropped_rows)


WORK_QUEUES = WorkQueues()


def resource_work_queues(source: RawSource, dropped_rows: list[DroppedRow]) -> frozenset[int]:
    """The ids of the work queues of function Resource, whose jobs are counted by queue and not by share."""
    special = set()
    for row in source.rows("jedi_work_queue").records():
        if row["queue_function"] != "Resource" or row["status"] == "inactive":
            continue
        try:
            special.add(int(known(number(row["queue_id"], "queue_id"), "queue_id")))
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("work_queues", str(row["queue_name"])[:80], bad.code, str(bad)))
    return frozenset(special)
