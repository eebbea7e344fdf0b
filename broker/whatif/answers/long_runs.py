"""Runs that take minutes: what-if, sweep, preview and replay over stored cycles, with progress, as plain documents.

:func:`comparison_sentence` says the effect of a change of values in one sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from broker.decisions.answers.replay import Replayer, ReplayResult
from broker.decisions.answers.rules_in_force import rule_set
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import Proposal, grid, read_ranges
from broker.store.connection.database import Database
from broker.store.decisions.stored_cycles import read_cycle, whole
from broker.store.gdpconfig_rows import Json, TuningStore
from broker.tuning.answers.canaries import proposals_of
from broker.whatif.answers.stored_cases import Selection, stored_cases
from broker.whatif.model.cases import Change, ProfileRules, Switch, with_switches
from broker.whatif.model.comparison import summary_document, task_documents, total_documents
from broker.whatif.model.executor import Answers, Comparing, answer

Progress = Callable[[int, int], None]
"""Receives how much is done, and of how much."""
DAY_S = 86400.0
MOST_TASKS = 5000
MOST_DIFFERENCES = 1000
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


class _RunRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Cycles(_RunRequest):
    """The stored cycles to use.

    Attributes:
        last_s: cycles of this long until now, in seconds.
        snapshot: cycles on this snapshot instead.
        brokerages: only these brokerages; null for all.
        until: last instant; null for now.
    """

    last_s: float = Field(default=DAY_S, gt=0, le=90 * DAY_S)
    snapshot: Name | None = None
    brokerages: list[Name] | None = Field(default=None, max_length=20)
    until: datetime | None = None


class WhatIf(Cycles):
    """Values and rules to compare with those in force.

    Attributes:
        set: values by key.
        rules: rules to switch on or off, by name.
        vo: VO of the tasks for the values.
    """

    set: dict[Name, Json] = Field(default_factory=dict, max_length=50)
    rules: dict[Name, bool] = Field(default_factory=dict, max_length=50)
    vo: str | None = Field(default=None, min_length=1, max_length=16)


class Sweep(Cycles):
    """Ranges of values, as ``KEY=FROM:TO:STEP``; every combination is tried."""

    ranges: list[Name] = Field(min_length=1, max_length=3)
    rules: dict[Name, bool] = Field(default_factory=dict, max_length=50)
    vo: str | None = Field(default=None, min_length=1, max_length=16)


class Preview(_RunRequest):
    """A change of values, evaluated on the newest cycles before it is made.

    Attributes:
        set: values by key.
        vo: VO of the tasks for the values.
        cycles: number of newest cycles of each brokerage.
        decisions: minimum number of decisions; earlier cycles are added to reach it.
        last_s: also all cycles of this long until now, in seconds.
    """

    set: dict[Name, Json] = Field(min_length=1, max_length=50)
    vo: str | None = Field(default=None, min_length=1, max_length=16)
    cycles: int = Field(default=3, ge=1, le=1000)
    decisions: int = Field(default=200, ge=1, le=100_000)
    last_s: float = Field(default=0.0, ge=0, le=DAY_S)


class Replay(Cycles):
    """Stored decisions to decide again and compare to the byte."""


Kind = Literal["what_if", "sweep", "preview", "replay"]
KINDS: Mapping[str, type[BaseModel]] = {"what_if": WhatIf, "sweep": Sweep, "preview": Preview, "replay": Replay}


def check(request: BaseModel, own: str, config: Path | None) -> None:
    """Refuse a run that cannot be done, before it is queued.

    Args:
        request: the run.
        own: the VO of the installation.
        config: folder of the operator's own configuration files.

    Raises:
        BrokerError: a key, value, range or rule is not valid.
    """
    if isinstance(request, WhatIf | Preview):
        proposals_of(request.set, request.vo, own)
    if isinstance(request, Sweep):
        grid(read_ranges(shipped_catalogue(own), request.ranges, request.vo or own))
    if isinstance(request, WhatIf | Sweep) and request.rules:
        with_switches(rule_set(config).profile, _switches(request))


def run(
    database: Database, request: BaseModel, now: datetime, config: Path | None, report_progress: Progress
) -> dict[str, Any]:
    """Do the requested run and return its result as a plain document.

    Raises:
        BrokerError: there is nothing to decide again, or it cannot be decided again.
    """
    if isinstance(request, Replay):
        return _replayed(database, request, now, config, report_progress)
    if isinstance(request, Sweep):
        return _swept(database, request, now, config, report_progress)
    if isinstance(request, Preview):
        proposals = proposals_of(request.set, request.vo, database.names.vo)
        since = now - timedelta(seconds=request.last_s) if request.last_s else None
        selection = Selection(newest=request.cycles, decisions=request.decisions, newest_since=since)
        return _compared(database, proposals, (), selection, config, report_progress)
    if isinstance(request, WhatIf):
        return _compared(
            database,
            proposals_of(request.set, request.vo, database.names.vo),
            _switches(request),
            _selection(request, now),
            config,
            report_progress,
        )
    raise TypeError(f"no run is {type(request).__name__}")


def _switches(request: WhatIf | Sweep) -> tuple[Switch, ...]:
    return tuple(Switch(name, on) for name, on in request.rules.items())


def _selection(request: Cycles, now: datetime) -> Selection:
    only = None if request.brokerages is None else tuple(request.brokerages)
    if request.snapshot is not None:
        return Selection(snapshot=request.snapshot, brokerages=only)
    until = request.until or now
    return Selection(until - timedelta(seconds=request.last_s), until, brokerages=only)


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
    difference = answers.differences[0]
    tasks = task_documents(difference)
    return {
        "summary": summary_document(difference),
        "totals": total_documents(difference),
        "tasks": tasks[:MOST_TASKS],
        "tasks_in_all": len(tasks),
        **_shortcomings(answers),
    }


def _swept(
    database: Database, request: Sweep, now: datetime, config: Path | None, report_progress: Progress
) -> dict[str, Any]:
    own = database.names.vo
    points = grid(read_ranges(shipped_catalogue(own), request.ranges, request.vo or own))
    before = rule_set(config)
    after = ProfileRules(with_switches(before.profile, _switches(request)), before.options)
    what = Comparing(before, tuple(Change(point, after) for point in points), by_task=False)
    answers = _answered(database, _selection(request, now), what, report_progress)
    shown = [
        {"set": {one.key: one.value for one in point}, "totals": total_documents(difference)}
        for point, difference in zip(points, answers.differences, strict=True)
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
    database: Database, request: Replay, now: datetime, config: Path | None, report_progress: Progress
) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    differences: list[dict[str, Any]] = []
    selection = _selection(request, now)
    if request.until is None:  # also cycles that decided for an instant after now
        selection = replace(selection, until=None)
    keys = stored_cases(database, selection).keys
    for done, (key, is_whole) in enumerate(zip(keys, whole(keys), strict=True)):
        report_progress(done, len(keys))
        with database.read_snapshot() as connection:
            replayer = Replayer(connection, TuningStore(database.names), lambda warning: None, config)
            for replayed in replayer.replay(read_cycle(connection, key), whole=is_whole):
                counts[_state(replayed)] += 1
                differences += _differences(replayed)
    return {
        **{state: counts[state] for state in ("identical", "different", "unreadable")},
        "cycles": len(keys),
        "differences": differences[:MOST_DIFFERENCES],
    }


def _state(replayed: ReplayResult) -> str:
    return "identical" if replayed.identical else "unreadable" if replayed.fault else "different"


def _differences(replayed: ReplayResult) -> list[dict[str, Any]]:
    about = {"decision": replayed.stored.id, "jeditaskid": replayed.stored.record.decision.jeditaskid}
    if replayed.fault:
        return [{**about, "fault": replayed.fault}]
    return [
        {**about, "field": difference.field, "stored": str(difference.stored), "again": str(difference.again)}
        for difference in replayed.differences
    ]


def comparison_sentence(summary: Mapping[str, int]) -> str:
    """How much of what was decided again changes; ``summary`` is that of a preview or a what-if."""
    losing = summary["tasks_losing_last_queue"]
    return (
        f"{summary['changed']:,} of {summary['decisions']:,} decisions change, "
        f"{summary['jobs_moved']:,} of {summary['jobs']:,} jobs move, "
        f"{losing:,} {'task loses its' if losing == 1 else 'tasks lose their'} last queue."
    )
