"""Rules switched on or off for a comparison: ``NAME=on|off``, by the name of a rule or by its reason code. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker.brokerages.profile import Profile, build_chain, switched
from broker.brokerages.profile_options import ProfileError
from broker.engine.shared.chain import RuleChain
from broker.errors import WRONG_USAGE, BrokerError, NotFound, Refused
from broker.rules.registry import RuleError

_STATES = {"on": True, "off": False}


class UnknownRule(NotFound):
    """No brokerage has a rule of that name, and no installed package offers one."""


class NotASwitch(BrokerError):
    """A text that is not of the form ``NAME=on|off``."""

    exit_status = WRONG_USAGE


@dataclass(frozen=True)
class Switch:
    """One rule, by its name or its code, and whether it takes part."""

    rule: str
    on: bool

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.rule}={'on' if self.on else 'off'}"


def read_switches(texts: Iterable[str]) -> tuple[Switch, ...]:
    """What ``NAME=on|off`` texts say.

    Raises:
        NotASwitch: a text is of another form.
        Refused: a rule is there twice.
    """
    found: dict[str, Switch] = {}
    for text in texts:
        name, _, state = text.partition("=")
        if not name.strip() or state.strip().lower() not in _STATES:
            raise NotASwitch(f"{text[:60]!r} is not of the form NAME=on or NAME=off", "", "see broker rules for names")
        switch = Switch(name.strip(), _STATES[state.strip().lower()])
        if switch.rule in found:
            raise Refused(f"{found[switch.rule]} and {switch} contradict each other", "", f"name {switch.rule} once")
        found[switch.rule] = switch
    return tuple(found.values())


def with_switches(profile: Profile, switches: Iterable[Switch]) -> Profile:
    """The profile with rules switched, in every brokerage that has them; a code stands for all rules that give it.

    Raises:
        UnknownRule: no brokerage has such a rule; similar names are told.
    """
    by_code = _names_by_code(profile)
    states: dict[str, bool] = {}
    for switch in switches:
        names = by_code.get(switch.rule, {switch.rule})
        states.update(dict.fromkeys(sorted(names), switch.on))
    try:
        return switched(profile, states)
    except (ProfileError, RuleError) as error:
        raise UnknownRule(str(error), "--rule", "broker rules BROKERAGE lists them") from error


def _names_by_code(profile: Profile) -> dict[str, set[str]]:
    """The names of the rules that give a code, but for codes that are names themselves."""
    entries = (entry.model_copy(update={"without": ()}) for entry in profile.brokerages)
    rules = [rule for entry in entries for rule in build_chain(entry, RuleChain)]
    names = {rule.name for rule in rules}
    found: dict[str, set[str]] = {}
    for rule in rules:
        if rule.code not in names:
            found.setdefault(rule.code, set()).add(rule.name)
    return found
