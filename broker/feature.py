"""The registration of a feature: its agents, commands, routes and pages, as names of modules.

Installed distributions name their features by entry points of the group ``broker.features``, each a
:class:`Feature` in a module that imports nothing but this one. What a feature names is imported when it is needed.
See docs/how-to/add-a-command.md, add-an-agent.md and add-an-answer.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from broker.errors import BrokerError
from broker.resources import entry_points

GROUP = "broker.features"


@dataclass(frozen=True)
class Command:
    """A command of ``broker``.

    Attributes:
        name: what is typed.
        target: ``module:attribute`` of a function (one command) or a ``typer.Typer`` (a group).
        help: one line for the list of commands.
        place: its place in that list, smallest first; commands with the same place are sorted by name.
        watched: what only lists things and therefore has ``--watch``: the command's name, or ``GROUP COMMAND`` of a
            group.
        elsewhere: ``module:attribute`` of what serves the command from a remote broker, as ``broker --server URL``: a
            function of the client and the arguments, see :mod:`broker.cli.elsewhere`, or for a group a mapping of such
            functions by command. Empty if the command works on the broker's own machine only.
    """

    name: str
    target: str
    help: str
    place: int = 1000
    watched: tuple[str, ...] = ()
    elsewhere: str = ""


@dataclass(frozen=True)
class Feature:
    """What one feature provides.

    Attributes:
        name: the folder below ``broker/``, or what another distribution calls it.
        order: place among the features, smallest first; it orders routes, pages and agents.
        agents: ``module:class`` by the agent's name in ``config/agents.yaml``.
        commands: its commands.
        routes: modules of the HTTP API; each has ``router``.
        pages: modules of the page; each has ``router``.
        templates: the package whose folder ``templates`` has the templates of its pages; a page names
            ``templates/pool.html`` of the feature ``pools`` ``"pools/pool"``.
        incidents: ``module:function`` of what people may want to be notified about: called with a
            :class:`~broker.store.query_context.QueryContext`, each returns
            :class:`~broker.domain.incident.Incident` objects.
        decision_bodies: ``module:function`` that makes the bodies of messages about stored decisions: called with a
            connection and :class:`~broker.domain.decisions.StoredDecision` objects, it returns the bytes of each.
    """

    name: str
    order: int = 1000
    agents: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[Command, ...] = ()
    routes: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    templates: str = ""
    incidents: tuple[str, ...] = ()
    decision_bodies: str = ""


@cache
def features() -> tuple[Feature, ...]:
    """The features of all installed distributions, in their order.

    Raises:
        BrokerError: an entry point is not a feature, or two features provide an agent or a command of the same name.
    """
    feature_list: list[Feature] = []
    for point in entry_points(group=GROUP):
        feature = point.load()
        if not isinstance(feature, Feature):
            raise BrokerError(f"{point.value} is no Feature", f"entry point {point.name} of {GROUP}", "correct it")
        feature_list.append(feature)
    feature_list.sort(key=lambda feature: (feature.order, feature.name))
    _refuse_twice("command", [(command.name, feature.name) for feature in feature_list for command in feature.commands])
    _refuse_twice("agent", [(agent, feature.name) for feature in feature_list for agent in feature.agents])
    return tuple(feature_list)


def _refuse_twice(what: str, names: list[tuple[str, str]]) -> None:
    owners: dict[str, str] = {}
    for name, feature in names:
        if name in owners:
            where = f"features {owners[name]} and {feature}"
            raise BrokerError(f"two features bring the {what} {name}", where, "remove one of the distributions")
        owners[name] = feature


def commands() -> tuple[Command, ...]:
    """All commands, in the order in which they are listed."""
    command_list = [command for feature in features() for command in feature.commands]
    return tuple(sorted(command_list, key=lambda command: (command.place, command.name)))


def agent_classes() -> dict[str, str]:
    """``module:class`` of all agents that are not brokerages, by name."""
    return {name: target for feature in features() for name, target in feature.agents.items()}


def routes() -> tuple[str, ...]:
    """The modules of the HTTP API, in the order of its description."""
    return tuple(module for feature in features() for module in feature.routes)


def pages() -> tuple[str, ...]:
    """The modules of the page."""
    return tuple(module for feature in features() for module in feature.pages)


def template_packages() -> dict[str, str]:
    """The packages whose folder ``templates`` has the templates of pages, by feature."""
    return {feature.name: feature.templates for feature in features() if feature.templates}


def incidents() -> tuple[str, ...]:
    """``module:function`` of everything that notifications can be about."""
    return tuple(target for feature in features() for target in feature.incidents)


def decision_bodies() -> str:
    """``module:function`` that makes the bodies of messages about stored decisions.

    Raises:
        BrokerError: no feature has one.
    """
    for feature in features():
        if feature.decision_bodies:
            return feature.decision_bodies
    raise BrokerError("no feature makes messages of decisions", f"entry points of {GROUP}", "install gridbroker whole")
