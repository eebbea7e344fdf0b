"""Finds types of ours with nearly the same fields, and calls that copy one object into another field by field.

``python -m tests.docs.twin_types`` lists both.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from tests.docs.source_tree import files, relative_path, syntax_tree

ROOMS = ("broker", "agents")
#: The field names of a smaller type are no evidence.
FEWEST_FIELDS = 4
#: The least share of common fields among all fields of two types.
LEAST_IN_COMMON = 0.55
#: A call that takes fewer fields of one object selects; it does not copy.
FEWEST_COPIED = 3


@dataclass(frozen=True)
class Type:
    """A class with the fields declared in its own body, without those of its bases."""

    module: str
    name: str
    fields: frozenset[str]


@dataclass(frozen=True)
class Copy:
    """A call with keyword arguments ``name=source.name``: their number, and the number of lines of the call."""

    module: str
    target: str
    source: str
    fields: int
    lines: int


def types_in(tree: ast.AST, module: str) -> Iterator[Type]:
    """The classes of a module that declare at least ``FEWEST_FIELDS`` public fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            annotated = (annotation for annotation in node.body if isinstance(annotation, ast.AnnAssign))
            names = {
                annotation.target.id
                for annotation in annotated
                if isinstance(annotation.target, ast.Name)
                and not ast.unparse(annotation.annotation).startswith("ClassVar")
            }
            fields = frozenset(name for name in names if not name.startswith("_"))
            if len(fields) >= FEWEST_FIELDS:
                yield Type(module, node.name, fields)


def copies_in(tree: ast.AST, module: str) -> Iterator[Copy]:
    """The calls of a module that pass at least ``FEWEST_COPIED`` fields of one object on under the same names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            attributes = (argument for argument in node.keywords if isinstance(argument.value, ast.Attribute))
            sources = Counter(
                ast.unparse(argument.value.value)
                for argument in attributes
                if isinstance(argument.value, ast.Attribute) and argument.value.attr == argument.arg
            )
            for source, count in sources.most_common(1):
                if count >= FEWEST_COPIED:
                    lines = (node.end_lineno or node.lineno) - node.lineno + 1
                    yield Copy(module, ast.unparse(node.func), source, count, lines)


def twins(types: list[Type]) -> list[tuple[Type, Type]]:
    """The pairs of types that have at least ``LEAST_IN_COMMON`` of their fields in common."""
    return [
        (left, right)
        for left, right in combinations(types, 2)
        if len(left.fields & right.fields) >= LEAST_IN_COMMON * len(left.fields | right.fields)
    ]


def tree() -> tuple[list[Type], list[Copy]]:
    """The types and copies of the project, by module."""
    types: list[Type] = []
    copies: list[Copy] = []
    for path in files(*ROOMS):
        types += types_in(syntax_tree(path), relative_path(path))
        copies += copies_in(syntax_tree(path), relative_path(path))
    return types, copies


if __name__ == "__main__":
    all_types, all_copies = tree()
    pairs = twins(all_types)
    for left, right in pairs:
        print(f"{left.name} ~ {right.name}  {left.module} {right.module}")
    for copy in all_copies:
        print(f"{copy.target}({copy.source}.*: {copy.fields}) {copy.lines} lines  {copy.module}")
    print(f"{len(pairs)} pairs; {len(all_copies)} copies, {sum(copy.lines for copy in all_copies)} lines")
