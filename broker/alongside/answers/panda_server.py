"""Our identity at PanDA's server, where agents end jobs through it: a token without the role ends none."""

from __future__ import annotations

from collections.abc import Mapping

from agents.alongside.panda_api import ROLE_REMEDY, PandaApi, PandaRefuses
from agents.lifecycle.ending_options import EndingOptions, PandaApiOptions
from agents.service import registry
from agents.service.configuration import AgentSection, ProcessSettings
from broker.fetching.documents import NotFetched, Surroundings
from broker.service.answers.doctor import Finding

#: Agents that end jobs.
ENDING = frozenset({"timeouts", "fast_rebrokerage", "analysis_rebrokerage"})
TASK_BROKER = "production_task"
#: Limit of the time of doctor's queries, however long the agents wait.
PATIENCE_S = 15.0


def agents_via_panda(agents: Mapping[str, AgentSection]) -> set[str]:
    """The agents that, alongside PanDA, end jobs through its server."""
    return {name for name in ENDING & agents.keys() if agents[name].options.get("through", "auto") != "sql"}


def only_recording(agents: Mapping[str, AgentSection]) -> set[str]:
    """The agents that could write PanDA's tables, but whose options let them only record their decisions."""
    return {name for name in (TASK_BROKER,) if name in agents and agents[name].options.get("only_record", False)}


def server_findings(
    agents: Mapping[str, AgentSection], enabled: Mapping[str, bool], surroundings: Surroundings
) -> list[Finding]:
    """Query each server that enabled agents use, once for each set of credentials; return the findings.

    Args:
        agents: as they are configured.
        enabled: for each agent whether it runs in this installation.
        surroundings: clock and pauses of the process.

    Raises:
        ConfigurationError: options of an agent cannot be used.
    """
    by_server: dict[PandaApiOptions, list[str]] = {}
    findings = []
    for name in sorted(agents_via_panda(agents)):
        if not enabled.get(name, False):
            continue
        options: EndingOptions = registry.make(name, agents[name].options, ProcessSettings()).options
        if options.panda_api is None:
            remedy = f"name it in the options of {name}: panda_api: {{address: https://..., bearer_token_file: ...}}"
            findings.append(Finding("panda_server", "problem", f"{name}: no server of PanDA's is named", remedy))
        else:
            by_server.setdefault(options.panda_api, []).append(name)
    return findings + [_ask_identity(options, ", ".join(names), surroundings) for options, names in by_server.items()]


def _ask_identity(options: PandaApiOptions, names: str, surroundings: Surroundings) -> Finding:
    """The finding on our identity at one server."""
    patient = options.model_copy(update={"time_limit_s": min(options.time_limit_s, PATIENCE_S)})
    try:
        identity = PandaApi(patient.server(), surroundings).identity()
    except (PandaRefuses, NotFetched) as error:
        return Finding("panda_server", "problem", f"{names}: {error.what}", error.remedy)
    origin = "no origin" if options.origin is None else f"origin {options.origin}"
    sentence = f"{names}: PanDA takes us for {identity.name} with {identity.role} ({origin})"
    if identity.production:
        return Finding("panda_server", "ok", sentence)
    return Finding("panda_server", "problem", sentence, ROLE_REMEDY)
