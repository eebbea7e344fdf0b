"""The rows of ``broker.plugin_switches``: the settings that operators made for JEDI's plug-in, and who made them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.alongside.model.plugin_switch import PluginSwitch

_INSERT = sa.text("""
    INSERT INTO broker.plugin_switches (editor, reason, enabled, percent, labels)
    VALUES (:editor, :reason, :enabled, :percent, :labels)""")
_READ = sa.text("""
    SELECT set_at, editor, reason, enabled, percent, labels FROM broker.plugin_switches ORDER BY id DESC LIMIT :most""")
# two operators at once: the second builds on what the first has set
_LOCK = sa.text("LOCK TABLE broker.plugin_switches IN SHARE ROW EXCLUSIVE MODE")


@dataclass(frozen=True)
class SwitchChange:
    """A change of the switch: what was set, when (aware), by whom and why."""

    switch: PluginSwitch
    set_at: datetime
    editor: str
    reason: str


def history(connection: sa.Connection, most: int = 100) -> list[SwitchChange]:
    """The changes of the switch, newest first; the first one is in force."""
    return [
        SwitchChange(
            PluginSwitch(row.enabled, row.percent, None if row.labels is None else tuple(row.labels)),
            row.set_at,
            row.editor,
            row.reason,
        )
        for row in connection.execute(_READ, {"most": most})
    ]


def in_force(connection: sa.Connection) -> PluginSwitch:
    """The switch; on for all if it was never set."""
    changes = history(connection, 1)
    return changes[0].switch if changes else PluginSwitch()


def lock(connection: sa.Connection) -> None:
    """Lock the switch until the transaction ends."""
    connection.execute(_LOCK)


def set_switch(connection: sa.Connection, switch: PluginSwitch, *, editor: str, reason: str) -> None:
    """Put the switch in force."""
    labels = None if switch.labels is None else list(switch.labels)
    values = {"enabled": switch.enabled, "percent": switch.percent, "labels": labels}
    connection.execute(_INSERT, {**values, "editor": editor, "reason": reason})
