"""Who may import whom. The order of the packages is the architecture; see docs/explanation/architecture.md."""

from __future__ import annotations

import ast
from collections.abc import Set
from pathlib import Path

from tests.docs.make_pages import packages
from tests.docs.source_tree import ROOT, files, imported_modules, shown, syntax_tree

# Small modules without imports of ours beyond each other: everybody but the domain may use them.
BASE = {
    "broker.errors",
    "broker.installed",
    "broker.redaction",
    "broker.resources",
    "broker.wrong_values",
    "broker.yaml_text",
    "broker.__version__",
}

ALLOWED: dict[str, set[str]] = {one["package"]: set(one["imports"]) for one in packages()}

# The packages that decide. They are handed everything, so that the same arguments give the same answer.
PURE = (
    "domain",
    "matching",
    "rules",
    "pools",
    "lifecycle",
    "pilots",
    "work",
    "snapshot",
    "engine",
    "brokerages",
    "classes",
    "gdpconfig",
    "demo",
    "access",
)
INPUT_AND_OUTPUT = {
    "sqlalchemy",
    "psycopg",
    "socket",
    "subprocess",
    "urllib",
    "http",
    "requests",
    "asyncio",
    "threading",
}
HIDDEN_ARGUMENTS = {
    "time.time",
    "time.monotonic",
    "time.time_ns",
    "time.perf_counter",
    "os.environ",
    "os.getenv",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "uuid.uuid1",
    "uuid.uuid4",
    "np.random.seed",
    "np.random.rand",
    "np.random.random",
    "np.random.choice",
}
LAST_WORDS = {name.rpartition(".")[2] for name in HIDDEN_ARGUMENTS}
# Below the agents and the commands only the embedded server, which starts processes, looks at the clock or the account.
MAY_LOOK = (
    "broker/store/connection/deadlines.py",
    "broker/store/connection/embedded.py",
    "broker/store/connection/embedded_binaries.py",
    "broker/store/scenarios/scenario_file.py",
)


def package_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0] if parts[0] == "agents" else ".".join(parts[:2])


def is_within(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def forbidden_imports(package: str, modules: Set[str]) -> list[str]:
    """What a file of ``package`` imports of ours and may not."""
    allowed = ALLOWED[package] | {package} | (set() if package == "broker.domain" else BASE)
    ours = {module for module in modules if module.split(".")[0] in ("broker", "agents")}
    above = {"broker.app", "broker.cli"} if package == "agents" else set()
    return sorted(m for m in ours if not is_within(m, allowed) or is_within(m, above))


def test_packages_import_only_what_is_below_them() -> None:
    wrong = {}
    for path in files("broker", "agents"):
        # Modules directly in broker/ are the base: they import each other and nothing else of ours.
        package = "the base" if path.parent == ROOT / "broker" else package_of(path)
        assert package in ALLOWED, f"{package} is not in the table: say what it may import"
        wrong[shown(path)] = forbidden_imports(package, imported_modules(path))
    assert len(wrong) > 100
    assert {name: modules for name, modules in wrong.items() if modules} == {}


def test_what_decides_does_no_input_or_output() -> None:
    roots = {
        shown(path): {module.split(".")[0] for module in imported_modules(path)} & INPUT_AND_OUTPUT
        for path in files(*(f"broker/{name}" for name in PURE))
    }
    assert {name: modules for name, modules in roots.items() if modules} == {}


def hidden_arguments(tree: ast.AST) -> list[str]:
    """Uses of the clock, the environment, or a random source without a seed, with their lines."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in LAST_WORDS:
            name = ast.unparse(node)
            if any(name == hidden or name.endswith("." + hidden) for hidden in HIDDEN_ARGUMENTS):
                found.append(f"line {node.lineno}: {name}")
        elif isinstance(node, ast.Call) and not node.args and ast.unparse(node.func).endswith("default_rng"):
            found.append(f"line {node.lineno}: default_rng without a seed")
        elif isinstance(node, ast.Import) and any(alias.name == "random" for alias in node.names):
            found.append(f"line {node.lineno}: import random")
    return found


def test_nothing_below_the_agents_looks_at_the_clock_or_the_environment() -> None:
    below = [
        path
        for path in files("broker")
        if package_of(path) not in ("broker.cli", "broker.api") and shown(path) not in MAY_LOOK
    ]
    found = {shown(path): hidden_arguments(syntax_tree(path)) for path in below}
    assert {name: uses for name, uses in found.items() if uses} == {}, "take it as an argument"


def test_the_checks_find_what_they_are_for() -> None:
    assert forbidden_imports("broker.domain", {"broker.errors.BrokerError"}) == ["broker.errors.BrokerError"]
    assert forbidden_imports("broker.rules", {"broker.errors.BrokerError", "numpy", "broker.domain.work.Task"}) == []
    assert forbidden_imports("broker.engine", {"broker.rules.contract.Rule", "broker.rules.registry.x"}) == [
        "broker.rules.registry.x"
    ]
    assert forbidden_imports("broker.store", {"agents.service.base", "broker.cli.main"}) == [
        "agents.service.base",
        "broker.cli.main",
    ]
    assert forbidden_imports("agents", {"broker.cli.main.main", "broker.store.connection.database.Database"}) == [
        "broker.cli.main.main"
    ]
    code = """
import random
now = datetime.datetime.now(UTC)
generator = np.random.default_rng()
seeded = np.random.default_rng(7)
os.environ["X"]
"""
    assert [line.split(":")[0] for line in sorted(hidden_arguments(ast.parse(code)))] == [
        "line 2",
        "line 3",
        "line 4",
        "line 6",
    ]
