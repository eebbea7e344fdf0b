"""Files and functions stay short, and module names describe their content."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.docs.source_tree import CODE, files, relative_path, syntax_tree

LONGEST_FILE = 400
LONGEST_FUNCTION = 50
EMPTY_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "tools"}


def long_functions(tree: ast.AST) -> Iterator[str]:
    """The functions that are too long, with their lengths in lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield f"{node.name}: {length} lines"


def test_files_are_short() -> None:
    lengths = {
        relative_path(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files(*CODE, "tests")
    }
    assert lengths
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_functions_are_short() -> None:
    long_by_file = {relative_path(path): list(long_functions(syntax_tree(path))) for path in files(*CODE)}
    assert {name: functions for name, functions in long_by_file.items() if functions} == {}


def test_module_names_describe_their_content() -> None:
    assert [relative_path(path) for path in files(*CODE, "tests") if {path.stem, path.parent.name} & EMPTY_NAMES] == []


@pytest.mark.parametrize(("lines", "count"), [(LONGEST_FUNCTION, 0), (LONGEST_FUNCTION + 1, 1)])
def test_the_limit_counts_every_line_of_a_function(lines: int, count: int) -> None:
    body = "\n".join("    pass" for _ in range(lines - 1))
    assert len(list(long_functions(ast.parse(f"def f():\n{body}\n")))) == count
