"""The commands of ``broker`` by name. Each is imported only when needed, so that completion and help are instant."""

from __future__ import annotations

from broker.feature import commands

COMMANDS: tuple[tuple[str, str, str], ...] = tuple((one.name, one.target, one.help) for one in commands())
"""Name, ``module:attribute``, help. The attribute is a function (one command) or a ``typer.Typer`` (a group)."""

WATCHED = frozenset(path for one in commands() for path in one.watched)
"""Commands that list things and change nothing; they have ``--watch``."""
