"""``broker agents --health``: reports by its exit status whether the service on this host is healthy.

A container checks every few seconds, so this starts without what the other commands need.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg

from broker.errors import FAILED, Refused
from broker.password_file import VARIABLE, with_password
from broker.store.connection.embedded import EmbeddedServer
from broker.store.service import health
from broker.store.service.health import Problem

_SHOWN = {
    "no_service": "no service has said that it runs on {host}",
    "heartbeat_old": "the last heartbeat is {value:.0f} s old (limit {limit:.0f} s)",
    "cycle_overdue": "a cycle of {agent} is overdue",
    "agent_failing": "the last {value:.0f} cycles of {agent} failed",
    "no_leader": "nobody has led {agent} for {value:.0f} s (limit {limit:.0f} s)",
}


def requested_database(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the database whose health is requested, if ``arguments`` request nothing else; None otherwise."""
    words = list(arguments)
    url = environment.get("BROKER_DATABASE_URL") or None
    if words[:1] == ["--db"] and len(words) > 1:
        url, words = words[1], words[2:]
    if words != ["agents", "--health"]:
        return None
    if url is not None:
        return _with_password(url, environment)
    home = environment.get("BROKER_HOME")
    return None if not home else EmbeddedServer(Path(home)).url()


def _with_password(url: str, environment: Mapping[str, str]) -> str | None:
    """Return the address with its password; None if the password file is wrong, which the command then reports."""
    try:
        return with_password(url, environment.get(VARIABLE))
    except Refused:
        return None


def check(url: str) -> int:
    """Report on stderr what is wrong and return the exit status."""
    host = socket.gethostname()
    try:
        problems = health.problems(*health.read(url.replace("postgresql+psycopg://", "postgresql://", 1), host))
    except (psycopg.Error, OSError) as error:
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        _say(f"the database does not answer: {first_line[:200]}")
        return FAILED
    for problem in problems:
        _say(shown(problem, host))
    return FAILED if problems else 0


def shown(problem: Problem, host: str) -> str:
    """Describe a problem in a sentence."""
    return _SHOWN[problem.code].format(host=host, agent=problem.agent, value=problem.value, limit=problem.limit)


def _say(message: str) -> None:
    print("not healthy: " + message.encode("unicode_escape").decode(), file=sys.stderr)
