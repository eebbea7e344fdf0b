"""Placements that other distributions offer as steps: the one of the page on flow, and ones that are refused."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

import pytest

from broker.brokerages import offered_steps
from broker.brokerages.base import Rules
from broker.brokerages.job.joint_placement import JointPlacement
from broker.brokerages.profile import ProfileError
from broker.domain.counted_load import ChunkPlan
from broker.engine.job.placement import Placement
from broker.errors import BrokerError
from broker.flow.model.placement import FLOW_REASONS, FlowPlacement
from broker.rules.contract import Options
from tests.brokerages.page_placement import FLOW, lot, offer, offer_page_placement, rules_with


class LotOptions(Options):
    """Only the value that is the name of the entry point."""

    by: Literal["lot"] = "lot"


class Complete(JointPlacement):
    """A placement with all that a profile needs."""

    by = "lot"
    gives = FLOW_REASONS
    left_over = FLOW_REASONS[0].code
    options: Options = LotOptions()

    def plans(self, *of_cycle: Any) -> list[ChunkPlan]:
        """No plans, since no cycle asks."""
        return []


class NoName(Complete):
    """Its name is still the one of the shipped placement."""

    by = Placement.by


class NoOption(Complete):
    """Its option is the inherited one."""

    options = Placement.options


class OptionOfFlow(Complete):
    """Its option has another value."""

    options = FlowPlacement.options


class NoLeftOver(Complete):
    """Chunks without jobs would wait without a reason."""

    left_over = ""


class OtherLeftOver(Complete):
    """Its reason for left chunks is none of its own."""

    left_over = "no_room"


class OnlySaysTogether(Placement):
    """It has no plans."""

    by, together, options = "lot", True, LotOptions()
    gives, left_over = Complete.gives, Complete.left_over


class NotTogether(Complete):
    """Its plans would never be asked for."""

    together = False


def placement_of(rules: Rules) -> Placement:
    step = rules.chain.named_steps["placement"]
    assert isinstance(step, Placement)
    return step


@pytest.mark.parametrize("option", ["by", "use"])
def test_the_placement_of_the_page_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str) -> None:
    offer_page_placement(monkeypatch, tmp_path)
    placement = placement_of(rules_with(**{option: "lot"}))
    assert (type(placement).__name__, placement.chosen) == ("LotPlacement", {"by": "lot"})


@pytest.mark.parametrize("option", ["by", "use"])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (NoName, 'its by is "weight"; set it to the name of the entry point, by = "lot"'),
        (NoOption, 'its options do not take lot; declare by: Literal["lot"] = "lot"'),
        (OptionOfFlow, 'its options do not take lot; declare by: Literal["lot"] = "lot"'),
        (NoLeftOver, 'left_over is ""; set it to a code of its reasons in gives (flow_dearer, '),
        (OtherLeftOver, 'left_over is "no_room"; set it to a code of its reasons in gives (flow_dearer, '),
        (OnlySaysTogether, "it does not place chunks together; derive it from JointPlacement"),
        (NotTogether, "it does not place chunks together; derive it from JointPlacement and leave together True"),
    ],
)
def test_a_placement_that_lacks_something_is_refused(
    monkeypatch: pytest.MonkeyPatch, kind: type[Placement], message: str, option: str
) -> None:
    offer(monkeypatch, FLOW, lot(f"{__name__}:{kind.__name__}"))
    with pytest.raises(ProfileError) as error:
        rules_with(**{option: "lot"})
    where = f"brokerage production_job: step placement: {__name__}:{kind.__name__} cannot be used as lot: "
    assert str(error.value).startswith(where + message)


def test_a_placement_with_all_it_needs_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, FLOW, lot(f"{__name__}:Complete"))
    assert type(placement_of(rules_with(by="lot"))) is Complete


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ((FLOW,), "no installed distribution offers wieght (there are: flow, weight)"),
        ((), "(there are: weight); gridbroker itself offers flow: install gridbroker again"),
    ],
)
def test_an_unknown_placement_is_refused_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch, points: tuple[EntryPoint, ...], message: str
) -> None:
    offer(monkeypatch, *points)
    with pytest.raises(ProfileError) as error:
        rules_with(by="wieght")
    assert str(error.value).endswith(message)


def test_two_steps_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, FLOW, EntryPoint("flow", "another.package:Flow", offered_steps.GROUP))
    with pytest.raises(BrokerError) as error:
        rules_with(by="flow")
    assert (error.value.what, error.value.remedy) == ("two distributions offer the step flow", "remove one of them")
    assert error.value.where == f"{FLOW.value} and another.package:Flow, entry points of broker.steps"
