"""Types of ours that have nearly the same fields, and calls that copy one object into another field by field.

``python -m tests.docs.twin_types`` lists both.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from tests.docs.source_tree import files, shown, syntax_tree

ROOMS = ("broker", "agents")
#: A smaller type says nothing by what its fields are called.
FEWEST_FIELDS = 4
#: Fields in common, of all that the two have.
LEAST_IN_COMMON = 0.55
#: A call that takes fewer fields of one object selects; it does not copy.
FEWEST_COPIED = 3


@dataclass(frozen=True)
class Type:
    """A class with the fields that its own body declares; those of a base stand there once."""

    module: str
    name: str
    fields: frozenset[str]


@dataclass(frozen=True)
class Copy:
    """A call with keyword arguments ``name=source.name``: how many, and how many lines it fills."""

    module: str
    target: str
    source: str
    fields: int
    lines: int


def types_in(tree: ast.AST, module: str) -> Iterator[Type]:
    """The classes of a module that declare at least ``FEWEST_FIELDS`` public fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            declared = (one for one in node.body if isinstance(one, ast.AnnAssign))
            names = {
                one.target.id
                for one in declared
                if isinstance(one.target, ast.Name) and not ast.unparse(one.annotation).startswith("ClassVar")
            }
            fields = frozenset(name for name in names if not name.startswith("_"))
            if len(fields) >= FEWEST_FIELDS:
                yield Type(module, node.name, fields)


def copies_in(tree: ast.AST, module: str) -> Iterator[Copy]:
    """The calls of a module that hand on at least ``FEWEST_COPIED`` fields of one object under their own names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            handed = (one for one in node.keywords if isinstance(one.value, ast.Attribute))
            sources = Counter(
                ast.unparse(one.value.value)
                for one in handed
                if isinstance(one.value, ast.Attribute) and one.value.attr == one.arg
            )
            for source, count in sources.most_common(1):
                if count >= FEWEST_COPIED:
                    lines = (node.end_lineno or node.lineno) - node.lineno + 1
                    yield Copy(module, ast.unparse(node.func), source, count, lines)


def twins(types: list[Type]) -> list[tuple[Type, Type]]:
    """The pairs of types that have at least ``LEAST_IN_COMMON`` of their fields in common."""
    return [
        (one, other)
        for one, other in combinations(types, 2)
        if len(one.fields & other.fields) >= LEAST_IN_COMMON * len(one.fields | other.fields)
    ]


def tree() -> tuple[list[Type], list[Copy]]:
    """The types and copies of the project, by module."""
    types: list[Type] = []
    copies: list[Copy] = []
    for path in files(*ROOMS):
        types += types_in(syntax_tree(path), shown(path))
        copies += copies_in(syntax_tree(path), shown(path))
    return types, copies


if __name__ == "__main__":
    found_types, found_copies = tree()
    pairs = twins(found_types)
    for left, right in pairs:
        print(f"{left.name} ~ {right.name}  {left.module} {right.module}")
    for each in found_copies:
        print(f"{each.target}({each.source}.*: {each.fields}) {each.lines} lines  {each.module}")
    print(f"{len(pairs)} pairs; {len(found_copies)} copies, {sum(each.lines for each in found_copies)} lines")
