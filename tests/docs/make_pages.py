"""Makes what the tree says twice: ``make reference`` writes it, and tests compare.

The table of packages in ``docs/explanation/architecture.md`` comes from ``docs/explanation/packages.yaml``; the list of
all defaults, ``tests/gdpconfig/defaults.yaml``, from the catalogue, so that a change of one is seen in a review.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from broker.gdpconfig.shipped import shipped_catalogue
from tests.docs.source_tree import ROOT

PACKAGES = ROOT / "docs" / "explanation" / "packages.yaml"
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"
DEFAULTS = ROOT / "tests" / "gdpconfig" / "defaults.yaml"
START, END = "<!-- packages -->\n", "<!-- end of packages -->"


@cache
def packages() -> list[dict[str, Any]]:
    """The packages, from the bottom up, with their contents and what each may import."""
    found: list[dict[str, Any]] = yaml.safe_load(PACKAGES.read_text(encoding="utf-8"))
    return found


def architecture() -> str:
    """The page with the table of packages as it should be."""
    page = ARCHITECTURE.read_text(encoding="utf-8")
    head, tail = page[: page.index(START) + len(START)], page[page.index(END) :]
    rows = [f"| {_name(one)} | {one['contents']} | {_imports(one['imports'])} |" for one in packages()]
    return "\n".join(
        [head.rstrip("\n"), "| package | what is in it | what it may import of ours |", "|---|---|---|", *rows, tail]
    )


def _name(one: dict[str, Any]) -> str:
    return f"`{one['package']}`" if "." in one["package"] or one["package"] == "agents" else str(one["package"])


def _imports(names: list[str]) -> str:
    if {"broker", "agents"} & set(names) == set(names) and names:
        return "everything" if len(names) == 2 else "everything but `broker.app` and `broker.cli`"
    return ", ".join(name.removeprefix("broker.") for name in names) or "nothing"


def defaults() -> str:
    """Every key of the catalogue with its default."""
    lines = [f"{entry.key}: {_plain(entry.default)}" for entry in shipped_catalogue()]
    return "\n".join(["# Made by `make reference` from config/gdpconfig.yaml: every key with its default.", *lines, ""])


def _plain(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()


PAGES: dict[Path, Any] = {ARCHITECTURE: architecture, DEFAULTS: defaults}


def main() -> None:
    """Write all of them."""
    for path, made in PAGES.items():
        path.write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main()
