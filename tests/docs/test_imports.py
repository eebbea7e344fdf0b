"""Who may import whom. The order of the packages is the architecture; see docs/explanation/architecture.md."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Set
from pathlib import Path

from tests.docs.make_pages import house
from tests.docs.source_tree import ROOT, files, imported_modules, shown, syntax_tree

# Small modules without imports of ours beyond each other: everybody but the domain may use them.
BASE = {
    "broker.errors",
    "broker.feature",
    "broker.garbage_collection",
    "broker.resources",
    "broker.password_file",
    "broker.json_depth",
    "broker.redaction",
    "broker.settings",
    "broker.wrong_values",
    "broker.yaml_text",
    "broker.__version__",
}

HOUSE = house()
FEATURES = set(HOUSE["features"])
LAYERS = [one["layer"] for one in HOUSE["layers"]]
ALLOWED: dict[str, list[str]] = {one["package"]: one["imports"] for one in HOUSE["packages"]} | {
    one["layer"]: one["imports"] for one in HOUSE["layers"]
}
EXCEPTIONS: dict[str, set[str]] = {one["package"]: set(one["imports"]) for one in HOUSE["exceptions"]}
# What "kernel" stands for in a list of imports.
KERNEL = (
    "domain",
    "matching",
    "work",
    "codec",
    "snapshot",
    "rules",
    "gdpconfig",
    "classes",
    "engine",
    "compilation",
    "brokerages",
)

# The packages that decide. They are handed everything, so that the same arguments give the same answer.
PURE = (
    *(f"broker/{name}" for name in (*KERNEL, "access") if name != "compilation"),
    *(f"broker/{name}/model" for name in ("pools", "lifecycle", "pilots")),
    "broker/simulation/demo",
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


MAY_LOOK_LAYERS = ("cli", "api", "commands", "routes")


def package_of(path: Path) -> str:
    """``agents``, ``broker.PACKAGE``, or ``broker.FEATURE.LAYER``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] == "agents":
        return "agents"
    return ".".join(parts[:3] if parts[1] in FEATURES and len(parts) > 2 else parts[:2])


def is_within(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def allowed_imports(package: str) -> set[str]:
    """The packages that a file of ``package`` may import, without the exceptions."""
    _, _, rest = package.partition(".")
    feature, _, layer = rest.partition(".")
    is_layer = feature in FEATURES
    named = ALLOWED[layer if is_layer else package]
    allowed = {package}
    for name in named:
        if name == "kernel":
            allowed |= {f"broker.{one}" for one in KERNEL}
        elif name in LAYERS:
            allowed |= {f"broker.{one}.{name}" for one in FEATURES}
        else:
            allowed.add(name if name == "agents" else f"broker.{name}")
    if is_layer:
        below = LAYERS[: LAYERS.index(layer)]
        allowed |= {f"broker.{feature}.{one}" for one in below}
        if LAYERS.index(layer) >= LAYERS.index("answers"):
            allowed |= {f"broker.{one}.answers" for one in FEATURES}
    return allowed


def forbidden_imports(package: str, modules: Set[str], exceptions: Set[str] = frozenset()) -> list[str]:
    """What a file of ``package`` imports of ours and may not."""
    allowed = allowed_imports(package) | (set() if package == "broker.domain" else BASE) | exceptions
    ours = {module for module in modules if module.split(".")[0] in ("broker", "agents")}
    return sorted(module for module in ours if not is_within(module, allowed))


def imports_by_package() -> dict[str, dict[str, Set[str]]]:
    """Package, file, modules that the file imports; empty ``__init__`` files are left out."""
    found: dict[str, dict[str, Set[str]]] = defaultdict(dict)
    for path in files("broker", "agents"):
        modules = imported_modules(path)
        if modules and path.parent != ROOT / "broker":
            found[package_of(path)][shown(path)] = modules
    return found


def test_packages_import_only_what_is_below_them() -> None:
    wrong = {
        name: forbidden_imports(package, modules, EXCEPTIONS.get(package, set()))
        for package, by_file in imports_by_package().items()
        for name, modules in by_file.items()
    }
    assert len(wrong) > 100
    assert {name: modules for name, modules in wrong.items() if modules} == {}


def test_modules_of_the_base_import_only_each_other() -> None:
    for path in (ROOT / "broker").glob("*.py"):
        ours = {module for module in imported_modules(path) if module.split(".")[0] in ("broker", "agents")}
        assert all(is_within(module, BASE) for module in ours), path


def test_every_exception_is_still_needed() -> None:
    by_package = imports_by_package()
    for package, exceptions in EXCEPTIONS.items():
        modules = {module for one in by_package.get(package, {}).values() for module in one}
        needed = set(forbidden_imports(package, modules))
        assert {one for one in exceptions if not any(is_within(module, {one}) for module in needed)} == set(), package


def test_what_decides_does_no_input_or_output() -> None:
    roots = {
        shown(path): {module.split(".")[0] for module in imported_modules(path)} & INPUT_AND_OUTPUT
        for path in files(*PURE)
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
        if package_of(path).split(".")[-1] not in MAY_LOOK_LAYERS and shown(path) not in MAY_LOOK
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
