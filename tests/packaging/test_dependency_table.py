"""``docs/reference/dependencies.md`` names what is installed, with the licences that the packages state."""

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
    """The rows of both tables, without their heads."""
    text = (ROOT / "docs/reference/dependencies.md").read_text(encoding="utf-8")
    parts = text.split("\n## ")[1:]
    rows = [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")][
            2:
        ]
        for part in parts
    ]
    return rows[0], rows[1]


def installed_by(requirements: list[str]) -> set[str]:
    """What an installation of these brings, with all that they need here."""
    names: set[str] = set()
    open_ones = [Requirement(line) for line in requirements]
    while open_ones:
        one = open_ones.pop()
        name = canonicalize_name(one.name)
        names.add(name)
        for line in distribution(name).requires or []:
            needed = Requirement(line)
            wanted = [{"extra": extra} for extra in (*one.extras, "")]
            known = canonicalize_name(needed.name) in names and not needed.extras
            if not known and (needed.marker is None or any(needed.marker.evaluate(extra) for extra in wanted)):
                open_ones.append(needed)
    return names


def families(licence: str) -> set[str]:
    words = {word.upper() for word in _FAMILY.findall(licence)}
    return {"PSF" if word == "PYTHON SOFTWARE FOUNDATION" else word for word in words}


def stated(name: str) -> set[str]:
    about = distribution(name).metadata
    classifiers = [line for line in about.get_all("Classifier") or [] if line.startswith("License")]
    return families(" ".join([about.get("License-Expression") or "", *classifiers])) or families(
        about.get("License") or ""
    )


def test_the_default_installation_is_what_the_table_names() -> None:
    rows, _ = tables()
    assert sorted(row[0] for row in rows) == sorted(installed_by(PROJECT["dependencies"]))
    assert len({row[0] for row in rows}) == len(rows)
    text = (ROOT / "docs/reference/dependencies.md").read_text(encoding="utf-8")
    assert f"installs {len(rows)} packages" in text


def test_each_package_of_an_extra_is_in_the_table() -> None:
    _, rows = tables()
    asked = {
        (extra, canonicalize_name(Requirement(line).name))
        for extra, lines in PROJECT["optional-dependencies"].items()
        if extra not in FOR_DEVELOPERS
        for line in lines
    }
    named = {(extra, row[1]) for row in rows for extra in row[0].split(", ")}
    expected = {(extra, name) for extra, name in asked if name != "gridbroker"}
    # an extra that contains another one is named beside it
    contained = {("web", name) for extra, name in expected if extra == "api"}
    contained |= {("simulate", name) for extra, name in expected if extra == "flow"}
    assert named == expected | contained


def test_licences_are_those_that_the_packages_state() -> None:
    default, extras = tables()
    different = {}
    for name, licence in [(row[0], row[1]) for row in default] + [(row[1], row[2]) for row in extras]:
        try:
            says = stated(name)
        except PackageNotFoundError:
            assert name in {"rucio-clients", "psij-python"}, name
            continue
        if not families(licence) <= says:
            different[name] = (licence, says)
    assert different == {}


def test_each_package_asked_for_says_what_would_be_without_it() -> None:
    default, extras = tables()
    asked = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    assert [row[0] for row in default if row[0] in asked and not row[4]] == []
    assert [row[1] for row in extras if not row[4]] == []
