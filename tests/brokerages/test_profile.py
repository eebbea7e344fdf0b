"""Profiles choose the rules of a brokerage."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from broker import resources
from broker.brokerages import offered as offered_brokerages, profile, registry as brokerages
from broker.brokerages.job.brokerage import JobBrokerage
from broker.brokerages.profile import BrokerageProfile, PackageRule, Profile, ProfileError, build_chain, read_profile
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.chain import QueueChain, RuleChainError
from broker.rules import registry
from broker.rules.registry import RuleError
from tests.engine.toy_rules import AtMost, Factor, FewerQueued, KeepAmong, Toy, mask


class ToyBrokerage(JobBrokerage):
    name = "toy"
    title = "toy brokerage"
    pending_minutes = 60
    tables = "tests.brokerages.test_profile:NoTables"

    def chain(self) -> QueueChain:
        return toy_chain()

    def engine_cycle(self, *arguments: Any, **options: Any) -> JobCycle:
        raise AssertionError("nothing is brokered here")


def toy_chain() -> QueueChain:
    filters = (Toy("first", mask([1])), Toy("second", mask([1])))
    return QueueChain("toy", filters, (Factor("fixed", 1.0),), (FewerQueued(),), (AtMost(5),))


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


def broken() -> QueueChain:
    raise RuntimeError("no such module")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install fake distributions that offer brokerages and rules."""
    module_name = "tests.brokerages.test_profile"
    classes = {"toy": "ToyBrokerage", "odd": "not_a_chain", "broken": "broken", "gone": "nowhere"}
    rules = {"outside": "outside_filter", "group": "outside_group", "heavier": "outside_weight"}
    rules |= {"tighter": "outside_cut", "renamed": "outside_filter"}
    points = {
        brokerages.GROUP: [
            EntryPoint(name, f"{module_name}:{value}", brokerages.GROUP) for name, value in classes.items()
        ],
        registry.GROUP: [EntryPoint(name, f"{module_name}:{value}", registry.GROUP) for name, value in rules.items()],
    }
    for module in (offered_brokerages, registry):
        monkeypatch.setattr(module, "entry_points", lambda group: points[group])
    brokerages.brokerage.cache_clear()
    yield
    brokerages.brokerage.cache_clear()


def names(entry: BrokerageProfile) -> list[str]:
    return [rule.name for rule in build_chain(entry)]


def entry(**fields: Any) -> BrokerageProfile:
    return BrokerageProfile(brokerage="toy", **fields)


def test_a_plain_entry_keeps_all_rules() -> None:
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
    assert names(entry(add=(PackageRule(rule=rule, after=after),))) == expected


def test_rules_are_left_out() -> None:
    assert names(entry(without=("first", "at_most"))) == ["second", "fixed", "fewer_queued"]


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"without": ("third",)}, ProfileError, "without: there is no rule third"),
        ({"add": (PackageRule(rule="unheard"),)}, RuleError, "unheard: no installed distribution offers it"),
        ({"add": (PackageRule(rule="renamed"),)}, RuleError, "calls itself outside"),
        ({"add": (PackageRule(rule="heavier", after="first"),)}, RuleError, "cannot be placed after first"),
        ({"add": (PackageRule(rule="outside"), PackageRule(rule="outside"))}, RuleChainError, "outside is there twice"),
        ({"brokerage": "unheard"}, ProfileError, "offers the brokerage unheard; there are toy"),
        ({"brokerage": "odd"}, ProfileError, "gave a list, not a Brokerage"),
        ({"brokerage": "broken"}, ProfileError, "broken: .* cannot be loaded: RuntimeError: no such module"),
        ({"brokerage": "gone"}, ProfileError, "gone: .* cannot be loaded: AttributeError"),
    ],
)
def test_an_invalid_entry_is_refused(fields: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build_chain(BrokerageProfile(**{"brokerage": "toy", **fields}))


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
    own_profile = read_profile(text)
    assert own_profile.of("toy").add == (PackageRule(rule="outside", after="second"),)
    assert own_profile.of("toy").vo == ("atlas",)
    with pytest.raises(ProfileError, match="mine: there is no brokerage other; it has toy"):
        own_profile.of("other")


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
def test_an_invalid_profile_is_refused(text: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        read_profile(text)


BASE = """
profile: base
brokerages:
  - {brokerage: toy, vo: [atlas], exclude_labels: [user], without: [first]}
  - {brokerage: other, labels: [user]}
"""


def read_extended(text: str, **others: str) -> Profile:
    return read_profile(text, {"base": BASE, **others}.__getitem__)


def test_a_profile_overrides_entries_of_the_one_it_extends() -> None:
    text = "profile: mine\nextends: base\nbrokerages:\n"
    text += "  - {brokerage: toy, vo: [cms], without: [second], add: [{rule: outside}]}\n  - {brokerage: third}\n"
    own_profile = read_extended(text)
    assert (own_profile.profile, [brokerage.brokerage for brokerage in own_profile.brokerages]) == (
        "mine",
        ["toy", "other", "third"],
    )
    toy = own_profile.of("toy")
    assert (toy.vo, toy.exclude_labels) == (("cms",), ("user",))
    assert (toy.without, toy.add) == (("first", "second"), (PackageRule(rule="outside"),))
    assert own_profile.of("other").labels == ("user",)


def test_a_profile_may_extend_one_that_extends_another() -> None:
    own_profile = read_extended(
        "profile: c\nextends: b\n", b="profile: b\nextends: base\nbrokerages: [{brokerage: other, vo: [cms]}]"
    )
    assert own_profile.of("other").vo == ("cms",) and own_profile.of("toy").vo == ("atlas",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("profile: a\nextends: a", "a: cannot extend a: a extends a"),
        ("profile: a\nextends: b", "b: cannot extend a: a extends b extends a"),
        ("profile: a\nextends: ../base", "wrong at extends"),
        ("profile: a\nextends: base\nbrokerages: [{brokerage: toy, rules: [a]}]", "brokerages.0.rules"),
    ],
)
def test_an_invalid_extension_is_refused(text: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        read_extended(text, a=text, b="profile: b\nextends: a")


def test_a_profile_cannot_extend_a_missing_one() -> None:
    def missing(name: str) -> str:
        raise FileNotFoundError(name)

    with pytest.raises(ProfileError, match="mine: extends base, which cannot be read"):
        read_profile("profile: mine\nextends: base", missing)


def test_the_shipped_profile_adds_and_drops_nothing() -> None:
    seed = read_profile(resources.path("config/profiles/seed.yaml").read_text(encoding="utf-8"))
    production = seed.of("production_job")
    assert (production.without, production.add) == ((), ())


def switched_names(entry: str, **switches: bool) -> list[str]:
    base_profile = read_profile(f"profile: p\nbrokerages:\n  - {{brokerage: toy, {entry}}}\n")
    return names(profile.switched(base_profile, switches).of("toy"))


@pytest.mark.parametrize(
    ("entry", "switches", "removed", "added"),
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
def test_switches_turn_rules_on_and_off(
    entry: str, switches: dict[str, bool], removed: set[str], added: set[str]
) -> None:
    base_names = {rule.name for rule in toy_chain()}
    assert set(switched_names(entry, **switches)) == (base_names - removed) | added


def test_switching_an_unknown_rule_suggests_a_known_name() -> None:
    with pytest.raises(ProfileError, match="no rule firts; did you mean first"):
        switched_names("add: []", firts=False)
