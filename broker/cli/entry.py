"""Entry point of the program ``broker``: trivial requests are answered at once, all others by a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the process with its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        from broker import __version__

        print(f"gridbroker {__version__}")
        raise SystemExit(0)
    if "--health" in words:
        from broker.service.commands import health

        url = health.requested_database(words)
        if url is not None:
            raise SystemExit(health.check(url))
    from broker.cli.closed_pipes import survive_closed_pipes

    survive_closed_pipes()
    elsewhere = server_in(words)
    if elsewhere is not None:
        from broker.cli.remote import main as run_elsewhere

        run_elsewhere(*elsewhere)
    from broker.cli.main import main as run_command

    run_command(words)


def server_in(arguments: Sequence[str]) -> tuple[str, str | None, list[str]] | None:
    """Return the ``--server`` URL (or BROKER_SERVER), the ``--token-file`` and the rest; None without a server."""
    options: dict[str, str | None] = {"--server": os.environ.get("BROKER_SERVER") or None, "--token-file": None}
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--":
            rest += [word, *words]
        elif name in options:
            options[name] = value if equals else next(words, None)
        else:
            rest.append(word)
    server = options["--server"]
    return None if server is None else (server, options["--token-file"], rest)


if __name__ == "__main__":
    main()
