"""The files of this repository, for tests that read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("broker", "agents", "benchmarks", "examples")
_NOT_OURS = {".git", ".venv", "__pycache__", "_data", "build", "dist"}


def files(*folders: str, suffix: str = ".py") -> list[Path]:
    """The existing files below some folders of the repository."""
    return [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob(f"*{suffix}"))
        if path.is_file() and not _NOT_OURS.intersection(path.relative_to(ROOT).parts)
    ]


def text_files() -> list[Path]:
    """Every file of the repository that people read."""
    suffixes = {".py", ".md", ".toml", ".yaml", ".yml", ".sql", ".sh", ""}
    paths = []
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part not in (".ci", ".gitignore") for part in parts)
        if path.suffix in suffixes and not hidden and not _NOT_OURS.intersection(parts) and path.is_file():
            paths.append(path)
    return frozenset(paths)


def relative_path(path: Path) -> str:
    """The path relative to the repository, as written in messages."""
    return path.relative_to(ROOT).as_posix()


@cache
def syntax_tree(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def imported_modules(path: Path) -> frozenset[str]:
    """The full names of everything a file imports, anywhere in the file."""
    names: set[str] = set()
    for node in _statements(syntax_tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{relative_path(path)} imports relatively"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Every statement at any depth; expressions, which make up most of a tree, are skipped."""
    nodes: list[ast.AST] = [tree]
    for node in nodes:
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            inner = getattr(node, name, ())
            nodes += inner if isinstance(inner, list) else ()
        yield node
