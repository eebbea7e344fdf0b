"""Mutation testing: does a wrong comparison, constant or sign fail a test of the corresponding folder?

The program changes one comparison, number or sign at random (seeded) in a copy of the tree, and runs the tests for the
folder of the changed file: ``tests/rules`` for ``broker/rules/shared/filters``, ``tests/work`` for ``broker/work``. The
test modules nearest to the file run first (by name, then by import, then by folder), because nearly always one of them
fails; the rest of the folder runs only if they pass. The program prints a line for each mutant and the share found. The
original tree is not touched. Mutants without a visible effect are listed in ``equivalent_mutants.tsv``, each with its
reason, and are counted separately. Run by hand:

    python -m benchmarks.mutants --count 100 --seed 1 | tee mutants.txt
    python -m benchmarks.mutants --again mutants.txt        # those that survived, after tests were written
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
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Folders whose files are changed, and the folders of their tests.
TESTED = {"broker/rules": "tests/rules", "broker/engine": "tests/engine", "broker/work": "tests/work"}
#: Mutants without effect: file, code of the line, before, after, reason; separated by tabs.
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.tsv")
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
    """One change: the file, the line with its code, and the expression before and after."""

    path: str
    line: int
    code: str
    before: str
    after: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Identifies the mutant even if lines have moved."""
        return self.path, self.code, self.before, self.after


def places(tree: ast.Module) -> list[ast.AST]:
    """Return the comparisons, numbers and signs of a module in order, except those of annotations."""
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if annotation is not None
        for inner in ast.walk(annotation)
    }
    return [node for node in ast.walk(tree) if id(node) not in annotations and _can_change(node)]


def _can_change(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in SWAPS
    if isinstance(node, ast.BinOp):
        return type(node.op) in SIGNS
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def change(node: ast.AST) -> None:
    """Change a place: another comparison, another sign, or a number larger by one."""
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp):
        node.op = SIGNS[type(node.op)]()
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value += 1


def mutants_of(text: str, name: str) -> list[tuple[Mutant, bytes]]:
    """Return every mutant of a file, each with the bytes of the changed file."""
    encoded = text.encode()
    lines = encoded.splitlines(keepends=True)
    mutants = []
    for node in places(ast.parse(text)):
        # an expression may span several lines: all are replaced by the changed expression, as Python unparses it
        first, last = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]  # all of them have lines
        head = b"".join(lines[: first - 1]) + lines[first - 1][: node.col_offset]  # type: ignore[attr-defined]
        tail = lines[last - 1][node.end_col_offset :] + b"".join(lines[last:])  # type: ignore[attr-defined]
        before = ast.unparse(node)
        change(node)
        after = ast.unparse(node)
        change_back(node)
        code = lines[first - 1].decode().strip()
        mutants.append((Mutant(name, first, code, before, after), head + f"({after})".encode() + tail))
    return mutants


def change_back(node: ast.AST) -> None:
    """Undo ``change``: comparisons and signs are swapped in pairs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value -= 1
    else:
        change(node)


def copy_tree(folder: Path) -> Path:
    """Copy the tree into ``folder``."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


@dataclass(frozen=True)
class Trial:
    """How mutants are tried: the time limit for the tests of one mutant, and whether only the nearest modules run."""

    timeout_s: float
    nearest: bool


def nearest_tests(tree: Path, tests: str, name: str) -> list[str]:
    """Return test modules named like the file, importing it, or in the corresponding folder, in this order.

    Args:
        tree: the copy.
        tests: the folder of the tests, such as ``tests/rules``.
        name: the changed file, such as ``broker/rules/shared/memory.py``.
    """
    file = Path(name)
    package, test_folder = ".".join(file.parts[:-1]), Path("tests", *file.parts[1:-1])
    imports = (f"import {package}.{file.stem}", f"from {package}.{file.stem} ", f"from {package} import {file.stem}")

    def distance(path: Path) -> int:
        if path.stem.startswith(f"test_{file.stem}"):
            return 0
        if any(line in path.read_text(encoding="utf-8") for line in imports):
            return 1
        return 2 if path.parent == tree / test_folder else 3

    by_distance = [(distance(path), path) for path in sorted((tree / tests).rglob("test_*.py"))]
    return [str(path.relative_to(tree)) for steps, path in sorted(by_distance) if steps < 3]


