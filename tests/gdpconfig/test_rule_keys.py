"""The rules and the catalogue agree on which rule reads which key."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import broker.rules
from broker.engine.job.steps import STEP_KEYS
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.rules.contract import Rule

STEPS = {"available_files", "bootstrap", "completeness", "features", "flow", "running"}
"""Parts of the production job brokerage that read keys but are not rules."""


def rules_of_this_tree() -> list[type[Rule]]:
    """Return every concrete rule under ``broker.rules``, found by scanning the package."""
    rules: dict[str, type[Rule]] = {}
    for module_info in pkgutil.walk_packages(broker.rules.__path__, "broker.rules."):
        module = importlib.import_module(module_info.name)
        for rule in vars(module).values():
            if inspect.isclass(rule) and issubclass(rule, Rule) and not inspect.isabstract(rule):
                rules[f"{rule.__module__}.{rule.__qualname__}"] = rule
    return [rules[name] for name in sorted(rules)]


def test_rules_with_keys_are_found() -> None:
    assert len([rule for rule in rules_of_this_tree() if rule.keys]) >= 3


def test_every_key_that_a_rule_declares_is_in_the_catalogue() -> None:
    unknown = [
        f"{rule.__module__}: {key} is not in config/gdpconfig.yaml; did you mean {shipped_catalogue().closest(key)}?"
        for rule in rules_of_this_tree()
        for key in rule.keys
        if key not in shipped_catalogue()
    ]
    assert unknown == []


def test_the_catalogue_names_every_rule_that_reads_a_key() -> None:
    missing = [
        f"{rule.__module__} reads {key}: add its code {rule.code} to read_by of {key} in config/gdpconfig.yaml"
        for rule in rules_of_this_tree()
        for key in rule.keys
        if key in shipped_catalogue()
        and not any(rule.code in codes for codes in shipped_catalogue().entry(key).read_by.values())
    ]
    assert missing == []


def test_the_catalogue_names_only_rules_that_read_the_key() -> None:
    readers = {(rule.code, key) for rule in rules_of_this_tree() for key in rule.keys}
    superfluous = [
        f"no rule {code} reads {entry.key}: take it out of read_by in config/gdpconfig.yaml"
        for entry in shipped_catalogue()
        for code in entry.read_by.get("production_job", ())
        if (code, entry.key) not in readers and code not in STEPS
    ]
    assert superfluous == []


def test_keys_of_steps_are_in_the_catalogue() -> None:
    assert STEP_KEYS
    assert [key for key in STEP_KEYS if key not in shipped_catalogue()] == []
