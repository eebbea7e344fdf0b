"""A row is declared once: what SQL fills is what the API, the command line and the pages show."""

from __future__ import annotations

import ast

from tests.docs.twin_types import copies_in, tree, twins, types_in

#: Pairs of types with the same fields, and calls that copy field by field, that there may still be: fewer, never more.
MOST_TWINS, MOST_COPIES = 41, 39

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
    pairs = sorted(f"{one.name} ~ {other.name}: {one.module}, {other.module}" for one, other in twins(types))
    assert len(pairs) <= MOST_TWINS, "declare the row once and show that:\n" + "\n".join(pairs)
    repeated = sorted(f"{one.target} from {one.source} in {one.module}" for one in copies)
    assert len(repeated) <= MOST_COPIES, "hand the object on instead of its fields:\n" + "\n".join(repeated)


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
