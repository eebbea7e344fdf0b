"""A row is declared once: what SQL fills is what the API, the command line and the pages show."""

from __future__ import annotations

import ast

from tests.docs.twin_types import copies_in, tree, twins, types_in

#: Pairs that stay two, each with its reason.
EXCEPTIONS = {
    ("Pilot", "PresentedPilot"): "the body of a request is checked field by field; the matcher gets what passed",
    ("SubmitTerms", "TaskDescription"): "the body of a request is checked field by field, and holds the parameters too",
    ("Candidate", "CandidateLine"): "the answer has its probability in the middle, which the engine cannot know",
    ("PauseLine", "Paused"): "the answer to a pause has its fields in another order, and none for its beginning",
    ("QueueRecord", "QueueTable"): "one row as it is read, with what may be missing, and columns of all rows",
    ("GpuRequest", "GpuSummary"): "what a task asks for, and what a queue has",
    ("Candidate", "CandidateArrays"): "one candidate by name, and columns of all of them",
    ("InputFile", "WrittenFile"): "a file that is given, and a pilot's report of one that its job has written",
    ("NewRule", "RetryRuleLine"): "the body of a request is checked field by field; the answer is in another order",
    ("SimulationLine", "TriedRun"): "the simulations, whose request has a type, and a run of any kind",
}
#: Calls that copy field by field that are still there: fewer, never more.
MOST_COPIES = 39

TWO_TYPES = """
class Row:
    number: int
    name: str
    size_mb: float
    made_at: str
    _hidden: int

class Line:
    number: int
    name: str
    size_mb: float
    {fourth}: str
    {fifth}: str

class Kept(Row):
    reason: str
"""


def test_no_new_type_repeats_the_fields_of_another() -> None:
    types, copies = tree()
    pairs = sorted(
        f"{one.name} ~ {other.name}: {one.module}, {other.module}"
        for one, other in twins(types)
        if tuple(sorted((one.name, other.name))) not in EXCEPTIONS
    )
    assert not pairs, "declare the row once and show that:\n" + "\n".join(pairs)
    repeated = sorted(f"{one.target} from {one.source} in {one.module}" for one in copies)
    assert len(repeated) <= MOST_COPIES, "hand the object on instead of its fields:\n" + "\n".join(repeated)


def test_every_exception_is_still_needed() -> None:
    there = {tuple(sorted((one.name, other.name))) for one, other in twins(tree()[0])}
    assert set(EXCEPTIONS) <= there and len(EXCEPTIONS) <= 10


def test_types_are_twins_from_the_limit_on() -> None:
    def pairs(fourth: str, fifth: str) -> list[set[str]]:
        types = list(types_in(ast.parse(TWO_TYPES.format(fourth=fourth, fifth=fifth)), "example"))
        return [{one.name, other.name} for one, other in twins(types)]

    assert pairs("made_at", "other") == [{"Row", "Line"}], "four of five"
    assert pairs("another", "other") == [], "three of six"


def test_a_call_copies_from_three_fields_of_one_object_on() -> None:
    def found(text: str) -> int:
        return len(list(copies_in(ast.parse(text), "example")))

    assert found("Line(a=row.a, b=row.b, c=row.c)") == 1
    assert found("Line(a=row.a, b=row.b, c=other.c)") == 0
    assert found("Line(a=row.a, b=row.b, c=row.size)") == 0
