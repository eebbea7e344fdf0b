"""Rules of installed packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from broker.rules.contract import Rule
from broker.rules.registry import GROUP, RuleError, load_rule, outside_rules, placed, without
from tests.engine.toy_rules import Toy, mask

HERE = "tests.rules.test_registry"


def good() -> Toy:
    return Toy("good", mask([1]))


def nameless() -> Toy:
    rule = Toy("", mask([1]))
    rule.__dict__["title"] = ""
    return rule


def no_rule() -> str:
    return "a text"


class Kindless(Rule):
    name, code, title = "kindless", "kindless", "Of no kind"


def raises() -> Toy:
    raise ValueError("half installed")


def entry_points_with(name: str, value: str) -> dict[str, EntryPoint]:
    return {name: EntryPoint(name, f"{HERE}:{value}" if ":" not in value else value, GROUP)}


def test_a_rule_is_loaded() -> None:
    assert load_rule("good", entry_points_with("good", "good")).code == "code_good"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("absent", "good", "no installed distribution offers it .offered: other."),
        ("broken", "raises", "cannot be loaded: ValueError: half installed"),
        ("missing", "nothing_of_this_name", "cannot be loaded: AttributeError"),
        ("module", "no.such.module:rule", "cannot be loaded: ModuleNotFoundError"),
        ("text", "no_rule", "is no Filter"),
        ("kindless", "Kindless", "is no Filter"),
        ("nameless", "nameless", "does not declare name, title"),
        ("another", "good", "calls itself good"),
    ],
)
def test_an_unusable_rule_is_refused(name: str, value: str, message: str) -> None:
    points = entry_points_with("other" if name == "absent" else name, value)
    with pytest.raises(RuleError, match=message):
        load_rule(name, points)


def test_an_empty_offer_is_refused() -> None:
    with pytest.raises(RuleError, match="offered: none"):
        load_rule("good", {})


def test_installed_rules_are_not_loaded_yet() -> None:
    assert all(isinstance(point, EntryPoint) for point in outside_rules().values())


RULES = tuple(Toy(name, mask([1])) for name in "abc")


@pytest.mark.parametrize(("after", "order"), [(None, "abcx"), ("a", "axbc"), ("c", "abcx"), ("b", "abxc")])
def test_the_place_of_a_rule(after: str | None, order: str) -> None:
    assert "".join(rule.name for rule in placed(RULES, Toy("x", mask([1])), after)) == order


def test_an_unknown_place_is_refused() -> None:
    with pytest.raises(RuleError, match="rule x: cannot be placed after d, which is not among a, b, c"):
        placed(RULES, Toy("x", mask([1])), "d")


def test_rules_can_be_left_out() -> None:
    assert [rule.name for rule in without(RULES, ["b", "unheard"])] == ["a", "c"]
