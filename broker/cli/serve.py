"""``broker serve``: all agents on their schedules, until somebody stops the process."""

from __future__ import annotations

import logging
import os
import signal
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from agents import fault_points, json_log, registry
from agents.configuration import AgentsConfiguration, config_file, load
from agents.leadership import LeaseKeeper, holder_name
from agents.process import load_process
from agents.runtime import Service, enabled_agents
from broker.cli.context import open_store, settings_of
from broker.cli.output import remark
from broker.errors import FAILED, REFUSED
from broker.store.database import Database

_log = logging.getLogger(__name__)


def serve(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Run each agent once, now, and end.")] = False,
) -> None:
    """Run all agents on their schedules, until stopped."""
    fault_points.arm(os.environ)
    json_log.configure()
    configuration = load(config_file("agents.yaml", settings_of(context).config), registry.NAMES)
    with open_store(context) as database:
        service = _service(database, configuration, settings_of(context).config)
        if once:
            status = _run_once(service)
        else:
            _stop_on_signals(service)
            if not service.run():
                # a cycle did not end in time; its lease is given up, so what it still tries to write is refused
                os._exit(0)
            status = 0
    raise typer.Exit(status)


def _service(database: Database, configuration: AgentsConfiguration, folder: Path | None) -> Service:
    make = partial(registry.make, process=load_process(config_file("broker.yaml", folder), folder))
    keeper = LeaseKeeper(database, holder_name(), configuration.lease_terms)
    return Service(database, enabled_agents(configuration.agents, make), keeper, configuration.service)


def _run_once(service: Service) -> int:
    status = 0
    for name, record in service.run_each_once().items():
        if record is None:
            remark(f"{name}: not the leader; another process holds the lease")
            status = max(status, REFUSED)
        else:
            remark(f"{name}: {record.outcome}")
            status = status if record.outcome == "done" else max(status, FAILED)
    return status


def _stop_on_signals(service: Service) -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        if service.ending.is_set():
            os._exit(128 + number)
        service.ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
