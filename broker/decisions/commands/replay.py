"""``broker replay``: replay stored decisions and compare them to the byte."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

from broker import __version__
from broker.brokerages.registry import brokerage, columns_not_stored
from broker.cli.context import SCENARIO_IF_LOADED, at_option, check_time, duration, moment_of, open_store, settings_of
from broker.cli.output import console, print_json, print_table, remark
from broker.decisions.answers.replay import Difference, Replayer, ReplayResult, replayed_file
from broker.errors import FAILED, WRONG_USAGE, BrokerError, NotFound
from broker.store.decisions.stored_cycles import CycleKey, StoredCycle, cycle_keys, one_decision, read_cycle, whole
from broker.store.gdpconfig_rows import TuningStore

DEFAULT_SPAN = "24h"
SHOWN_DIFFERENCES = 40


class TooMuch(BrokerError):
    """Several exclusive arguments were given at once."""

    exit_status = WRONG_USAGE


class NothingToReplay(NotFound):
    """No decision is stored for the requested time."""


def replay(
    context: typer.Context,
    decision: Annotated[
        int | None, typer.Argument(help="Number of a decision (see broker story) [all of the last 24 h].")
    ] = None,
    last: Annotated[str | None, typer.Option("--last", metavar="SPAN", help="Such as 24h, 30m or 7d.")] = None,
    at: Annotated[str | None, at_option("End of the span", without=SCENARIO_IF_LOADED)] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="File written by broker snapshot export --decisions; needs no database."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per decision.")] = False,
) -> None:
    """Decide again from the stored snapshot, tuning and seed; compare byte by byte (exit status 1 if different)."""
    if sum(one is not None for one in (decision, last, file)) > 1:
        raise TooMuch("more than one of DECISION, --last and --file", "broker replay", "name one of them")
    span = duration(last or DEFAULT_SPAN, "--last")
    check_time(at)  # report an invalid time before anything is opened
    config, report = settings_of(context).config, _Report(as_json)
    if file is not None:
        for results in replayed_file(file, config):
            report.add(results)
        report.finish()
        return
    with open_store(context) as database:
        end = moment_of(at, database, of_scenario=True)
        with database.read_snapshot() as connection:
            replayer = Replayer(connection, TuningStore(database.names), remark, config)
            if decision is not None:
                stored = one_decision(connection, decision)
                cycle = StoredCycle(stored.record.decision.brokerage, stored.origin, (stored,))
                report.add(replayer.replay(cycle, whole=False))
            else:
                keys = cycle_keys(connection, since=end - span, until=None if at == "now" else end)
                if not keys:
                    raise NothingToReplay(f"no decision of the last {last or DEFAULT_SPAN}", "broker.decisions", "")
                for key, is_whole in _shown_progress(list(zip(keys, whole(keys), strict=True))):
                    report.add(replayer.replay(read_cycle(connection, key), whole=is_whole))
    report.finish()


def _shown_progress(keys: list[tuple[CycleKey, bool]]) -> Iterator[tuple[CycleKey, bool]]:
    yield from track(keys, "replay", console=console(sys.stderr), transient=True, disable=not sys.stderr.isatty())


class _Report:
    """Reports each cycle as it is replayed, and ends the command with the exit status."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._counts: Counter[str] = Counter()
        self._rows: list[tuple[object, ...]] = []
        self._differences: list[tuple[object, ...]] = []
        self._engines: set[str] = set()

    def add(self, results: list[ReplayResult]) -> None:
        """Add the comparison of one cycle to the totals."""
        if not results:
            return
        origin = results[0].stored.origin
        if origin.engine != __version__ and origin.engine not in self._engines:
            self._engines.add(origin.engine)
            remark(f"decided by version {origin.engine or 'unknown'}; decided again with the rules of {__version__}")
            _report_columns(results[0])
        counted = Counter(_state(one) for one in results)
        self._counts += counted
        for fault in dict.fromkeys(one.fault for one in results if one.fault):
            remark(f"error: {fault}; decision {next(one.stored.id for one in results if one.fault == fault)}")
        if self._as_json:
            for one in results:
                print_json(_object(one))
            return
        states = (counted[state] for state in ("identical", "different", "unreadable"))
        brokerage = results[0].stored.record.decision.brokerage
        self._rows.append((brokerage, origin.decided_at, origin.snapshot, origin.tuning, *states))
        self._differences += [_row(one, difference) for one in results for difference in one.differences]

    def finish(self) -> None:
        """Print the tables; exit with status 1 unless every decision was reproduced as stored."""
        if not self._as_json:
            columns = ("brokerage", "decided for", "snapshot", "tuning", "identical", "different", "unreadable")
            print_table(columns, self._rows, title="Decided again")
            if self._differences:
                shown = self._differences[:SHOWN_DIFFERENCES]
                print_table(("decision", "task", "dataset", "field", "stored", "again"), shown, title="Differences")
                more = len(self._differences) - len(shown)
                if more:
                    remark(f"and {more} differences more; --json shows all")
        output = ", ".join(f"{self._counts[state]} {state}" for state in ("identical", "different", "unreadable"))
        remark(output)
        if self._counts["different"] or self._counts["unreadable"]:
            raise typer.Exit(FAILED)


def _report_columns(replayed: ReplayResult) -> None:
    """Report the columns that the other version did not store."""
    if replayed.stored.record.work is not None and not replayed.fault:
        missing = columns_not_stored(brokerage(replayed.stored.record.decision.brokerage), replayed.stored.record.work)
        if missing:
            remark(f"columns that it did not store count as NULL: {', '.join(missing)}")


def _state(replayed: ReplayResult) -> str:
    if replayed.fault:
        return "unreadable"
    return "identical" if replayed.identical else "different"


def _row(replayed: ReplayResult, difference: Difference) -> tuple[object, ...]:
    decision = replayed.stored.record.decision
    values = (_short(difference.stored), _short(difference.again))
    return (replayed.stored.id, decision.jeditaskid, decision.datasetid, difference.field, *values)


def _short(value: object) -> str:
    text = "-" if value is None else repr(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _object(replayed: ReplayResult) -> dict[str, Any]:
    decision, origin = replayed.stored.record.decision, replayed.stored.origin
    return {
        "decision": replayed.stored.id,
        "jeditaskid": decision.jeditaskid,
        "datasetid": decision.datasetid,
        "ramcount": decision.ramcount,
        "brokerage": decision.brokerage,
        "decided_at": origin.decided_at.astimezone(UTC),
        "snapshot": origin.snapshot,
        "tuning": origin.tuning,
        "seed": origin.seed,
        "engine": origin.engine,
        "engine_now": __version__,
        "identical": replayed.identical,
        "differences": [
            {"field": difference.field, "stored": difference.stored, "again": difference.again}
            for difference in replayed.differences
        ],
        "fault": replayed.fault or None,
    }
