"""Mutants: does a wrong comparison, constant or sign fail a test of its own folder?

Changes one comparison, number or sign at random (seeded) in a copy of the tree, and runs the tests of the folder of the
changed file: ``broker/rules/shared/filters`` is tested by ``tests/rules``, ``broker/work`` by ``tests/work``. The test
modules nearest to the file come first (by name, then by import, then by folder), because nearly always it is they that
fail; the rest of the folder runs only when they pass. Prints a line a mutant and the share found. The tree itself is
not touched. Mutants that change nothing anybody can see are in ``equivalent_mutants.tsv``, each with its reason, and
are counted apart. Run by hand:

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
#: Folders whose files are changed, and where their tests are.
TESTED = {"broker/rules": "tests/rules", "broker/engine": "tests/engine", "broker/work": "tests/work"}
#: Mutants that change nothing: file, code of the line, before, after, reason; parted by tabs.
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
        """What names it when lines have moved."""
        return self.path, self.code, self.before, self.after


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


def mutants_of(text: str, name: str) -> list[tuple[Mutant, bytes]]:
    """Every change of a file, each with the bytes of the changed file."""
    encoded = text.encode()
    lines = encoded.splitlines(keepends=True)
    found = []
    for node in places(ast.parse(text)):
        # an expression stands in one line or in few: all of them are replaced by the changed one, as Python writes it
        first, last = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]  # all of them have lines
        head = b"".join(lines[: first - 1]) + lines[first - 1][: node.col_offset]  # type: ignore[attr-defined]
        tail = lines[last - 1][node.end_col_offset :] + b"".join(lines[last:])  # type: ignore[attr-defined]
        before = ast.unparse(node)
        change(node)
        after = ast.unparse(node)
        change_back(node)
        code = lines[first - 1].decode().strip()
        found.append((Mutant(name, first, code, before, after), head + f"({after})".encode() + tail))
    return found


def change_back(node: ast.AST) -> None:
    """Undo ``change``: comparisons and signs are swapped in pairs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value -= 1
    else:
        change(node)


def copied(folder: Path) -> Path:
    """The tree in ``folder``."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


@dataclass(frozen=True)
class Trial:
    """How mutants are tried: the most seconds for the tests of one, whether the nearest modules are all that run."""

    timeout_s: float
    nearest: bool


def nearest_tests(tree: Path, tests: str, name: str) -> list[str]:
    """Test modules that are named like the file, import it, or stand where it stands; in this order.

    Args:
        tree: the copy.
        tests: folder of the tests, as ``tests/rules``.
        name: the changed file, as ``broker/rules/shared/memory.py``.
    """
    file = Path(name)
    package, room = ".".join(file.parts[:-1]), Path("tests", *file.parts[1:-1])
    imports = (f"import {package}.{file.stem}", f"from {package}.{file.stem} ", f"from {package} import {file.stem}")

    def distance(path: Path) -> int:
        if path.stem.startswith(f"test_{file.stem}"):
            return 0
        if any(one in path.read_text(encoding="utf-8") for one in imports):
            return 1
        return 2 if path.parent == tree / room else 3

    near = [(distance(path), path) for path in sorted((tree / tests).rglob("test_*.py"))]
    return [str(path.relative_to(tree)) for how_far, path in sorted(near) if how_far < 3]


def tests_pass(tree: Path, arguments: Iterable[str], timeout_s: float) -> bool:
    """Whether the tests pass; none collected counts as passed.

    Raises:
        subprocess.TimeoutExpired: they take longer than ``timeout_s`` seconds.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *arguments]
    env = {**os.environ, "PYTHONPATH": str(tree), "HYPOTHESIS_PROFILE": "repeatable"}
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, timeout=timeout_s, check=False)
    return done.returncode in (0, 5)


