"""``broker demo --web``: serve the page of the demonstration grid, with all agents and the driver running."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from agents.service import registry
from agents.service.clock import host_now
from agents.service.configuration import AgentsConfiguration, config_file, load
from broker.cli.rendering.cells import remark
from broker.service.commands.serve import CONTROL_CONNECTIONS, free_clock, leave_behind, make_service, stop_on_signals
from broker.settings import Settings
from broker.simulation.answers.demo_driver import DemoDriver
from broker.store.connection.database import Database

QUICKER = {"production_task": 60.0, "share_usage": 60.0}
"""Shorter periods in seconds of agents that a viewer should not have to wait for."""


def go_on(database: Database, driver: DemoDriver, settings: Settings, home: Path, port: int) -> None:
    """Serve the page until it is stopped, while the agents and the driver run.

    Args:
        database: database with the loaded grid.
        driver: driver of the grid.
        settings: settings of this invocation.
        home: folder with the token of the page.
        port: local port of the page; 0 for any free port.
    """
    from broker.api.process import serving
    from broker.api.server import ListenOptions
    from broker.service.commands.serve import page, say_where

    configuration = quicker(load(config_file("agents.yaml", settings.config), registry.NAMES))
    with database.sibling("gridbroker leases", CONTROL_CONNECTIONS) as control:
        free_clock(database)
        service = make_service(database, control, configuration, settings.config, profile="demo")
        stop_on_signals(service.ending, os._exit)
        world = threading.Thread(target=driver.run, args=(service.ending, host_now), name="demo driver", daemon=True)
        with serving(database, ListenOptions(port=port), home=home, folder=settings.config, make=page()) as running:
            say_where(running)
            remark("the grid goes on: tasks arrive, jobs end, a site goes off and comes back. End it with Ctrl-C")
            world.start()
            ended_in_time = service.run()
        world.join(configuration.service.stop_within_s)
    leave_behind(ended_in_time)


def quicker(configuration: AgentsConfiguration) -> AgentsConfiguration:
    """The configuration with shorter periods of some agents."""
    agents = {
        name: section.model_copy(update={"period_s": min(section.period_s, QUICKER.get(name, section.period_s))})
        for name, section in configuration.agents.items()
    }
    return configuration.model_copy(update={"agents": agents})
