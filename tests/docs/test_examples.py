"""The examples in docstrings of dense vector code give what they say."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = (
    "broker.codec.runs",
    "broker.engine.shared.rank",
    "broker.engine.job.data_facts",
    "broker.work.sequential",
    "broker.pilots.statements.activation",
    "broker.snapshot.draft",
)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_hold(module: str) -> None:
    found = doctest.testmod(import_module(module))
    assert found.attempted > 2 and not found.failed
