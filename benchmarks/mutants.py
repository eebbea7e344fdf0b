"""Mutants: does a wrong comparison, constant or sign fail a test of its own folder?

Changes one comparison, number or sign at random (seeded) in a copy of the tree, and runs the tests of the folder of the
changed file: ``broker/rules/shared/filters`` is tested by ``tests/rules``, ``broker/work`` by ``tests/work``. Prints a
line a mutant and the share found. The tree itself is not touched. Run by hand:

    python -m benchmarks.mutants --count 40 --seed 1
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Folders whose files are changed, and where their tests are.
TESTED = {"broker/rules": "tests/rules", "broker/engine": "tests/engine", "broker/work": "tests/work"}
COPIED = ("broker", "agents", "tests", "config", "schema", "examples", "pyproject.toml")
SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: the file, the line, and the line before and after."""

    path: str
    line: int
    before: str
    after: str


def places(tree: ast.Module) -> list[ast.AST]:
    """Comparisons, numbers and signs of a module, in order; not those of annotations."""
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for one in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if one is not None
        for inner in ast.walk(one)
    }
    return [node for node in ast.walk(tree) if id(node) not in annotations and _can_change(node)]


def _can_change(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in SWAPS
    if isinstance(node, ast.BinOp):
        return type(node.op) in SIGNS
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def change(node: ast.AST) -> None:
    """Change the place: another comparison, another sign, or a number that is one larger."""
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp):
        node.op = SIGNS[type(node.op)]()
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value += 1


def mutant_of(path: Path, name: str, chance: random.Random) -> Mutant | None:
    """A change of the file at ``path``, written there; None for a file in which nothing can be changed."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = places(tree)
    if not found:
        return None
    node = chance.choice(found)
    # an expression stands in one line or in few: all of them are replaced by the changed one, as Python writes it
    first, last = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]  # all of them have lines
    lines = text.encode().splitlines(keepends=True)
    head = b"".join(lines[: first - 1]) + lines[first - 1][: node.col_offset]  # type: ignore[attr-defined]
    tail = lines[last - 1][node.end_col_offset :] + b"".join(lines[last:])  # type: ignore[attr-defined]
    before = ast.unparse(node)
    change(node)
    after = ast.unparse(node)
    path.write_bytes(head + f"({after})".encode() + tail)
    return Mutant(name, first, before, after)


def copied(folder: Path) -> Path:
    """The tree in ``folder``."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def is_found(tree: Path, tests: str, stem: str, timeout_s: float) -> str:
    """``found`` when a test fails, ``timeout`` when they take too long, else ``survived``.

    The tests that are named like the file come first: nearly always they are the ones that fail.
    """
    named = sorted(str(path.relative_to(tree)) for path in (tree / tests).rglob(f"test_{stem}*.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *named, tests]
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_PROFILE": "repeatable"}
    try:
        done = subprocess.run(command, cwd=tree, env=env, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return "timeout"
    return "survived" if done.returncode == 0 else "found"


def try_all(count: int, seed: int, timeout_s: float) -> Iterator[tuple[Mutant, str]]:
    """Mutants one after the other, each with what became of it."""
    chance = random.Random(seed)
    files = [path for folder in TESTED for path in sorted((ROOT / folder).rglob("*.py")) if path.name != "__init__.py"]
    with tempfile.TemporaryDirectory(prefix="gridbroker-mutants-") as place:
        tree = copied(Path(place))
        done = 0
        while done < count:
            name = str(chance.choice(files).relative_to(ROOT))
            folder = next(folder for folder in TESTED if name.startswith(folder + "/"))
            whole = (tree / name).read_bytes()
            mutant = mutant_of(tree / name, name, chance)
            if mutant is None:
                continue
            done += 1
            yield mutant, is_found(tree, TESTED[folder], Path(name).stem, timeout_s)
            (tree / name).write_bytes(whole)


def main() -> None:
    """Try mutants, and print each with the share found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40, help="mutants [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of the choice [%(default)s]")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for the tests of one [%(default)s]")
    asked = parser.parse_args()
    ends: dict[str, int] = {}
    for mutant, end in try_all(asked.count, asked.seed, asked.timeout):
        ends[end] = ends.get(end, 0) + 1
        print(f"{end:9} {mutant.path}:{mutant.line}: {mutant.before} -> {mutant.after}", flush=True)
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())), flush=True)


if __name__ == "__main__":
    main()
