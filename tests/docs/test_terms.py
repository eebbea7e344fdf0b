"""The glossary has each term once, and names that it lists as gone are not in the code."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.docs.source_tree import CODE, ROOT, files, relative_path, syntax_tree

PAGE = ROOT / "docs" / "explanation" / "terms.md"
GONE = "Names that are gone"


def sections(text: str) -> dict[str, list[list[str]]]:
    """The rows of the first table of each section, by heading, without the table's header."""
    tables: dict[str, list[list[str]]] = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        table = re.search(r"(?:^\|.*\|\n?)+", body, flags=re.MULTILINE)
        lines = table[0].strip().splitlines()[2:] if table else []
        tables[heading.strip()] = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return tables


def defined_names(tree: ast.AST) -> Iterator[str]:
    """The names that a module gives to classes, functions, arguments, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_each_term_occurs_once() -> None:
    tables = sections(PAGE.read_text(encoding="utf-8"))
    words = [
        word.strip() for name, rows in tables.items() if name != GONE for row in rows for word in row[0].split(",")
    ]
    assert len(words) > 50
    assert [word for word, count in Counter(words).items() if count > 1] == []


def test_every_term_has_a_meaning() -> None:
    tables = sections(PAGE.read_text(encoding="utf-8"))
    assert [row for rows in tables.values() for row in rows if not all(row[:2])] == []


def test_names_that_are_gone_do_not_come_back() -> None:
    rows = sections(PAGE.read_text(encoding="utf-8"))[GONE]
    gone = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert len(gone) > 10
    names_by_file = {
        relative_path(path): sorted({path.stem, *defined_names(syntax_tree(path))} & gone) for path in files(*CODE)
    }
    assert {name: names for name, names in names_by_file.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def tell(unfit): ...", {"tell", "unfit"}),
        ("class Asker:\n    small_files = 1", {"Asker", "small_files"}),
        ("self.placing = 2", {"placing"}),
        ("x = tell", {"x"}),
    ],
)
def test_defined_names_of_a_module(text: str, names: set[str]) -> None:
    assert set(defined_names(ast.parse(text))) == names
