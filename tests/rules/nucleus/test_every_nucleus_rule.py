"""Properties of every rule of the production task brokerage."""

from __future__ import annotations

import pytest

from agents.service.configuration import load_profile
from broker.brokerages.production_task.brokerage import (
    FILTERS,
    LOAD_WEIGHTS,
    NAME,
    NOT_IN_DRY_RUN,
    WEIGHTS,
    chain,
    dry_run_filters,
)
from broker.brokerages.profile import rules_of
from broker.engine.shared.chain import QueueChain
from broker.rules.contract import Rule
from broker.snapshot.source_list import NAMES

RULES = [*FILTERS, *WEIGHTS, *LOAD_WEIGHTS]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_declares_its_metadata(rule: Rule) -> None:
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


def test_the_chain_has_all_rules_in_order() -> None:
    assert chain().brokerage == NAME
    assert [rule.name for rule in chain()] == [rule.name for rule in (*FILTERS, *WEIGHTS, *LOAD_WEIGHTS)]


@pytest.mark.parametrize("profile", ["seed", "panda"])
def test_skipped_rules_are_rules_of_the_job_brokerage(profile: str) -> None:
    jobs = rules_of(load_profile(profile), "production_job").chain
    assert isinstance(jobs, QueueChain)
    names = {rule.name for rule in jobs.filters}
    # the profile panda adds one of them
    assert set(NOT_IN_DRY_RUN) - names == (set() if profile == "panda" else {"resource_type_known"})
    assert {rule.name for rule in dry_run_filters(jobs)} == names - set(NOT_IN_DRY_RUN)
