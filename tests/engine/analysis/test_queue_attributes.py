"""Attributes of queues: space, access and class, in the scope that analysis uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.domain.analysis import AnalysisGrid
from broker.engine.analysis.queue_attributes import AnalysisQueues, analysis_queues
from tests.engine.analysis.analysis_requests import READS, reading_grid
from tests.snapshot.raw_grid import endpoint, uses

NAMES = ["A", "B", "C", "P", "U"]


def of_a(values: Any) -> Any:
    return values[NAMES.index("A")]


def attributes(**columns: Any) -> AnalysisQueues:
    """Queue attributes where A writes to and reads from one endpoint with these columns."""
    return analysis_queues(
        reading_grid(ddm_endpoint=[endpoint("DISK_A", "S", **columns)], panda_ddm_relation=[uses("A", "DISK_A")])
    )


@pytest.mark.parametrize(
    ("columns", "gb"),
    [
        ({"space_free": 1000}, 1000),
        ({"space_free": 1000, "space_expired": 50}, 1050),
        ({"space_free": 1000, "space_min_free": 300, "space_unavailable": 20}, 680),
        ({"space_free": None, "space_expired": 5}, 5),
        ({"space_free": 10, "space_min_free": 30}, -20),
    ],
)
def test_usable_space(columns: dict[str, Any], gb: float) -> None:
    queues = attributes(**columns)
    assert of_a(queues.output_usable_gb) == gb
    # input and output are at one endpoint: its space is checked once
    assert np.isnan(of_a(queues.input_usable_gb))


def test_another_endpoint_for_the_input() -> None:
    queues = analysis_queues(
        reading_grid(
            ddm_endpoint=[endpoint("OUT", "S"), endpoint("IN", "S", space_free=70)],
            panda_ddm_relation=[
                uses("A", "OUT", roles="write_lan", default_read="N"),
                uses("A", "IN", roles="read_lan", default_write="N"),
            ],
        )
    )
    assert (of_a(queues.output_usable_gb), of_a(queues.input_usable_gb)) == (1000, 70)


@pytest.mark.parametrize(("first", "second", "gb"), [("Y", "N", 1000), ("N", "Y", 70)])
def test_output_goes_to_the_default_of_two_endpoints(first: str, second: str, gb: float) -> None:
    queues = analysis_queues(
        reading_grid(
            ddm_endpoint=[endpoint("ONE", "S"), endpoint("TWO", "S", space_free=70)],
            panda_ddm_relation=[
                uses("A", "ONE", roles="write_lan", default_write=first),
                uses("A", "TWO", roles="write_lan", default_write=second),
            ],
        )
    )
    assert of_a(queues.output_usable_gb) == gb


def test_a_queue_without_endpoints() -> None:
    queues = analysis_queues(reading_grid(panda_ddm_relation=[uses("B", "DISK_B")]))
    assert not of_a(queues.has_output) and not of_a(queues.has_input) and of_a(queues.output_storage) == -1
    assert np.isnan(of_a(queues.output_usable_gb))
    assert queues.has_output.tolist() == [name == "B" for name in NAMES]


ACCESS = ("reads_lan", "writes_lan", "receives", "sends")


@pytest.mark.parametrize(
    ("status", "closed"),
    [
        ('{"read_lan": "OFF"}', {"reads_lan"}),
        ('{"write_lan": "TEST"}', {"writes_lan"}),
        ('{"write_wan": "OFF"}', {"receives"}),
        ('{"read_wan": "OFF"}', {"sends"}),
        # any other value, or no value, means open
        ('{"read_lan": "AUTO", "write_lan": null}', set()),
        (None, set()),
        ("no JSON", set()),
    ],
)
def test_access_by_activity(status: str | None, closed: set[str]) -> None:
    queues = attributes(detailed_status=status)
    assert {name for name in ACCESS if not of_a(getattr(queues, name))} == closed


def test_one_open_endpoint_is_enough() -> None:
    closed = '{"read_lan": "OFF", "write_wan": "OFF"}'
    queues = analysis_queues(
        reading_grid(
            ddm_endpoint=[endpoint("DISK_A", "S", detailed_status=closed), endpoint("OTHER", "S")],
            panda_ddm_relation=[uses("A", "DISK_A"), uses("A", "OTHER", **READS)],
        )
    )
    assert of_a(queues.reads_lan) and of_a(queues.receives)


def test_classes_and_starts_are_unknown_without_figures() -> None:
    queues = analysis_queues(reading_grid())
    assert np.isnan(queues.site_class).all() and not queues.starts.any()
    grid = AnalysisGrid(site_class=np.arange(5.0), starts=np.arange(5.0) * 2)
    known = analysis_queues(reading_grid(grid))
    assert (known.site_class.tolist(), known.starts.tolist()) == ([0, 1, 2, 3, 4], [0, 2, 4, 6, 8])


@pytest.mark.parametrize(
    ("scope", "by_scope_in_use", "by_default_scope"), [("analysis", True, False), ("default", False, True)]
)
def test_virtual_placement_by_the_relations_of_a_scope(
    scope: str, by_scope_in_use: bool, by_default_scope: bool
) -> None:
    """A reads in the analysis scope, which is the scope in use, and in the default scope."""
    grid = reading_grid(
        ddm_endpoint=[endpoint("DISK_A", "S"), endpoint("S_VP_DISK", "S")],
        panda_ddm_relation=[
            uses("A", "DISK_A", scope="analysis"),
            uses("A", "DISK_A"),
            uses("A", "S_VP_DISK", scope=scope, roles="read_lan"),
        ],
    )
    assert bool(of_a(analysis_queues(grid).is_vp)) is by_scope_in_use
    assert bool(of_a(analysis_queues(grid, "default").is_vp)) is by_default_scope
