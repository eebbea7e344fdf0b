"""``docs/reference/dependencies.md`` lists the installed packages with the licences that they declare."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.docs.source_tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_DEVELOPERS = {"docs", "test", "audit", "dev"}
_FAMILY = re.compile(r"MIT|BSD|Apache|PSF|LGPL|MPL|ISC|UPL|Python Software Foundation|zlib", re.IGNORECASE)


def tables() -> tuple[list[list[str]], list[list[str]]]:
    """The rows of both tables, without their headers."""
    text = (ROOT / "docs/reference/dependencies.md").read_text(encoding="utf-8")
    parts = text.split("\n## ")[1:]
    rows = [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")][
            2:
        ]
        for part in parts
    ]
    return rows[0], rows[1]


def packages_installed_for(requirements: list[str]) -> set[str]:
    """The packages that an installation of these requirements brings, with their dependencies on this platform."""
    names: set[str] = set()
    pending = [Requirement(line) for line in requirements]
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        names.add(name)
        for line in distribution(name).requires or []:
            dependency = Requirement(line)
            extras = [{"extra": extra} for extra in (*requirement.extras, "")]
            is_known = canonicalize_name(dependency.name) in names and not dependency.extras
            if not is_known and (
                dependency.marker is None or any(dependency.marker.evaluate(extra) for extra in extras)
            ):
                pending.append(dependency)
    return names


def families(licence: str) -> set[str]:
    words = {word.upper() for word in _FAMILY.findall(licence)}
    return {"PSF" if word == "PYTHON SOFTWARE FOUNDATION" else word for word in words}


def declared_licences(name: str) -> set[str]:
    about = distribution(name).metadata
    classifiers = [line for line in about.get_all("Classifier") or [] if line.startswith("License")]
    return families(" ".join([about.get("License-Expression") or "", *classifiers])) or families(
        about.get("License") or ""
    )


def test_the_table_lists_the_packages_of_the_default_installation() -> None:
    rows, _ = tables()
    assert sorted(row[0] for row in rows) == sorted(packages_installed_for(PROJECT["dependencies"]))
    assert len({row[0] for row in rows}) == len(rows)
    text = (ROOT / "docs/reference/dependencies.md").read_text(encoding="utf-8")
    assert f"installs {len(rows)} packages" in text


def test_each_package_of_an_extra_is_in_the_table() -> None:
    _, rows = tables()
    required_packages = {
        (extra, canonicalize_name(Requirement(line).name))
        for extra, lines in PROJECT["optional-dependencies"].items()
        if extra not in FOR_DEVELOPERS
        for line in lines
    }
    listed_packages = {(extra, row[1]) for row in rows for extra in row[0].split(", ")}
    expected = {(extra, name) for extra, name in required_packages if name != "gridbroker"}
    # an extra that contains another extra is listed beside it
    contained_packages = {("web", name) for extra, name in expected if extra == "api"}
    contained_packages |= {("simulate", name) for extra, name in expected if extra == "flow"}
    assert listed_packages == expected | contained_packages


def test_licences_are_those_that_the_packages_declare() -> None:
    default, extras = tables()
    different = {}
    for name, licence in [(row[0], row[1]) for row in default] + [(row[1], row[2]) for row in extras]:
        try:
            declared_families = declared_licences(name)
        except PackageNotFoundError:
            assert name in {"rucio-clients", "psij-python"}, name
            continue
        if not families(licence) <= declared_families:
            different[name] = (licence, declared_families)
    assert different == {}


def test_each_required_package_has_a_reason() -> None:
    default, extras = tables()
    required_packages = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    assert [row[0] for row in default if row[0] in required_packages and not row[4]] == []
    assert [row[1] for row in extras if not row[4]] == []
