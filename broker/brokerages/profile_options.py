"""Options of rules and steps as a profile chooses them, each with its reason; and steps of other distributions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from broker.engine.shared.chain import RuleChain
from broker.installed import entry_points
from broker.rules.contract import Configurable, Step

#: The entry point group of steps that installed distributions offer.
GROUP = "broker.steps"
BECAUSE, USE = "because", "use"

ConfigurableT = TypeVar("ConfigurableT", bound=Configurable)


class ProfileError(Exception):
    """An unusable profile; the message names the entry and what to do."""


def configured(brokerage: str, one: ConfigurableT, given: Mapping[str, Any] | None) -> ConfigurableT:
    """A rule or step with the options of a profile; unchanged without options.

    Raises:
        ProfileError: an option that there is not, or a value of another type.
    """
    if given is None:
        return one
    options = {name: value for name, value in given.items() if name != BECAUSE}
    name = getattr(one, "name", type(one).__name__)
    try:
        return one.configured(options, str(given.get(BECAUSE) or ""))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        known = ", ".join(type(one.options).model_fields) or "none"
        raise ProfileError(
            f"brokerage {brokerage}: {name}: option {place}: {first['msg']}; the options are {known}"
        ) from error


def configured_step(brokerage: str, chain: RuleChain, name: str, given: Mapping[str, Any]) -> Step:
    """The step ``name`` of a brokerage with the options that a profile gives, or the one that it names instead.

    Raises:
        ProfileError: the brokerage has no such step, no distribution offers what it is to be replaced by, or that does
            not fit.
    """
    steps = chain.named_steps
    if name not in steps:
        known = ", ".join(steps) or "none"
        raise ProfileError(f"brokerage {brokerage}: steps: there is no step {name}; there are {known}")
    options = dict(given)
    step = steps[name]
    if USE in options:
        step = _offered(brokerage, str(options.pop(USE)), step)
    return configured(brokerage, step, options)


def _offered(brokerage: str, name: str, replaced: Step) -> Step:
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        known = ", ".join(sorted(points)) or "none"
        raise ProfileError(
            f"brokerage {brokerage}: step {replaced.name}: no installed distribution offers {name} (offered: {known})"
        )
    try:
        step = points[name].load()()
    except Exception as error:  # whatever an outside module raises on import is a fault of that distribution
        raise ProfileError(
            f"brokerage {brokerage}: step {replaced.name}: {points[name].value} cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(step, type(replaced)):
        raise ProfileError(
            f"brokerage {brokerage}: step {replaced.name}: {points[name].value} is no {type(replaced).__name__}"
        )
    return step