def end_of(tree: Path, tests: str, name: str, trial: Trial) -> str:
    """``found`` when a test fails, ``timeout`` when they take too long (a loop without end), else ``survived``."""
    near = nearest_tests(tree, tests, name)
    rest = [tests, *(f"--ignore={one}" for one in near)]
    try:
        passed = not near or tests_pass(tree, near, trial.timeout_s)
        if passed and not (near and trial.nearest):
            passed = tests_pass(tree, rest, trial.timeout_s)
    except subprocess.TimeoutExpired:
        return "timeout"
    return "survived" if passed else "found"


def equivalents() -> dict[tuple[str, str, str, str], str]:
    """The reason of each mutant that changes nothing, by its key."""
    lines = [line.split("\t") for line in EQUIVALENT.read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    return {(path, code, before, after): reason for path, code, before, after, reason in lines}


def chosen(count: int, seed: int) -> list[tuple[Mutant, bytes]]:
    """Mutants at random, none twice: first the file, so that long files are not tried more often than short ones."""
    chance = random.Random(seed)
    files = [path for folder in TESTED for path in sorted((ROOT / folder).rglob("*.py")) if path.name != "__init__.py"]
    names = [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in files]
    found: dict[tuple[str, int, str], tuple[Mutant, bytes]] = {}
    while len(found) < count:
        name, text = chance.choice(names)
        possible = mutants_of(text, name)
        if possible:
            mutant, changed = chance.choice(possible)
            found[(name, mutant.line, mutant.before)] = mutant, changed
    return list(found.values())


def survivors(printed: str) -> list[tuple[Mutant, bytes]]:
    """The mutants that survived an earlier run, by what it printed."""
    wanted = [line.split("\t")[2:] for line in printed.splitlines() if line.startswith(("survived", "timeout"))]
    found = []
    for name, code, before, after in wanted:
        path = name.split(":")[0]
        possible = mutants_of((ROOT / path).read_text(encoding="utf-8"), path)
        found += [one for one in possible if one[0].key == (path, code, before, after)][:1]
    return found


def try_all(mutants: Iterable[tuple[Mutant, bytes]], trial: Trial) -> Iterator[tuple[Mutant, str, float]]:
    """Mutants one after the other, each with what became of it and the seconds it took."""
    unseen = equivalents()
    with tempfile.TemporaryDirectory(prefix="gridbroker-mutants-") as place:
        tree = copied(Path(place))
        for mutant, changed in mutants:
            started = time.monotonic()
            file = tree / mutant.path
            if mutant.key in unseen:
                yield mutant, "equivalent", 0.0
                continue
            whole = file.read_bytes()
            written(file, changed)
            folder = next(folder for folder in TESTED if mutant.path.startswith(folder + "/"))
            end = end_of(tree, TESTED[folder], mutant.path, trial)
            written(file, whole)
            yield mutant, end, time.monotonic() - started


def written(file: Path, text: bytes) -> None:
    """Write a module; what was compiled of the one before goes, which may have its length and its second."""
    file.write_bytes(text)
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


def main() -> None:
    """Try mutants, and print each with the share found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40, help="mutants [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of the choice [%(default)s]")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds for the tests of one [%(default)s]")
    parser.add_argument("--skip", type=int, default=0, help="mutants that an earlier run has tried [%(default)s]")
    parser.add_argument("--nearest", action="store_true", help="run the nearest modules only: fast, finds fewer")
    parser.add_argument("--again", type=Path, help="what an earlier run printed: try its survivors again")
    asked = parser.parse_args()
    mutants = survivors(asked.again.read_text(encoding="utf-8")) if asked.again else chosen(asked.count, asked.seed)
    ends: dict[str, int] = {}
    for mutant, end, seconds in try_all(mutants[asked.skip :], Trial(asked.timeout, asked.nearest)):
        ends[end] = ends.get(end, 0) + 1
        line = f"{mutant.path}:{mutant.line}"
        print(end, f"{seconds:.0f} s", line, mutant.code, mutant.before, mutant.after, sep="\t", flush=True)
    tried = sum(ends.values()) - ends.get("equivalent", 0)
    caught = ends.get("found", 0) + ends.get("timeout", 0)
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())), f"{caught} of {tried} noticed", sep="; ")


if __name__ == "__main__":
    main()
