"""Files that people look for beside the README: they are there, their links lead somewhere, their forms can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "SUPPORT.md", "SECURITY.md", "GOVERNANCE.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md")


@pytest.mark.parametrize("name", PAGES)
def test_links_and_named_files_lead_to_what_is_there(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    linked = {one.split("#")[0] for one in re.findall(r"\]\(([^)]+)\)", text) if "://" not in one}
    named = set(re.findall(r"`((?:docs/|[A-Z_]+\.md)[\w./-]*)`", text))
    assert [one for one in sorted(linked | named) if one and not (ROOT / one).exists()] == []


def test_the_citation_names_the_project_as_its_package_does() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    package = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert cited["cff-version"] == "1.2.0"
    assert f'name = "{cited["title"]}"' in package
    assert f'license = "{cited["license"]}"' in package
    assert cited["authors"]


def test_forms_ask_for_what_a_report_needs() -> None:
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    forms = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in folder.glob("*.yml")}
    assert forms.keys() == {"wrong", "missing", "config"}
    support = (ROOT / "SUPPORT.md").read_text(encoding="utf-8")
    for name in ("wrong", "missing"):
        assert f"*{forms[name]['name']}*" in support
        identifiers = [field["id"] for field in forms[name]["body"]]
        assert len(identifiers) == len(set(identifiers)) > 1
