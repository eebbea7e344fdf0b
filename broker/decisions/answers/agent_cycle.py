"""One cycle of an agent on one of our databases, as ``broker serve`` would run it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from agents.service import configuration, cycle, registry
from agents.service.base import Agent, CycleContext, CycleRequest
from agents.service.configuration import AgentsConfiguration, AgentSection, section_of
from agents.service.leadership import LeaseKeeper, holder_name
from broker.domain.parts import WHOLE, Part
from broker.errors import BrokerError, Refused
from broker.store.connection.database import Database
from broker.store.service.agent_runs import RunRecord

TASK_AGENT, JOB_AGENT, USER_AGENT = "production_task", "production_job", "analysis_job"


def broker_once(
    agent_name: str,
    database: Database,
    now: datetime,
    seed: int,
    emit: Callable[[dict[str, Any]], None],
    config: Path | None = None,
) -> RunRecord:
    """Run one cycle that writes, under the agent's lease.

    Args:
        agent_name: name of the agent.
        database: database with the work.
        now: the instant for which it decides, aware.
        seed: seed of everything random.
        emit: called with the object of each decision.
        config: folder with the operator's own configuration files.

    Raises:
        Refused: another process holds the lease.
        BrokerError: the cycle failed; the message says how.
    """
    agents = configuration.load(configuration.config_file("agents.yaml", config), registry.NAMES)
    process_settings = configuration.load_process(configuration.config_file("broker.yaml", config), config)
    agent = registry.make(agent_name, section_named(agents, agent_name).options, process_settings)
    return run_leased(agent, agents, database, now, seed, CycleRequest(emit=emit))


def run_leased(
    agent: Agent[Any],
    agents: AgentsConfiguration,
    database: Database,
    now: datetime,
    seed: int,
    request: CycleRequest,
    part: Part = WHOLE,
) -> RunRecord:
    """Run one writing cycle of an agent, under its lease or that of a part of its work.

    Raises:
        Refused: another process holds the lease.
        BrokerError: the cycle failed; the message says how.
    """
    budget_s = section_named(agents, agent.name).cycle_budget_s
    keeper = LeaseKeeper(database, holder_name(), agents.leases)
    keeper.start()
    try:
        lease = keeper.acquire(part.lease_of(agent.name))
        if lease is None:
            raise Refused(
                "another broker works on this database, or one was killed just now",
                repr(database),
                f"try again in {agents.leases.length_s:g} s",
            )
        run_id = cycle.open_run(database, agent.name, lease)
        context = CycleContext(
            database, now, seed, budget_s, request, lease=lease, run_id=run_id, believes=keeper.trusts
        )
        record = cycle.run_cycle(agent, context)
    finally:
        keeper.stop()
    if record.outcome != "done":
        ended = f"the cycle ended as {record.outcome}: {record.error_line}"
        raise BrokerError(ended, f"agent {agent.name}", "see error in broker.agent_runs")
    return record


def section_named(agents: AgentsConfiguration, name: str) -> AgentSection:
    """The section of an agent in the configuration.

    Raises:
        BrokerError: the agent has none.
    """
    section = section_of(agents, name)
    if section is None:
        raise BrokerError(f"there is no agent {name}", "agents.yaml", "give it an entry")
    return section
