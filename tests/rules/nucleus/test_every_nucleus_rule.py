"""What holds for every rule of the production task brokerage."""

from __future__ import annotations

import pytest

from broker.brokerages.production_job.rules import chain as job_chain
from broker.brokerages.production_task.rules import (
    FILTERS,
    LOAD_WEIGHTS,
    NAME,
    NOT_ASKED,
    WEIGHTS,
    asked_filters,
    chain,
)
from broker.rules.contract import Rule
from broker.snapshot.source_list import NAMES

RULES = [*FILTERS, *WEIGHTS, *LOAD_WEIGHTS]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_introduces_itself(rule: Rule) -> None:
    assert rule.name == type(rule).__module__.rsplit(".", 1)[1]
    assert type(rule).__name__.lower() == rule.name.replace("_", "")
    assert rule.title and "\n" not in rule.title and len(rule.title) < 100
    assert "Source: " in " ".join((type(rule).__doc__ or "").split())
    assert set(rule.sources) <= set(NAMES)


def test_the_codes_are_those_of_panda() -> None:
    assert [rule.code for rule in FILTERS] == [
        "status", "transfer_backlog", "match", "source_blacklist", "destination_blacklist", "space", "job", "insize",
        "innum", "full_chain",
    ]  # fmt: skip


def test_the_chain_has_them_all_in_order() -> None:
    assert chain().brokerage == NAME
    assert [rule.name for rule in chain()] == [rule.name for rule in (*FILTERS, *WEIGHTS, *LOAD_WEIGHTS)]


def test_rules_that_are_not_asked_are_rules_of_the_job_brokerage() -> None:
    names = {rule.name for rule in job_chain().filters}
    assert set(NOT_ASKED) <= names
    assert {rule.name for rule in asked_filters(job_chain())} == names - set(NOT_ASKED)
