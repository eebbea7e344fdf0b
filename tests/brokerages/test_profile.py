"""Profiles: which rules a brokerage runs."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from broker import resources
from broker.brokerages import profile
from broker.brokerages.profile import Added, BrokerageProfile, ProfileError, build_chain, read_profile
from broker.engine.chain import Chain, ChainError
from broker.rules import registry
from broker.rules.registry import RuleError
from tests.engine.toy_rules import AtMost, Factor, FewerQueued, KeepAmong, Toy, mask


def toy_chain() -> Chain:
    filters = (Toy("first", mask([1])), Toy("second", mask([1])))
    return Chain("toy", filters, (Factor("fixed", 1.0),), (FewerQueued(),), (AtMost(5),))


def outside_filter() -> Toy:
    return Toy("outside", mask([1]))


def outside_group() -> KeepAmong:
    return KeepAmong("group", lambda alive: alive)


def outside_weight() -> Factor:
    return Factor("heavier", 2.0)


def outside_cut() -> AtMost:
    return AtMost(1, name="tighter")


def not_a_chain() -> list[str]:
    return []


def broken() -> Chain:
    raise RuntimeError("no such module")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distributions that offer brokerages and rules."""
    here = "tests.brokerages.test_profile"
    brokerages = {"toy": "toy_chain", "odd": "not_a_chain", "broken": "broken", "gone": "nowhere"}
    rules = {"outside": "outside_filter", "group": "outside_group", "heavier": "outside_weight"}
    rules |= {"tighter": "outside_cut", "renamed": "outside_filter"}
    points = {
        profile.GROUP: [EntryPoint(name, f"{here}:{value}", profile.GROUP) for name, value in brokerages.items()],
        registry.GROUP: [EntryPoint(name, f"{here}:{value}", registry.GROUP) for name, value in rules.items()],
    }
    for module in (profile, registry):
        monkeypatch.setattr(module, "entry_points", lambda group: points[group])


def names(entry: BrokerageProfile) -> list[str]:
    return [rule.name for rule in build_chain(entry)]


def entry(**more: Any) -> BrokerageProfile:
    return BrokerageProfile(brokerage="toy", **more)


def test_a_brokerage_as_it_is() -> None:
    assert names(entry()) == ["first", "second", "fixed", "fewer_queued", "at_most"]


@pytest.mark.parametrize(
    ("rule", "after", "expected"),
    [
        ("outside", None, ["first", "second", "outside", "fixed", "fewer_queued", "at_most"]),
        ("outside", "first", ["first", "outside", "second", "fixed", "fewer_queued", "at_most"]),
        ("group", "first", ["first", "group", "second", "fixed", "fewer_queued", "at_most"]),
        ("heavier", "fixed", ["first", "second", "fixed", "heavier", "fewer_queued", "at_most"]),
        ("tighter", None, ["first", "second", "fixed", "fewer_queued", "at_most", "tighter"]),
    ],
)
def test_a_rule_is_added_among_its_kind(rule: str, after: str | None, expected: list[str]) -> None:
    assert names(entry(add=(Added(rule=rule, after=after),))) == expected


def test_rules_are_left_out() -> None:
    assert names(entry(without=("first", "at_most"))) == ["second", "fixed", "fewer_queued"]


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"without": ("third",)}, ProfileError, "without: there is no rule third"),
        ({"add": (Added(rule="unheard"),)}, RuleError, "unheard: no installed distribution offers it"),
        ({"add": (Added(rule="renamed"),)}, RuleError, "calls itself outside"),
        ({"add": (Added(rule="heavier", after="first"),)}, RuleError, "cannot be placed after first"),
        ({"add": (Added(rule="outside"), Added(rule="outside"))}, ChainError, "outside is there twice"),
        ({"brokerage": "unheard"}, ProfileError, "offers the brokerage unheard; there are toy"),
        ({"brokerage": "odd"}, ProfileError, "gave a list, not a Chain"),
        ({"brokerage": "broken"}, ProfileError, "broken: .* cannot be loaded: RuntimeError: no such module"),
        ({"brokerage": "gone"}, ProfileError, "gone: .* cannot be loaded: AttributeError"),
    ],
)
def test_what_cannot_be_built(more: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build_chain(BrokerageProfile(**{"brokerage": "toy", **more}))


def test_a_profile_is_read() -> None:
    text = """
    profile: mine
    brokerages:
      - brokerage: toy
        vo: [atlas]
        exclude_labels: [user]
        without: [first]
        add: [{rule: outside, after: second}]
    """
    found = read_profile(text)
    assert found.of("toy").add == (Added(rule="outside", after="second"),)
    assert found.of("toy").vo == ("atlas",)
    with pytest.raises(ProfileError, match="mine: there is no brokerage other; it has toy"):
        found.of("other")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "wrong"),
        ("[", "no YAML"),
        ("profile: x", "wrong at brokerages"),
        ("profile: x\nbrokerages: []", "wrong at brokerages"),
        ("profile: x\nbrokerages: [{brokerage: toy, rules: [a]}]", "brokerages.0.rules"),
        ("profile: x\nbrokerages: [{vo: [atlas]}]", "brokerages.0.brokerage"),
        ("profile: x\nbrokerages: [{brokerage: toy, without: first}]", "brokerages.0.without"),
        ("profile: x\nbrokerages: [{brokerage: toy, add: [outside]}]", r"brokerages.0.add.0"),
        ("profile: !!python/object/apply:os.getcwd []\nbrokerages: []", "no YAML"),
    ],
)
def test_a_wrong_profile(text: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        read_profile(text)


def test_the_shipped_profile_adds_and_drops_nothing() -> None:
    found = read_profile(resources.path("config/profiles/seed.yaml").read_text(encoding="utf-8"))
    production = found.of("production_job")
    assert (production.without, production.add) == ((), ())


def switched_names(entry: str, **switches: bool) -> list[str]:
    given = read_profile(f"profile: p\nbrokerages:\n  - {{brokerage: toy, {entry}}}\n")
    return names(profile.switched(given, switches).of("toy"))


@pytest.mark.parametrize(
    ("entry", "switches", "gone", "more"),
    [
        ("add: []", {}, set(), set()),
        ("add: []", {"first": False}, {"first"}, set()),
        ("add: []", {"first": True}, set(), set()),
        ("without: [first]", {"first": True}, set(), set()),
        ("without: [first]", {"first": False}, {"first"}, set()),
        ("without: [first]", {"second": False}, {"first", "second"}, set()),
        ("add: []", {"outside": True}, set(), {"outside"}),
        ("add: []", {"outside": False}, set(), set()),
        ("add: [{rule: outside}]", {"outside": False}, set(), set()),
        ("add: [{rule: outside}]", {"outside": True}, set(), {"outside"}),
    ],
)
def test_rules_are_switched(entry: str, switches: dict[str, bool], gone: set[str], more: set[str]) -> None:
    whole = {rule.name for rule in toy_chain()}
    assert set(switched_names(entry, **switches)) == (whole - gone) | more


def test_switching_a_rule_that_is_not_there_offers_names_that_are() -> None:
    with pytest.raises(ProfileError, match="no rule firts; did you mean first"):
        switched_names("add: []", firts=False)
