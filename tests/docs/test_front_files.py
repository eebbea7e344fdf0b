"""The README and the files beside it: their links lead to existing files, and the issue forms are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "SUPPORT.md", "SECURITY.md", "GOVERNANCE.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md")


@pytest.mark.parametrize("name", PAGES)
def test_links_and_named_files_lead_to_existing_files(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    linked_files = {target.split("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target}
    named_files = set(re.findall(r"`((?:docs/|[A-Z_]+\.md)[\w./-]*)`", text))
    assert [target for target in sorted(linked_files | named_files) if target and not (ROOT / target).exists()] == []


def test_the_citation_names_the_project_as_its_package_does() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    package = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert citation["cff-version"] == "1.2.0"
    assert f'name = "{citation["title"]}"' in package
    assert f'license = "{citation["license"]}"' in package
    assert citation["authors"]


def test_forms_ask_for_what_a_report_needs() -> None:
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    forms = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in folder.glob("*.yml")}
    assert forms.keys() == {"wrong", "missing", "config"}
    support = (ROOT / "SUPPORT.md").read_text(encoding="utf-8")
    for name in ("wrong", "missing"):
        assert f"*{forms[name]['name']}*" in support
        identifiers = [field["id"] for field in forms[name]["body"]]
        assert len(identifiers) == len(set(identifiers)) > 1
