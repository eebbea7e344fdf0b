"""Fields of queues at other values: how they appear in CRIC's fields."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from broker.domain.queue_fields import BadFieldValue, field_value
from broker.snapshot.queue_rows import QueueRecord
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.sources.pins import PINS, pins_in_force
from broker.snapshot.sources.queues import read_queues
from broker.whatif.model.cases import read_fields, with_fields

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
DATA: dict[str, Any] = {
    "status": "online",
    "maxrss": 4000,
    "minrss": 0,
    "maxtime": 86_400,
    "catchall": "useJumboJobs,jobChunkSize=5,use_only_local_data",
    "params": {"max_io_intensity": 300, "grandly_unified": True},
}


def changed_record(*texts: str, data: dict[str, Any] | None = None) -> QueueRecord:
    document = json.dumps(DATA if data is None else data)
    queues = RawSource("queues", {"schedconfig_json": Rows(("panda_queue", "data"), (("A", document),))})
    sources = with_fields({"queues": queues}, NOW, ["A"], read_fields("a", texts))
    (record,) = read_queues(queues, [], pins_in_force(sources[PINS.name], NOW.timestamp(), []))
    return record


@pytest.mark.parametrize(
    ("texts", "column", "value"),
    [
        (("maxrss=8000",), "maxrss_mb", 8000.0),
        (("max_io_intensity=12.5",), "max_io_intensity", 12.5),
        (("max_io_intensity=12.5",), "grandly_unified", True),
        (("max_io_intensity=12.5",), "use_jumbo", True),
        (("jobChunkSize=7",), "job_chunk_size", 7.0),
        (("useJumboJobs=false",), "use_jumbo", False),
        (("useJumboJobs=false",), "job_chunk_size", 5.0),
        (("useJumboJobs=false", "use_only_local_data=false"), "use_jumbo", False),
        (("useJumboJobs=false", "use_only_local_data=false"), "use_only_local_data", False),
        (("grandly_unified=false",), "grandly_unified", False),
        (("secondaryNucleus=CERN-PROD",), "secondary_nucleus", "CERN-PROD"),
        (("releases=Atlas-21|Atlas-25",), "releases", ("Atlas-21", "Atlas-25")),
        (("status=paused",), "status", "paused"),
    ],
)
def test_every_field_that_a_decision_reads(texts: tuple[str, ...], column: str, value: object) -> None:
    assert getattr(changed_record(*texts), column) == value


def test_a_queue_without_parameters() -> None:
    bare = {name: DATA[name] for name in ("status", "maxrss", "minrss", "maxtime")}
    assert changed_record("use_only_local_data=true", data=bare).use_only_local_data
    assert not changed_record("use_only_local_data=false", data=bare).use_only_local_data


def test_some_fields_can_be_tried_but_not_pinned() -> None:
    with pytest.raises(BadFieldValue, match="is not a field that can be held"):
        field_value("releases", "Atlas-25")
