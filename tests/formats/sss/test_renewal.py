from __future__ import annotations

import pytest

from broker.formats.model.sss.exported import Renewal, renewed
from broker.formats.model.sss.xml_reading import Element, read_xml
from tests.formats.sss.documents import content

PLAIN = Renewal(own=False)


def job(inside: str) -> Element:
    return read_xml(f"<Job>{inside}</Job>".encode())


@pytest.mark.parametrize(
    ("original", "exported_then", "exported_now", "result"),
    [
        # an unchanged value stays in its original form
        ("<Memory units='GB'>2</Memory>", "<Requested><Memory units='MB'>2048</Memory></Requested>",
         "<Requested><Memory units='MB'>2048</Memory></Requested>", "<Memory units='GB'>2</Memory>"),
        ("<Queue>a</Queue>", "<Queue>a</Queue>", "<Queue>b</Queue>", "<Queue>b</Queue>"),
        ("<Queue>a</Queue>", "<Queue>a</Queue>", "", ""),
        ("", "", "<Queue>b</Queue>", "<Queue>b</Queue>"),
        ("<QualityOfService>gold</QualityOfService>", "<Extension name='GlobalShare'>x</Extension>",
         "<Extension name='GlobalShare'>y</Extension>",
         "<QualityOfService>gold</QualityOfService><Extension name='GlobalShare'>y</Extension>"),
        ("<Extension name='a'>1</Extension><Extension name='b'>2</Extension>", "<Extension name='a'>1</Extension>",
         "<Extension name='a'>3</Extension>", "<Extension name='a'>3</Extension><Extension name='b'>2</Extension>"),
        ("<Requested><Processors>12</Processors><Processors conj='or'>16</Processors><Swap>1</Swap></Requested>",
         "<Requested><Processors>12</Processors></Requested>", "<Requested><Processors>16</Processors></Requested>",
         "<Requested><Swap>1</Swap><Processors>16</Processors></Requested>"),
        ("<Processors>8</Processors>", "<Requested><Processors>8</Processors></Requested>",
         "<Requested><Processors>9</Processors></Requested>", "<Requested><Processors>9</Processors></Requested>"),
        ("<Delivered><Disk>1</Disk></Delivered>", "<Delivered><Disk>1</Disk></Delivered>", "", ""),
        ("<TaskGroup><Executable>a</Executable><TaskCount>1</TaskCount></TaskGroup>", "<Executable>a</Executable>",
         "<Executable>b</Executable>", "<Executable>b</Executable><TaskGroup><TaskCount>1</TaskCount></TaskGroup>"),
        ("<TaskGroup><Requested><Memory>1</Memory></Requested></TaskGroup>",
         "<Requested><Memory>1</Memory></Requested>", "<Requested><Memory>2</Memory></Requested>",
         "<Requested><Memory>2</Memory></Requested><TaskGroup/>"),
        ("<CompletionCode>3</CompletionCode>", "<ExitCode>3</ExitCode>", "<ExitCode>4</ExitCode>",
         "<ExitCode>4</ExitCode>"),
        # the exact status changed while the state of the row did not
        ("<JobState>Suspended</JobState>",
         "<JobState>Running</JobState><Extension name='PandaJobStatus'>running</Extension>",
         "<JobState>Running</JobState><Extension name='PandaJobStatus'>holding</Extension>",
         "<JobState>Running</JobState><Extension name='PandaJobStatus'>holding</Extension>"),
        ("<JobState>Suspended</JobState>",
         "<JobState>Running</JobState><Extension name='PandaJobStatus'>running</Extension>",
         "<JobState>Running</JobState><Extension name='PandaJobStatus'>running</Extension>",
         "<JobState>Suspended</JobState>"),
    ],
)  # fmt: skip
def test_an_element_is_replaced_where_its_columns_changed(
    original: str, exported_then: str, exported_now: str, result: str
) -> None:
    assert content(renewed(job(original), job(exported_then), job(exported_now), PLAIN)) == content(job(result))


def test_a_removed_inherited_value_becomes_an_empty_element() -> None:
    renewal = Renewal(inherited=("Queue",), own=False)
    assert content(renewed(job(""), job("<Queue>a</Queue>"), job(""), renewal)) == content(job("<Queue/>"))


def test_changes_of_a_part_are_written_in_its_task_group() -> None:
    renewal = Renewal(is_part=True)
    original = job("<JobId>x</JobId><Queue>a</Queue><TaskGroup><TaskCount>1</TaskCount></TaskGroup>")
    result = renewed(
        original, job("<JobId>5</JobId><Queue>a</Queue>"), job("<JobId>5</JobId><Queue>b</Queue>"), renewal
    )
    expected = "<JobId>5</JobId><Queue>a</Queue><TaskGroup><TaskCount>1</TaskCount><Queue>b</Queue></TaskGroup>"
    assert content(result) == content(job(expected))


def test_own_names_are_written_unless_the_original_names_are_requested() -> None:
    original, row = job("<JobId>x</JobId>"), job("<JobId>5</JobId><Extension name='JediTaskID'>9</Extension>")
    assert content(renewed(original, row, row, Renewal())) == content(row)
    assert content(renewed(original, row, row, PLAIN)) == content(original)
