"""Checks imports between packages. Their order is the architecture; see docs/explanation/architecture.md."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.docs.make_pages import house
from tests.docs.source_tree import ROOT, files, imported_modules, relative_path, syntax_tree

# Small modules that import only each other: every package but the domain may use them.
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
LAYERS = [entry["layer"] for entry in HOUSE["layers"]]
ALLOWED: dict[str, list[str]] = {entry["package"]: entry["imports"] for entry in HOUSE["packages"]} | {
    entry["layer"]: entry["imports"] for entry in HOUSE["layers"]
}
EXCEPTIONS: dict[str, set[str]] = {entry["package"]: set(entry["imports"]) for entry in HOUSE["exceptions"]}
# The number of exceptions; it may only fall. Lower it when one goes.
MOST_EXCEPTIONS = 63
# The packages that "kernel" means in a list of imports.
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

# The packages that decide. They get everything as arguments, so that the same arguments give the same result.
PURE = (
    *(f"broker/{name}" for name in (*KERNEL, "access") if name != "compilation"),
    *(f"broker/{feature}/model" for feature in sorted(FEATURES - {"decisions", "tuning"})),  # those two have no model
)
# Files of these packages that do input or output all the same, each with its reason.
DO_INPUT_OR_OUTPUT = {
    "broker/formats/model/feature_http.py": "keys of Machine/Job Features are files or web addresses, read alike",
    "broker/simulation/model/comparing.py": "runs simulations in several processes; each is pure",
    "broker/whatif/model/executor.py": "decides cycles again in several processes; each decision is pure",
}
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
    "multiprocessing",
    "concurrent",
    "distributed",
    "ssl",
    "httpx",
    "smtplib",
    "stomp",
    "oracledb",
    "psij",
    "rucio",
}
NO_INPUT_OR_OUTPUT = "urllib.parse"
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
# Below the agents and the commands, only these files use the clock or the account.
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
    names = ALLOWED[layer if is_layer else package]
    allowed = {package}
    for name in names:
        if name == "kernel":
            allowed |= {f"broker.{part}" for part in KERNEL}
        elif name in LAYERS:
            allowed |= {f"broker.{part}.{name}" for part in FEATURES}
        else:
            allowed.add(name if name == "agents" else f"broker.{name}")
    if is_layer:
        below = LAYERS[: LAYERS.index(layer)]
        allowed |= {f"broker.{feature}.{part}" for part in below}
        if LAYERS.index(layer) >= LAYERS.index("answers"):
            allowed |= {f"broker.{part}.answers" for part in FEATURES}
    return allowed


def forbidden_imports(package: str, modules: Set[str], exceptions: Set[str] = frozenset()) -> list[str]:
    """The imports of ours that a file of ``package`` may not have."""
    allowed = allowed_imports(package) | (set() if package == "broker.domain" else BASE) | exceptions
    ours = {module for module in modules if module.split(".")[0] in ("broker", "agents")}
    return sorted(module for module in ours if not is_within(module, allowed))


def imports_by_package() -> dict[str, dict[str, Set[str]]]:
    """The modules that each file imports, by package and file; empty ``__init__`` files are left out."""
    imports: dict[str, dict[str, Set[str]]] = defaultdict(dict)
    for path in files("broker", "agents"):
        modules = imported_modules(path)
        if modules and path.parent != ROOT / "broker":
            imports[package_of(path)][relative_path(path)] = modules
    return imports


def test_packages_import_only_packages_below_them() -> None:
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
        modules = {module for modules_of_file in by_package.get(package, {}).values() for module in modules_of_file}
        needed = set(forbidden_imports(package, modules))
        assert {name for name in exceptions if not any(is_within(module, {name}) for module in needed)} == set(), (
            package
        )


def imports_between_modules() -> dict[str, set[str]]:
    """The modules of ours that each module imports anywhere, also only for types."""
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files("broker", "agents")}
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    return {
        name: {module_of(each, paths) for each in imported_modules(path)} - {"", name} for name, path in paths.items()
    }


def module_of(name: str, modules: Iterable[str]) -> str:
    """The module that an imported name is in; empty if it is none of ours."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def first_circle(imports: Mapping[str, Set[str]]) -> list[str]:
    """Modules that import each other in this order, the first at the end again; empty without any."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    imports = imports_between_modules()
    assert len(imports) > 1000
    assert first_circle(imports) == []


def test_no_exception_is_added() -> None:
    assert sum(len(exceptions) for exceptions in EXCEPTIONS.values()) == MOST_EXCEPTIONS


def test_packages_that_decide_do_no_input_or_output() -> None:
    assert [package for package in PURE if not files(package)] == []
    roots = {
        relative_path(path): input_or_output(imported_modules(path)) for package in PURE for path in files(package)
    }
    used = {name: modules for name, modules in roots.items() if modules}
    assert {name: modules for name, modules in used.items() if name not in DO_INPUT_OR_OUTPUT} == {}
    assert used.keys() == DO_INPUT_OR_OUTPUT.keys()


def test_every_feature_with_a_model_is_among_those_packages() -> None:
    with_a_model = {feature for feature in FEATURES if list((ROOT / "broker" / feature).glob("model*"))}
    assert {f"broker/{feature}/model" for feature in with_a_model} == {name for name in PURE if name.endswith("/model")}


def input_or_output(modules: Iterable[str]) -> set[str]:
    """The packages for input and output among the imports of a file."""
    return {
        module.split(".")[0] for module in modules if not is_within(module, {NO_INPUT_OR_OUTPUT})
    } & INPUT_AND_OUTPUT


def hidden_arguments(tree: ast.AST) -> list[str]:
    """Uses of the clock, the environment, or a random generator without a seed, with their lines."""
    uses = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in LAST_WORDS:
            name = ast.unparse(node)
            if any(name == hidden or name.endswith("." + hidden) for hidden in HIDDEN_ARGUMENTS):
                uses.append(f"line {node.lineno}: {name}")
        elif isinstance(node, ast.Call) and not node.args and ast.unparse(node.func).endswith("default_rng"):
            uses.append(f"line {node.lineno}: default_rng without a seed")
        elif isinstance(node, ast.Import) and any(alias.name == "random" for alias in node.names):
            uses.append(f"line {node.lineno}: import random")
    return uses


def test_no_code_below_the_agents_uses_the_clock_or_the_environment() -> None:
    below = [
        path
        for path in files("broker")
        if package_of(path).split(".")[-1] not in MAY_LOOK_LAYERS and relative_path(path) not in MAY_LOOK
    ]
    uses_by_file = {relative_path(path): hidden_arguments(syntax_tree(path)) for path in below}
    assert {name: uses for name, uses in uses_by_file.items() if uses} == {}, "take it as an argument"


def test_the_checks_detect_forbidden_imports_and_hidden_arguments() -> None:
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
    assert input_or_output({"urllib.parse.quote", "urllib.request.urlopen", "math.inf"}) == {"urllib"}
    assert first_circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert sorted(set(first_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}))) == ["b", "c"]
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
