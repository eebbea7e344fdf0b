"""The table of rules agrees with its tuning keys and its description."""

from __future__ import annotations

from pathlib import Path

from broker.gdpconfig.catalogue import shipped_catalogue
from broker.lifecycle.model.jobs import FAILURES, KILLS, watcher_code
from broker.lifecycle.model.limits import HIGH_PRIORITY, LASTSTART
from broker.lifecycle.model.rules import HEARTBEAT, OWN_STAGE_OUT, RULES, rules_of

PAGE = Path(__file__).parents[2] / "docs/explanation/timeouts.md"
UNITS = {"h": 3600.0, "days": 86400.0}


def test_names_are_unique_and_every_rule_belongs_to_one_table() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert len(rules_of("jobsactive4")) + len(rules_of("jobsdefined4")) == len(RULES)


def test_the_description_lists_the_rules_in_their_order() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    actions = {cells[0].strip(" `"): cells[-1].strip() for cells in rows if len(cells) == 5}
    assert list(actions) == [rule.name for rule in RULES]
    for rule in RULES:
        assert actions[rule.name].startswith(rule.action), rule.name
        assert rule.code is None or f", {rule.code}" in actions[rule.name], rule.name


def test_the_catalogue_has_unit_and_readers_of_each_limit() -> None:
    readers: dict[str, set[str]] = {}
    for rule in RULES:
        key = HEARTBEAT if rule.limit == OWN_STAGE_OUT else rule.limit
        assert UNITS[shipped_catalogue().entry(key).unit] == rule.unit_s, rule.name
        readers.setdefault(key, set()).add(rule.name)
        if rule.priority != "any":
            readers.setdefault(HIGH_PRIORITY, set()).add(rule.name)
        if rule.inactive_queues:
            readers.setdefault(LASTSTART, set()).add(rule.name)
    catalogued = {entry.key: set(entry.read_by.get("timeouts", ())) for entry in shipped_catalogue()}
    assert {key: names for key, names in catalogued.items() if names} == readers


def test_every_code_has_a_text() -> None:
    for rule in RULES:
        if rule.action != "failed":
            assert rule.code in KILLS
        elif rule.code is not None:
            assert (rule.error, rule.code) in FAILURES
    states = ("sent", "running", "holding", "transferring")
    for status in states:
        for has_ended in (True, False):
            for error in (True, False):
                code = watcher_code(
                    status, has_ended=has_ended, has_error=error, dispatcher_diag=None, dispatcher_code=None
                )
                assert ("jobdispatcher", code) in FAILURES
