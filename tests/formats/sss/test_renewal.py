from __future__ import annotations

import pytest

from broker.formats.model.sss.exported import Renewal, renewed
from broker.formats.model.sss.xml_reading import Element, read_xml
from tests.formats.sss.documents import content

PLAIN = Renewal(own=False)


def job(inside: str) -> Element:
    return read_xml(f"<Job>{inside}</Job>".encode())


@pytest.mark.parametrize(
    ("came", "then", "now", "result"),
    [
        # what did not change stays as it came, whatever the row makes of it
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
        # the exact status changed although the state of the row did not
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
def test_an_element_gives_way_where_its_columns_changed(came: str, then: str, now: str, result: str) -> None:
    assert content(renewed(job(came), job(then), job(now), PLAIN)) == content(job(result))


def test_an_inherited_value_that_is_gone_is_taken_away() -> None:
    how = Renewal(inherited=("Queue",), own=False)
    assert content(renewed(job(""), job("<Queue>a</Queue>"), job(""), how)) == content(job("<Queue/>"))


def test_what_changed_of_a_part_is_said_of_its_group() -> None:
    how = Renewal(is_part=True)
    came = job("<JobId>x</JobId><Queue>a</Queue><TaskGroup><TaskCount>1</TaskCount></TaskGroup>")
    made = renewed(came, job("<JobId>5</JobId><Queue>a</Queue>"), job("<JobId>5</JobId><Queue>b</Queue>"), how)
    wanted = "<JobId>5</JobId><Queue>a</Queue><TaskGroup><TaskCount>1</TaskCount><Queue>b</Queue></TaskGroup>"
    assert content(made) == content(job(wanted))


def test_our_own_names_are_written_unless_those_that_came_are_wanted() -> None:
    came, row = job("<JobId>x</JobId>"), job("<JobId>5</JobId><Extension name='JediTaskID'>9</Extension>")
    assert content(renewed(came, row, row, Renewal())) == content(row)
    assert content(renewed(came, row, row, PLAIN)) == content(came)
