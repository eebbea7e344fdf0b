"""The examples in docstrings give the stated results."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

from tests.docs.source_tree import ROOT, files

MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in files("broker", "agents", "gridbroker_client")
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_hold(module: str) -> None:
    results = doctest.testmod(import_module(module))
    assert results.attempted and not results.failed