def tests_pass(tree: Path, arguments: Iterable[str], timeout_s: float) -> bool:
    """Return whether the tests pass; no collected tests count as passed.

    Raises:
        subprocess.TimeoutExpired: they take longer than ``timeout_s`` seconds.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *arguments]
    env = {**os.environ, "PYTHONPATH": str(tree), "HYPOTHESIS_PROFILE": "repeatable"}
    result = subprocess.run(command, cwd=tree, env=env, capture_output=True, timeout=timeout_s, check=False)
    return result.returncode in (0, 5)


def end_of(tree: Path, tests: str, name: str, trial: Trial) -> str:
    """Return ``found`` if a test fails, ``timeout`` if the tests take too long (an endless loop), else ``survived``."""
    nearest = nearest_tests(tree, tests, name)
    remaining = [tests, *(f"--ignore={module}" for module in nearest)]
    try:
        passed = not nearest or tests_pass(tree, nearest, trial.timeout_s)
        if passed and not (nearest and trial.nearest):
            passed = tests_pass(tree, remaining, trial.timeout_s)
    except subprocess.TimeoutExpired:
        return "timeout"
    return "survived" if passed else "found"


def equivalents() -> dict[tuple[str, str, str, str], str]:
    """Return the reason of each mutant without effect, by its key."""
    lines = [line.split("\t") for line in EQUIVALENT.read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    return {(path, code, before, after): reason for path, code, before, after, reason in lines}


def choose(count: int, seed: int) -> list[tuple[Mutant, bytes]]:
    """Choose distinct mutants at random, first the file, so that long files are not tried more often than short."""
    random_generator = random.Random(seed)
    files = [path for folder in TESTED for path in sorted((ROOT / folder).rglob("*.py")) if path.name != "__init__.py"]
    names = [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in files]
    mutants: dict[tuple[str, int, str], tuple[Mutant, bytes]] = {}
    while len(mutants) < count:
        name, text = random_generator.choice(names)
        candidates = mutants_of(text, name)
        if candidates:
            mutant, mutated = random_generator.choice(candidates)
            mutants[(name, mutant.line, mutant.before)] = mutant, mutated
    return list(mutants.values())


def survivors(printed: str) -> list[tuple[Mutant, bytes]]:
    """Return the mutants that survived an earlier run, from its output."""
    entries = [line.split("\t")[2:] for line in printed.splitlines() if line.startswith(("survived", "timeout"))]
    mutants = []
    for name, code, before, after in entries:
        path = name.split(":")[0]
        candidates = mutants_of((ROOT / path).read_text(encoding="utf-8"), path)
        mutants += [candidate for candidate in candidates if candidate[0].key == (path, code, before, after)][:1]
    return mutants


def try_all(mutants: Iterable[tuple[Mutant, bytes]], trial: Trial) -> Iterator[tuple[Mutant, str, float]]:
    """Try the mutants one after the other; yield each with its outcome and the seconds it took."""
    equivalent = equivalents()
    with tempfile.TemporaryDirectory(prefix="gridbroker-mutants-") as place:
        tree = copy_tree(Path(place))
        for mutant, mutated in mutants:
            start_s = time.monotonic()
            file = tree / mutant.path
            if mutant.key in equivalent:
                yield mutant, "equivalent", 0.0
                continue
            original = file.read_bytes()
            write_module(file, mutated)
            folder = next(folder for folder in TESTED if mutant.path.startswith(folder + "/"))
            end = end_of(tree, TESTED[folder], mutant.path, trial)
            write_module(file, original)
            yield mutant, end, time.monotonic() - start_s


def write_module(file: Path, text: bytes) -> None:
    """Write a module and remove its cached bytecode, which may match the new file in size and time stamp."""
    file.write_bytes(text)
    for cached in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        cached.unlink()


def main() -> None:
    """Try mutants, and print each with the share found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40, help="mutants [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of the choice [%(default)s]")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds for the tests of one [%(default)s]")
    parser.add_argument("--skip", type=int, default=0, help="mutants that an earlier run has tried [%(default)s]")
    parser.add_argument("--nearest", action="store_true", help="run the nearest modules only: fast, finds fewer")
    parser.add_argument("--again", type=Path, help="what an earlier run printed: try its survivors again")
    options = parser.parse_args()
    mutants = (
        survivors(options.again.read_text(encoding="utf-8")) if options.again else choose(options.count, options.seed)
    )
    ends: dict[str, int] = {}
    for mutant, end, seconds in try_all(mutants[options.skip :], Trial(options.timeout, options.nearest)):
        ends[end] = ends.get(end, 0) + 1
        line = f"{mutant.path}:{mutant.line}"
        print(end, f"{seconds:.0f} s", line, mutant.code, mutant.before, mutant.after, sep="\t", flush=True)
    tried = sum(ends.values()) - ends.get("equivalent", 0)
    caught = ends.get("found", 0) + ends.get("timeout", 0)
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())), f"{caught} of {tried} noticed", sep="; ")


if __name__ == "__main__":
    main()
