"""Findings of `broker doctor` on JEDI's plug-in: its switch, its calls, and those counted in files only."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from broker.alongside.answers import call_files
from broker.alongside.model.plugin_switch import PluginSwitch
from broker.alongside.statements import plugin_calls, plugin_switches
from broker.alongside.statements.plugin_calls import CallCount
from broker.service.answers.doctor import Finding, Level
from broker.store.connection.database import Database

COUNTED_FOR = timedelta(hours=24)
#: Outcomes that need no attention.
_AS_WANTED = ("decided", "left_to_panda")


def plugin_findings(database: Database, now: datetime, folder: Path) -> list[Finding]:
    """The findings on the switch, and on the outcomes of calls in the last 24 hours.

    Args:
        database: with a current schema.
        now: the time (aware).
        folder: of the files in which calls are counted where the database cannot be written.
    """
    since = now - COUNTED_FOR
    with database.read_snapshot() as connection:
        changes = plugin_switches.history(connection, 1)
        calls = plugin_calls.since(connection, since)
    findings = [_switch(changes[0]) if changes else Finding("plugin", "ok", f"switch: {PluginSwitch()}, as shipped")]
    findings += _calls(calls)
    waiting = [count for count in call_files.read_folder(folder) if count.hour >= since - timedelta(hours=1)]
    return findings + _in_files(waiting, folder)


def _switch(change: plugin_switches.SwitchChange) -> Finding:
    level: Level = "ok" if change.switch.enabled else "note"
    sentence = f"switch: {change.switch}; {change.editor} at {change.set_at:%Y-%m-%d %H:%M} UTC: {change.reason}"
    return Finding("plugin", level, sentence, "" if change.switch.enabled else "`broker plugin on` lets it decide")


def _summed(calls: Iterable[CallCount]) -> list[tuple[str, str, str, int]]:
    counted: dict[tuple[str, str, str], int] = {}
    for call_count in calls:
        key = (call_count.call.brokerage, call_count.call.outcome, call_count.call.reason)
        counted[key] = counted.get(key, 0) + call_count.calls
    return [(*key, count) for key, count in sorted(counted.items())]


def _calls(calls: Iterable[CallCount]) -> list[Finding]:
    findings = [
        Finding(
            "plugin",
            "ok" if outcome in _AS_WANTED else "note",
            f"{brokerage}: {outcome} {count} times in 24 h ({reason})",
        )
        for brokerage, outcome, reason, count in _summed(calls)
    ]
    return findings or [Finding("plugin", "note", "JEDI's plug-in was not called in the last 24 h")]


def _in_files(calls: list[CallCount], folder: Path) -> list[Finding]:
    """Calls that the database does not have: while there are any, the plug-in cannot write it."""
    remedy = "the plug-in cannot write the database: see JEDI's log; another version of it than of the schema?"
    return [
        Finding(
            "plugin",
            "problem",
            f"{brokerage}: {outcome} {count} times in 24 h ({reason}), counted in {folder} only",
            remedy,
        )
        for brokerage, outcome, reason, count in _summed(calls)
    ]
