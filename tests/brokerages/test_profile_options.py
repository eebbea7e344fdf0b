"""Options of rules and steps in a profile."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest
import yaml

from agents.service.configuration import load_profile
from broker.brokerages import offered_steps
from broker.brokerages.job.joint_placement import JointPlacement
from broker.brokerages.profile import ProfileError, build_chain, read_profile, rules_of
from broker.engine.job.placement import Placement
from broker.engine.shared.chain import RuleChain
from broker.rules.contract import Configurable

#: One step, a module that is not there, and a class that is no step.
OFFERED = {
    "plain": "broker.engine.job.placement:Placement",
    "lost": "no_such_module:Step",
    "other": "collections:Counter",
}
BROKERAGES = ("production_job", "production_task", "analysis_job")


def chain_of(**entry: Any) -> RuleChain:
    text = yaml.safe_dump({"profile": "own", "brokerages": [{"brokerage": "production_job", **entry}]})
    return build_chain(read_profile(text).of("production_job"), RuleChain)


def options_of(chain: RuleChain, name: str) -> Configurable:
    by_name = {rule.name: rule for rule in chain} | dict(chain.named_steps)
    return by_name[name]


def test_the_profile_seed_chooses_nothing() -> None:
    profile = load_profile("seed")
    for name in BROKERAGES:
        chain = rules_of(profile, name).chain
        assert [rule.name for rule in chain if rule.chosen] == []
        assert [step.name for step in chain.named_steps.values() if step.chosen] == []


@pytest.mark.parametrize("name", ["production_job", "production_task"])
def test_every_choice_of_the_profile_panda_has_its_reason(name: str) -> None:
    chain = rules_of(load_profile("panda"), name).chain
    chosen = [part for part in (*chain, *chain.named_steps.values()) if part.chosen]
    assert chosen
    assert [part.name for part in chosen if not part.because] == []


def test_an_option_is_given_to_the_rule_and_leaves_others_as_they_are() -> None:
    chain = chain_of(rules={"status": {"also": ["standby"], "because": "they take jobs"}})
    rule = options_of(chain, "status")
    assert rule.chosen == {"also": ("standby",)}
    assert rule.because == "they take jobs"
    assert options_of(chain_of(), "status").chosen == {}


def test_an_option_is_given_to_a_step() -> None:
    step = options_of(chain_of(steps={"urgency": {"priority": "above_1000"}}), "urgency")
    assert step.chosen == {"priority": "above_1000"}


def test_an_optional_rule_can_be_added() -> None:
    names = [rule.name for rule in chain_of(add=[{"rule": "cap_rt", "after": "cap"}])]
    assert names.index("cap_rt") == names.index("cap") + 1
    assert "cap_rt" not in [rule.name for rule in chain_of()]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"rules": {"status": {"aslo": []}}}, "status: option aslo: Extra inputs"),
        ({"rules": {"status": {"also": 3}}}, "status: option also: Input should be"),
        ({"rules": {"connectivity": {"also": []}}}, "the options are none"),
        ({"rules": {"nobody": {}}}, "rules: there is no rule nobody"),
        ({"steps": {"nothing": {}}}, "steps: there is no step nothing; there are snapshot_reading"),
        ({"steps": {"running": {"gates": "many"}}}, "running: option gates: Input should be"),
        (
            {"steps": {"running": {"use": "another"}}},
            "step running: no installed distribution offers another (there are: flow)",
        ),
        (
            {"steps": {"placement": {"by": "lot"}}},
            "distribution offers lot (there are: flow, weight)",
        ),
        ({"steps": {"placement": {"by": "flow", "size": 3}}}, "placement: option size: Extra inputs"),
        (
            {"steps": {"running": {"use": "flow"}}},
            "placement:FlowPlacement is no Running",
        ),
    ],
)
def test_an_unknown_choice_is_refused(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ProfileError, match="brokerage production_job") as error:
        chain_of(**entry)
    assert message in str(error.value)


def test_the_placement_that_an_option_names_is_the_one_that_is_offered() -> None:
    for given in ({"by": "weight"}, {"use": "weight"}):
        by_weight = options_of(chain_of(steps={"placement": given}), "placement")
        assert (type(by_weight), by_weight.chosen) == (Placement, {})
    for given in ({"by": "flow"}, {"use": "flow"}):
        placement = options_of(chain_of(steps={"placement": given}), "placement")
        assert isinstance(placement, JointPlacement)
        assert (placement.by, placement.chosen) == ("flow", {"by": "flow"})
        assert placement.left_over in placement.codes


def test_offered_steps_that_cannot_be_loaded_give_no_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint(name, value, offered_steps.GROUP) for name, value in OFFERED.items()]
    monkeypatch.setattr(offered_steps, "entry_points", lambda group: points)
    monkeypatch.setattr(offered_steps, "_loaded", offered_steps._loaded.__wrapped__)
    assert [type(step) for step in offered_steps.implementations("placement")] == [Placement]


def test_a_profile_that_extends_another_changes_single_options() -> None:
    rules = "{io: {limit: up_to_whole_mb}, status: {also: [a]}}"
    base = f"profile: one\nbrokerages: [{{brokerage: production_job, rules: {rules}}}]"
    text = "profile: two\nextends: one\nbrokerages: [{brokerage: production_job, rules: {status: {also: [b]}}}]"
    chain = build_chain(read_profile(text, lambda _: base).of("production_job"), RuleChain)
    assert options_of(chain, "status").chosen == {"also": ("b",)}
    assert options_of(chain, "io").chosen == {"limit": "up_to_whole_mb"}
