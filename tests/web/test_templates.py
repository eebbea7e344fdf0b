"""Templates of pages: each is in its feature, each is shown, and those of other distributions are found."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import TemplateNotFound

from broker import feature
from broker.feature import Feature, template_packages
from broker.web.rendering import environment
from tests.docs.source_tree import files, relative_path, syntax_tree

OF_THE_FRAME = {"base", "list", "login", "parts", "problem"}


def shown_templates() -> Iterator[tuple[str, str]]:
    """The file and the template of each call that shows a page."""
    for path in files("broker"):
        if path.parent.name == "pages":
            for node in ast.walk(syntax_tree(path)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "show":
                    name = node.args[1]
                    assert isinstance(name, ast.Constant) and isinstance(name.value, str), relative_path(path)
                    yield relative_path(path), name.value


def test_every_page_shows_a_template_of_its_own_feature() -> None:
    shown = list(shown_templates())
    assert len(shown) > 30
    elsewhere = [
        (name, template)
        for name, template in shown
        if template not in OF_THE_FRAME and template.split("/")[0] != name.split("/")[1]
    ]
    assert elsewhere == []


def test_every_template_is_shown_and_can_be_loaded() -> None:
    of_features = {
        f"{path.parts[-3]}/{path.stem}" for path in files("broker", suffix=".html") if path.parts[-3] != "web"
    }
    assert of_features == {template for _, template in shown_templates()} - OF_THE_FRAME
    for name in sorted(of_features | OF_THE_FRAME):
        environment().get_template(f"{name}.html")
    assert {path.stem for path in files("broker/web/templates", suffix=".html")} == OF_THE_FRAME


def test_a_feature_of_another_distribution_brings_templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "accounting_of_a_site" / "templates"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("", encoding="utf-8")
    (folder / "bill.html").write_text('{% extends "problem.html" %}', encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    of_a_site = Feature(name="accounting", templates="accounting_of_a_site")
    monkeypatch.setattr(feature, "features", lambda: (of_a_site, Feature(name="without")))
    assert template_packages() == {"accounting": "accounting_of_a_site"}
    environment.cache_clear()
    try:
        assert environment().get_template("accounting/bill.html").filename == str(folder / "bill.html")
        with pytest.raises(TemplateNotFound):
            environment().get_template("pools/pool.html")
    finally:
        environment.cache_clear()
        sys.modules.pop("accounting_of_a_site")
