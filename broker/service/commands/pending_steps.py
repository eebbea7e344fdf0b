"""How ``broker db upgrade --check`` says what an upgrade would do."""

from __future__ import annotations

from typing import Any

import typer

from broker.cli.output import print_json, print_table
from broker.errors import DONE, GATE_CLOSED, REFUSED
from broker.store.schema.pending_steps import HeldLock, Pending, PendingStep

_HELD = {
    "moment": "for a moment",
    "scan": "while it is read",
    "index": "while it is indexed",
    "rewrite": "while its rows are written",
    "unknown": "for a time that is not known",
}
_STOPS = {"nothing": "others go on", "writes": "stops writing", "all": "stops reading and writing"}


def show_pending(pending: Pending, *, json: bool) -> int:
    """Print it; the exit status: done, refused where there are steps, or that running services would not go on."""
    if json:
        print_json(
            {
                "safe": pending.is_safe,
                "from_before_1": pending.from_before_1,
                "steps": [_as_object(step) for step in pending.steps],
            }
        )
    elif not pending.steps:
        typer.echo("the schema is current")
    else:
        rows = [(step.label, _writers(step), _locks(step)) for step in pending.steps]
        print_table(("step", "who writes afterwards", "locks"), rows)
        typer.echo(_verdict(pending))
    if not pending.steps:
        return DONE
    return REFUSED if pending.is_safe else GATE_CLOSED


def _verdict(pending: Pending) -> str:
    count = len(pending.steps)
    if pending.from_before_1:
        return f"{count} steps: services of releases before 1.0 write nothing after the first; stop them before"
    if pending.is_safe:
        return f"{count} steps, each only adds: services that run now go on"
    release = next((step.effects.oldest_writer for step in pending.steps[::-1] if step.effects.oldest_writer), None)
    older = "services of older releases" if release is None else f"services older than {release}"
    return f"{count} steps: {older} only read afterwards; start newer ones first, back is a restored backup"


def _writers(step: PendingStep) -> str:
    effects = step.effects
    if effects.oldest_writer is not None:
        return f"{effects.oldest_writer} and newer"
    return "as before" if effects.only_adds else f"not said: {effects.more_than_adds[0]}"


def _locks(step: PendingStep) -> str:
    return "; ".join(_lock(one) for one in step.locks) or "none on tables that are there"


def _lock(one: HeldLock) -> str:
    length = "" if not one.about_s else f", about {one.about_s:.1f} s"
    return f"{one.lock.table}: {_STOPS[one.lock.stops]} {_HELD[one.lock.held]}{length}"


def _as_object(step: PendingStep) -> dict[str, Any]:
    return {
        "step": step.label,
        "only_adds": step.effects.only_adds,
        "oldest_writer": step.effects.oldest_writer,
        "more_than_adds": step.effects.more_than_adds,
        "locks": [
            {
                "table": one.lock.table,
                "mode": one.lock.mode,
                "stops": one.lock.stops,
                "held": one.lock.held,
                "size_bytes": one.size_bytes,
                "about_s": one.about_s,
            }
            for one in step.locks
        ],
    }
