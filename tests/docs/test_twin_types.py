"""A row type is declared once: the type filled by SQL is the one that the API, the command line and the pages show."""

from __future__ import annotations

import ast

from tests.docs.twin_types import copies_in, tree, twins, types_in

#: Pairs that stay separate types, each with its reason.
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
#: The number of remaining calls that copy field by field; it may only decrease.
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
        f"{left.name} ~ {right.name}: {left.module}, {right.module}"
        for left, right in twins(types)
        if tuple(sorted((left.name, right.name))) not in EXCEPTIONS
    )
    assert not pairs, "declare the row once and show that:\n" + "\n".join(pairs)
    repeated = sorted(f"{copy.target} from {copy.source} in {copy.module}" for copy in copies)
    assert len(repeated) <= MOST_COPIES, "hand the object on instead of its fields:\n" + "\n".join(repeated)


def test_every_exception_is_still_needed() -> None:
    pairs = {tuple(sorted((left.name, right.name))) for left, right in twins(tree()[0])}
    assert set(EXCEPTIONS) <= pairs and len(EXCEPTIONS) <= 10


def test_types_are_twins_at_the_limit_and_above() -> None:
    def pairs(fourth: str, fifth: str) -> list[set[str]]:
        types = list(types_in(ast.parse(TWO_TYPES.format(fourth=fourth, fifth=fifth)), "example"))
        return [{left.name, right.name} for left, right in twins(types)]

    assert pairs("made_at", "other") == [{"Row", "Line"}], "four of five"
    assert pairs("another", "other") == [], "three of six"


def test_a_call_that_takes_three_fields_of_one_object_copies() -> None:
    def copy_count(code: str) -> int:
        return len(list(copies_in(ast.parse(code), "example")))

    assert copy_count("Line(a=row.a, b=row.b, c=row.c)") == 1
    assert copy_count("Line(a=row.a, b=row.b, c=other.c)") == 0
    assert copy_count("Line(a=row.a, b=row.b, c=row.size)") == 0
