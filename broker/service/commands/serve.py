"""``broker serve``, which runs all agents on their schedules, and ``broker api``, which serves the HTTP API alone.

Both run until the process is stopped.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from agents.service import fault_points, json_log, registry
from agents.service.configuration import (
    AgentsConfiguration,
    config_file,
    load,
    load_process,
    profile_in_force,
    sections_to_run,
)
from agents.service.leadership import LeaseKeeper, holder_name
from agents.service.runtime import Service, enabled_agents
from broker.cli.context import is_installed, open_store, require, settings_of
from broker.cli.rendering.cells import remark, utc
from broker.errors import FAILED, REFUSED
from broker.garbage_collection import keep_what_is_there
from broker.resources import require_own_packages
from broker.settings import Settings
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import forget_clock
from broker.store.schema import migrate

if TYPE_CHECKING:
    from broker.api.process import MakeParts, Running
    from broker.api.server import ListenOptions

CONTROL_CONNECTIONS = 2
"""Connections for leases and heartbeats, which do not wait for those of the cycles."""

_log = logging.getLogger(__name__)


def serve(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Run each agent once, now, and exit.")] = False,
    end_when_unhealthy: Annotated[
        float | None,
        typer.Option(
            "--end-when-unhealthy",
            metavar="SECONDS",
            min=1,
            help="Exit with status 1 if cycles are overdue or fail for this long, for a supervisor to restart it.",
        ),
    ] = None,
    api: Annotated[
        int | None,
        typer.Option("--api", metavar="PORT", min=0, max=65535, help="Serve the HTTP API as well, on this machine."),
    ] = None,
) -> None:
    """Run all agents on their schedules, until stopped."""
    require_own_packages()
    fault_points.arm(os.environ)
    json_log.configure()
    configuration = load(config_file("agents.yaml", settings_of(context).config), registry.NAMES)
    with (
        open_store(context, make=True) as database,
        database.sibling("gridbroker leases", CONTROL_CONNECTIONS) as control,
    ):
        control.guard = None  # a leader must be able to report that it leads no more
        free_clock(database)
        service = make_service(database, control, configuration, settings_of(context).config)
        if once:
            status = _run_once(service)
        else:
            stop_on_signals(service.ending, os._exit)
            with _api(database, api, settings_of(context)):
                ended_in_time = service.run(float("inf") if end_when_unhealthy is None else end_when_unhealthy)
            leave_behind(ended_in_time)
            status = FAILED if service.ended_unhealthy else 0
    raise typer.Exit(status)


def leave_behind(ended_in_time: bool) -> None:
    """End the process at once if a cycle did not end in time.

    Its lease is given up, so whatever it still tries to write is refused. Its thread cannot be ended, and the
    interpreter would wait for it.
    """
    if not ended_in_time:
        logging.shutdown()
        os._exit(FAILED)


@contextlib.contextmanager
def _api(database: Database, port: int | None, settings: Settings) -> Iterator[None]:
    """Serve the HTTP API on this machine while the block runs; does nothing without a port."""
    if port is None:
        yield
        return
    require("api")
    from broker.api.process import serving
    from broker.api.server import ListenOptions

    with serving(
        database, ListenOptions(port=port), home=settings.home, folder=settings.config, make=page()
    ) as running:
        keep_what_is_there()
        say_where(running)
        yield


def make_service(
    database: Database, control: Database, configuration: AgentsConfiguration, folder: Path | None, profile: str = ""
) -> Service:
    """Create the service with the agents of a configuration; it is not yet running.

    Args:
        database: database of the work.
        control: database for leases and heartbeats.
        configuration: content of ``config/agents.yaml``.
        folder: folder of the operator's own configuration files.
        profile: replaces ``seed``, unless the operator has chosen another profile.

    Raises:
        JobsAreMadeByJedi: it is configured to make jobs alongside PanDA.
    """
    process = load_process(config_file("broker.yaml", folder), folder)
    if profile and process.profile == "seed":
        process = process.model_copy(update={"profile": profile})
    make = partial(registry.make, process=process)
    sections = sections_to_run(configuration, profile_in_force(process))
    keeper = LeaseKeeper(control, holder_name(), configuration.leases)
    installation = migrate.check(database)
    process.makes_jobs(installation)  # refused before anything runs
    return Service(database, enabled_agents(sections, make, installation), keeper, configuration.service)


def free_clock(database: Database) -> None:
    """Switch the service and all callers to the wall clock from now on."""
    with database.begin() as connection:
        loaded = forget_clock(connection)
    if loaded is not None:
        remark(f"the clock of the loaded scenario ({utc(loaded)}) holds no longer: the service goes by the wall clock")


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


def stop_on_signals(ending: threading.Event, end: Callable[[int], NoReturn]) -> None:
    """Set ``ending`` at the first signal to end; at the second one call ``end`` with the exit status."""

    def stop(number: int, frame: FrameType | None) -> None:
        if ending.is_set():
            end(128 + number)
        ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


Certificate = Annotated[
    Path | None, typer.Option("--certificate", metavar="FILE", help="PEM, with the certificates that sign it.")
]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="PEM: the key of the certificate.")]
BehindProxy = Annotated[bool, typer.Option("--behind-proxy", help="A proxy in front of it terminates TLS.")]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; beyond this machine only with TLS.")]
DEFAULT_PORT = 8642
_LOOK_EVERY_S = 1.0


def api(
    context: typer.Context,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free port.")] = DEFAULT_PORT,
    host: Host = "127.0.0.1",
    certificate: Certificate = None,
    key: Key = None,
    behind_proxy: BehindProxy = False,
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=64, help="Processes on one port; several serve no page.")
    ] = 1,
) -> None:
    """Serve the HTTP API, until stopped; several may run on one database."""
    require_own_packages()
    require("api")
    from broker.api.process import configure, serving
    from broker.api.server import ListenOptions, check

    listening = check(ListenOptions(host, port, certificate, key, behind_proxy))
    settings = settings_of(context)
    configure()
    ending = threading.Event()
    stop_on_signals(ending, sys.exit)
    if workers > 1:
        with open_store(context) as database:
            _serve_by_workers(database, listening, workers, settings, ending)
        return
    with (
        open_store(context) as database,
        serving(database, listening, home=settings.home, folder=settings.config, make=page()) as running,
    ):
        keep_what_is_there()
        say_where(running)
        while running.server.alive and not ending.wait(_LOOK_EVERY_S):
            pass
    if not ending.is_set():
        raise typer.Exit(FAILED)


def _serve_by_workers(
    database: Database, listening: ListenOptions, count: int, settings: Settings, ending: threading.Event
) -> None:
    from broker.api.workers import workers_serving

    with workers_serving(database, listening, count, home=settings.home, folder=settings.config) as (url, workers):
        remark(f"API: {url}/api/v1 by {count} processes, without the page (token, if one counts, in {settings.home})")
        while not ending.wait(_LOOK_EVERY_S):
            workers.look()


def page() -> MakeParts:
    """Return what makes the parts of the application: with the page if its extra is installed."""
    from broker.api.process import without_page

    if is_installed("web"):
        from broker.web.mounting import page_parts

        return page_parts
    return without_page


def say_where(running: Running) -> None:
    """Print where the API and the page are, and which token applies."""
    url, token_file = running.server.url, running.token_file
    output = "tokens of the issuers in config/api.yaml" if token_file is None else f"token in {token_file}"
    remark(f"API: {url}/api/v1 ({output})")
    if not is_installed("web"):
        remark('no page: pip install "gridbroker[web]"')
    elif running.login_code is None:
        remark(f"page: {url}/")
    else:
        remark(f"page: {url}/login?code={running.login_code()} (good once, within a minute; later {url}/login)")
