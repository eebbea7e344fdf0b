"""``broker api``: the HTTP API in a process of its own."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.context import is_installed, open_store, require, settings_of
from broker.cli.output import remark
from broker.errors import FAILED
from broker.resources import require_own_packages

if TYPE_CHECKING:
    from broker.api.process import MakeParts, Running
    from broker.api.server import Listening
    from broker.settings import Settings
    from broker.store.connection.database import Database

Certificate = Annotated[
    Path | None, typer.Option("--certificate", metavar="FILE", help="PEM, with what it is signed by.")
]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="PEM: the key of the certificate.")]
BehindProxy = Annotated[bool, typer.Option("--behind-proxy", help="A proxy in front of it does TLS.")]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; beyond this machine only with TLS.")]
DEFAULT_PORT = 8642
_LOOK_EVERY_S = 1.0


def api(
    context: typer.Context,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")] = DEFAULT_PORT,
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
    from broker.api.server import Listening, check

    listening = check(Listening(host, port, certificate, key, behind_proxy))
    settings = settings_of(context)
    configure()
    ending = threading.Event()
    _stop_on_signals(ending)
    if workers > 1:
        with open_store(context) as database:
            _serve_by_workers(database, listening, workers, settings, ending)
        return
    with (
        open_store(context) as database,
        serving(database, listening, home=settings.home, folder=settings.config, make=page()) as running,
    ):
        say_where(running)
        while running.server.alive and not ending.wait(_LOOK_EVERY_S):
            pass
    if not ending.is_set():
        raise typer.Exit(FAILED)


def _serve_by_workers(
    database: Database, listening: Listening, count: int, settings: Settings, ending: threading.Event
) -> None:
    from broker.api.workers import workers_serving

    with workers_serving(database, listening, count, home=settings.home, folder=settings.config) as (url, workers):
        remark(f"API: {url}/api/v1 by {count} processes, without the page (token, if one counts, in {settings.home})")
        while not ending.wait(_LOOK_EVERY_S):
            workers.look()


def page() -> MakeParts:
    """What the application is made of: with the page where its extra is installed."""
    from broker.api.process import without_page

    if is_installed("web"):
        from broker.web.mounting import page_parts

        return page_parts
    return without_page


def say_where(running: Running) -> None:
    """Tell people where the API and the page are, and which token counts."""
    url, token_file = running.server.url, running.token_file
    output = "tokens of the issuers in config/api.yaml" if token_file is None else f"token in {token_file}"
    remark(f"API: {url}/api/v1 ({output})")
    if not is_installed("web"):
        remark('no page: pip install "gridbroker[web]"')
    elif running.login_code is None:
        remark(f"page: {url}/")
    else:
        remark(f"page: {url}/login?code={running.login_code()} (good once, within a minute; later {url}/login)")


def _stop_on_signals(ending: threading.Event) -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        if ending.is_set():
            raise SystemExit(128 + number)
        ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
