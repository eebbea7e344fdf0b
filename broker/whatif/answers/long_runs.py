"""What takes minutes: what-if, sweep, preview and replay over stored cycles, with progress, as plain documents.

What a change of values does, in one sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from broker.decisions.answers.replay import Replayed, Replayer
from broker.decisions.answers.rules_in_force import rule_set
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import Proposal, grid, read_ranges
from broker.store.connection.database import Database
from broker.store.decisions.stored_cycles import cycle_keys, read_cycle, whole
from broker.tuning.answers.canaries import proposals_of
from broker.tuning.statements.gdpconfig_rows import Json, TuningStore
from broker.whatif.answers.stored_cases import NothingStored, Selection, stored_cases
from broker.whatif.model.cases import Change, ProfileRules, Switch, with_switches
from broker.whatif.model.comparison import summary_document, task_documents, total_documents
from broker.whatif.model.executor import Answers, Comparing, answer

Progress = Callable[[int, int], None]
"""Told how much is done, and of how much."""
DAY_S = 86400.0
MOST_TASKS = 5000
MOST_DIFFERENCES = 1000
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Cycles(_Asked):
    """Which stored cycles.

    Attributes:
        last_s: of this time up to now, in seconds.
        snapshot: those on this snapshot instead.
        brokerages: only these; null: all.
        until: the last instant; null: now.
    """

    last_s: float = Field(default=DAY_S, gt=0, le=90 * DAY_S)
    snapshot: Name | None = None
    brokerages: list[Name] | None = Field(default=None, max_length=20)
    until: datetime | None = None


class WhatIf(Cycles):
    """Values and rules to be compared with those in force.

    Attributes:
        set: values by key.
        rules: rules that are switched on or off, by name.
        vo: of the tasks that the values are for.
    """

    set: dict[Name, Json] = Field(default_factory=dict, max_length=50)
    rules: dict[Name, bool] = Field(default_factory=dict, max_length=50)
    vo: str | None = Field(default=None, min_length=1, max_length=16)


class Sweep(Cycles):
    """Ranges of values, as ``KEY=FROM:TO:STEP``; every combination is tried."""

    ranges: list[Name] = Field(min_length=1, max_length=3)
    rules: dict[Name, bool] = Field(default_factory=dict, max_length=50)
    vo: str | None = Field(default=None, min_length=1, max_length=16)


class Preview(_Asked):
    """A change of a value, looked at on the newest cycles before it is made.

    Attributes:
        set: values by key.
        vo: of the tasks that the values are for.
        cycles: of each brokerage, the newest.
        decisions: cycles further back as well, until there are so many.
        last_s: all cycles of this time up to now as well, in seconds.
    """

    set: dict[Name, Json] = Field(min_length=1, max_length=50)
    vo: str | None = Field(default=None, min_length=1, max_length=16)
    cycles: int = Field(default=3, ge=1, le=1000)
    decisions: int = Field(default=200, ge=1, le=100_000)
    last_s: float = Field(default=0.0, ge=0, le=DAY_S)


class Replay(Cycles):
    """Stored decisions, made again and compared to the byte."""


Kind = Literal["what_if", "sweep", "preview", "replay"]
KINDS: Mapping[str, type[BaseModel]] = {"what_if": WhatIf, "sweep": Sweep, "preview": Preview, "replay": Replay}


def check(asked: BaseModel, own: str) -> None:
    """Refuse what cannot be tried, before it waits for its turn; ``own`` is the VO of the installation.

    Raises:
        BrokerError: a key, value, range or rule is none.
    """
    if isinstance(asked, WhatIf | Preview):
        proposals_of(asked.set, asked.vo, own)
    if isinstance(asked, Sweep):
        grid(read_ranges(shipped_catalogue(own), asked.ranges, asked.vo or own))


def run(
    database: Database, asked: BaseModel, now: datetime, config: Path | None, report_progress: Progress
) -> dict[str, Any]:
    """Do what was asked; the result as a plain document.

    Raises:
        BrokerError: there is nothing to decide again, or it cannot be.
    """
    if isinstance(asked, Replay):
        return _replayed(database, asked, now, config, report_progress)
    if isinstance(asked, Sweep):
        return _swept(database, asked, now, config, report_progress)
    if isinstance(asked, Preview):
        proposals = proposals_of(asked.set, asked.vo, database.names.vo)
        since = now - timedelta(seconds=asked.last_s) if asked.last_s else None
        selection = Selection(newest=asked.cycles, decisions=asked.decisions, newest_since=since)
        return _compared(database, proposals, (), selection, config, report_progress)
    if isinstance(asked, WhatIf):
        switches = [Switch(name, on) for name, on in asked.rules.items()]
        return _compared(
            database,
            proposals_of(asked.set, asked.vo, database.names.vo),
            switches,
            _selection(asked, now),
            config,
            report_progress,
        )
    raise TypeError(f"no run is {type(asked).__name__}")


def _selection(asked: Cycles, now: datetime) -> Selection:
    only = None if asked.brokerages is None else tuple(asked.brokerages)
    if asked.snapshot is not None:
        return Selection(snapshot=asked.snapshot, brokerages=only)
    until = asked.until or now
    return Selection(until - timedelta(seconds=asked.last_s), until, brokerages=only)


def _compared(
    database: Database,
    proposals: Sequence[Proposal],
    switches: Sequence[Switch],
    selection: Selection,
    config: Path | None,
    report_progress: Progress,
) -> dict[str, Any]:
    before = rule_set(config)
    change = Change(tuple(proposals), ProfileRules(with_switches(before.profile, switches), before.options))
    answers = _answered(database, selection, Comparing(before, (change,)), report_progress)
    found = answers.differences[0]
    tasks = task_documents(found)
    return {
        "summary": summary_document(found),
        "totals": total_documents(found),
        "tasks": tasks[:MOST_TASKS],
        "tasks_in_all": len(tasks),
        **_shortcomings(answers),
    }


def _swept(
    database: Database, asked: Sweep, now: datetime, config: Path | None, report_progress: Progress
) -> dict[str, Any]:
    own = database.names.vo
    points = grid(read_ranges(shipped_catalogue(own), asked.ranges, asked.vo or own))
    before = rule_set(config)
    switches = [Switch(name, on) for name, on in asked.rules.items()]
    after = ProfileRules(with_switches(before.profile, switches), before.options)
    what = Comparing(before, tuple(Change(point, after) for point in points), by_task=False)
    answers = _answered(database, _selection(asked, now), what, report_progress)
    shown = [
        {"set": {one.key: one.value for one in point}, "totals": total_documents(found)}
        for point, found in zip(points, answers.differences, strict=True)
    ]
    return {"points": shown, **_shortcomings(answers)}


def _answered(database: Database, selection: Selection, what: Comparing, report_progress: Progress) -> Answers:
    cases = stored_cases(database, selection)
    total = len(cases) * len(what.changes)
    report_progress(0, total)
    return answer(cases, what, 1, lambda done: report_progress(done, total))


def _shortcomings(answers: Answers) -> dict[str, Any]:
    return {"engines": sorted(answers.engines), "failed": answers.failed, "dropped_rows": answers.dropped_rows}


def _replayed(
    database: Database, asked: Replay, now: datetime, config: Path | None, report_progress: Progress
) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    differences: list[dict[str, Any]] = []
    until = asked.until or now
    with database.read_snapshot() as connection:
        keys = cycle_keys(connection, since=until - timedelta(seconds=asked.last_s), until=asked.until)
    if asked.brokerages is not None:
        keys = [key for key in keys if key.brokerage in asked.brokerages]
    if not keys:
        raise NothingStored("no decision of that time")
    for done, (key, is_whole) in enumerate(zip(keys, whole(keys), strict=True)):
        report_progress(done, len(keys))
        with database.read_snapshot() as connection:
            replayer = Replayer(connection, TuningStore(database.names), lambda warning: None, config)
            for one in replayer.replay(read_cycle(connection, key), whole=is_whole):
                counts[_state(one)] += 1
                differences += _differences(one)
    return {
        **{state: counts[state] for state in ("identical", "different", "unreadable")},
        "cycles": len(keys),
        "differences": differences[:MOST_DIFFERENCES],
    }


def _state(one: Replayed) -> str:
    return "identical" if one.identical else "unreadable" if one.fault else "different"


def _differences(one: Replayed) -> list[dict[str, Any]]:
    about = {"decision": one.stored.id, "jeditaskid": one.stored.record.decision.jeditaskid}
    if one.fault:
        return [{**about, "fault": one.fault}]
    return [
        {**about, "field": found.field, "stored": str(found.stored), "again": str(found.again)}
        for found in one.differences
    ]


def comparison_sentence(summary: Mapping[str, int]) -> str:
    """How much of what was decided again becomes different; ``summary``: of a preview or a what-if."""
    losing = summary["tasks_losing_last_queue"]
    return (
        f"{summary['changed']:,} of {summary['decisions']:,} decisions change, "
        f"{summary['jobs_moved']:,} of {summary['jobs']:,} jobs move, "
        f"{losing:,} {'task loses its' if losing == 1 else 'tasks lose their'} last queue."
    )
