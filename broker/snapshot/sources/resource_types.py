"""The source ``resource_types``: the bounds of cores and memory by which unified queues are split."""

from __future__ import annotations

from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import BadValueError, RawSource, name, number
from broker.snapshot.snapshot import ResourceType
from broker.snapshot.source import SourceLimit, TableRead


class ResourceTypes(GridSource[list[ResourceType]]):
    """Bounds of the resource types."""

    name = "resource_types"
    reads = (TableRead("resource_types", ("resource_name", "mincore", "maxcore", "minrampercore", "maxrampercore")),)
    limit = SourceLimit(may_be_empty=False, max_shrink=0.5)

    def build(self, raw: RawSource, draft: Draft) -> list[ResourceType]:
        """Build the types, sorted by name."""
        return read_resource_types(raw, draft.dropped_rows)


RESOURCE_TYPES = ResourceTypes()


def read_resource_types(source: RawSource, dropped_rows: list[DroppedRow]) -> list[ResourceType]:
    """The resource types, sorted by name."""
    kinds: dict[str, ResourceType] = {}
    for row in source.rows("resource_types").records():
        try:
            kind = ResourceType(
                name(row["resource_name"], "resource_name"),
                number(row["mincore"], "mincore"),
                number(row["maxcore"], "maxcore"),
                number(row["minrampercore"], "minrampercore"),
                number(row["maxrampercore"], "maxrampercore"),
            )
            if kind.name in kinds:
                raise BadValueError("duplicate", "resource_name", kind.name)
            kinds[kind.name] = kind
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("resource_types", str(row["resource_name"])[:80], bad.code, str(bad)))
    return [kinds[key] for key in sorted(kinds)]
