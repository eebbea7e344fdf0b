from __future__ import annotations

import pytest

from broker.formats.model.sss.description import DescribedValue, listed
from broker.formats.model.sss.inheritance import whole_jobs
from broker.formats.model.sss.model import KINDS, Property
from broker.formats.model.sss.reading import read_document
from tests.formats.sss.documents import document


def test_every_value_has_its_unit_and_attributes() -> None:
    (whole,) = whole_jobs(document("delivered"))
    values = {(row.path, row.attributes): (row.value, row.unit) for row in listed(whole.job)}
    assert values["SubmissionTime", ""] == ("1600000000", "s since 1970 UTC")
    assert values["Charge", ""] == ("12.75", "EUR")
    assert values["Requested/Memory", "op=GE"] == ("2", "GB")
    assert values["Requested/WallDuration", ""] == ("5400", "s")
    assert values["Delivered/Processors", "consumptionRate=0.5 (fraction)"] == ("16", "processors")
    assert values["Delivered/Memory", "metric=Maximum"] == ("1.5", "GB")
    assert values["Environment/THREADS", ""] == ("16", "")
    assert len(values) == 24


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<Memory>5</Memory>", DescribedValue("Memory", "5", "MB (assumed)", "")),
        ("<Charge>5</Charge>", DescribedValue("Charge", "5", "not said", "")),
        ("<Network>1.50</Network>", DescribedValue("Network", "1.50", "not said", "")),
        ("<NodeCount>2</NodeCount>", DescribedValue("NodeCount", "2", "nodes", "")),
        ("<SuspendDuration>2</SuspendDuration>", DescribedValue("SuspendDuration", "2", "s", "")),
        ("<Restartable>true</Restartable>", DescribedValue("Restartable", "true", "", "")),
        ("<Odd a='1'>x</Odd>", DescribedValue("Odd", "x", "not said", "a=1")),
        ("<Odd><In b='2'>y</In></Odd>", DescribedValue("Odd/In", "y", "not said", "b=2")),
        ("<TaskGroup><Task><Node>n</Node></Task></TaskGroup>",
         DescribedValue("TaskGroup[1]/Task[1]/Node", "n", "", "")),
        ("<NodeProperties><Name op='match'>a.*</Name></NodeProperties>",
         DescribedValue("NodeProperties/Name", "a.*", "", "op=Match")),
    ],
)  # fmt: skip
def test_the_path_and_unit_of_a_value(inside: str, expected: DescribedValue) -> None:
    text = f"<Job><JobId>j</JobId>{inside}</Job>"
    assert list(listed(read_document(text.encode()).root))[-1] == expected


def test_all_times_and_amounts_have_a_unit() -> None:
    level = read_document(b"<Job><JobId>j</JobId></Job>").root
    for name, kind in KINDS.items():
        if kind.type in ("duration", "datetime", "float"):
            entry = Property(name, 1)
            (row,) = listed(type(level)("Job", properties=(entry,)))
            assert row.unit, name
