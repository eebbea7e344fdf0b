"""Obstacles to running on a database: rights, columns, ages, clocks, and competing daemons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import sqlalchemy as sa

from broker.service.statements import source_ages
from broker.snapshot.source import JobStatistics
from broker.store.connection.database import Database
from broker.store.connection.denials import TUNING, WRITERS
from broker.store.connection.panda_columns import NEWER
from broker.store.connection.tables import Names, TableCatalogue
from broker.store.reads.needed_columns import NeededFault, needed_faults
from broker.store.schema import migrate, panda_version, rights
from broker.tasks.answers.outputs import OutputDataset, waiting_outputs

Level = Literal["ok", "note", "problem"]
STALE = timedelta(minutes=30)
DAEMON_AT_WORK = timedelta(hours=2)
CLOCK_LIMIT_S = 30.0
OUTPUTS_LATE = timedelta(hours=1)
OUTPUTS_REMEDY = "see broker outputs list, and whether the agent rucio_output runs"
INSTALLATIONS: Mapping[str, str] = {
    migrate.STANDALONE: "standalone: all tables are ours",
    migrate.BESIDE: "alongside PanDA",
    migrate.MIRRORED: "alongside PanDA, on copies of its tables",
}

#: Our agents whose work PanDA also does: its daemon (component of its lock), and how to turn that off.
SAME_WORK: Mapping[str, tuple[str, str]] = {
    "production_task": (
        "JEDI's task brokerage",
        "name gridbroker_jedi.task:GridTaskBroker in [taskbroker] modConfig of panda_jedi.cfg for the label, "
        "or leave this agent off",
    ),
    "production_job": (
        "JEDI's job brokerage",
        "name gridbroker_jedi.job:GridJobBroker in [jobbroker] modConfig of panda_jedi.cfg for the label",
    ),
    "analysis_job": (
        "JEDI's job brokerage",
        "name gridbroker_jedi.job:GridAnalysisJobBroker in [jobbroker] modConfig of panda_jedi.cfg for label user",
    ),
    "timeouts": (
        "pandaD.copyArchive",
        "it cannot be switched off by itself: raise TIMEOUT_defined, TIMEOUT_holding (component job_timeout) and "
        "HEARTBEAT_TIMEOUT_<workflow> (component watcher) in config above the limits of the broker",
    ),
    "fast_rebrokerage": (
        "pandaD.copyArchive",
        "remove FAST_REBRO_THRESHOLD_NQUEUE_<share> (component rebroker) from config: without it PanDA only logs",
    ),
    "analysis_rebrokerage": (
        "pandaD.copyArchive",
        "raise ANALY_TIMEOUT (component rebroker, hours) in config above the limit of the broker",
    ),
}


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        topic: ``installation``, ``right``, ``needed``, ``missing``, ``panda_version``, ``age``, ``clock``, ``outputs``,
            ``notifications``, ``same_work``, ``plugin``, ``job_generation`` or ``panda_server``.
        level: whether something has to be done.
        what: description of the finding.
        remedy: what to do; empty if there is nothing.
    """

    topic: str
    level: Level
    what: str
    remedy: str = ""


def examine(
    database: Database,
    enabled: Mapping[str, bool],
    host_now: datetime,
    via_panda: Collection[str] = (),
    recording: Collection[str] = (),
    statistics: JobStatistics = "live",
) -> list[Finding]:
    """Return all findings about a database.

    Args:
        database: database with a current schema.
        enabled: whether each agent runs in this installation.
        host_now: the time on this host (aware), to be compared with the database's.
        via_panda: agents that query PanDA's server when alongside PanDA, and so need no rights on its tables.
        recording: agents that write only their decisions.
        statistics: source of this installation's job counts: the jobs, or PanDA's statistics.
    """
    mode = migrate.mode_of(database)
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        now = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        findings = [Finding("installation", "ok", INSTALLATIONS[mode])]
        findings += _clock((host_now - now).total_seconds())
        if mode == migrate.STANDALONE:
            return findings + _outputs(waiting_outputs(connection), now)
        if mode == migrate.MIRRORED:
            # the rights on copies are not PanDA's; the copies show which of its columns exist
            findings += needed_findings(needed_faults(catalogue, "panda"))
            findings += _panda_version(connection, database.names)
            findings += _same_work(source_ages.daemon_locks(connection, catalogue), enabled, now, recording)
            return findings
        writing = {name: runs and name not in {*via_panda, *recording} for name, runs in enabled.items()}
        findings += _rights(rights.read_rights(connection, database.names), rights.current_role(connection), writing)
        findings += missing_findings(catalogue, statistics)
        findings += _panda_version(connection, database.names)
        findings += _ages(source_ages.newest_rows(connection, catalogue), now)
        findings += _same_work(source_ages.daemon_locks(connection, catalogue), enabled, now, recording)
    return findings


def _outputs(datasets: list[OutputDataset], now: datetime) -> list[Finding]:
    """Return how long outputs of jobs have waited for Rucio, and how many it lacks."""
    oldest = min((dataset.oldest_queued for dataset in datasets if dataset.oldest_queued is not None), default=None)
    lines = []
    if oldest is not None:
        age = now - oldest
        late: Level = "problem" if age > OUTPUTS_LATE else "ok"
        files = sum(dataset.queued for dataset in datasets)
        why = next((f": {dataset.reason}" for dataset in datasets if dataset.reason and dataset.queued), "")
        summary = (
            f"{files} files wait to be registered in Rucio, the oldest for {age.total_seconds() / 60:.0f} min{why}"
        )
        lines.append(Finding("outputs", late, summary, OUTPUTS_REMEDY if late == "problem" else ""))
    refused = sum(dataset.refused for dataset in datasets)
    if refused:
        lines.append(Finding("outputs", "problem", f"{refused} files are not in Rucio", OUTPUTS_REMEDY))
    return lines


def _clock(difference_s: float) -> list[Finding]:
    level: Level = "problem" if abs(difference_s) > CLOCK_LIMIT_S else "ok"
    remedy = "set the clocks by NTP" if level == "problem" else ""
    return [Finding("clock", level, f"this host is {difference_s:+.1f} s from the database's clock", remedy)]


def _rights(all_rights: list[rights.Right], role: str, enabled: Mapping[str, bool]) -> list[Finding]:
    lines = []
    for who in dict.fromkeys(right.who for right in all_rights):
        lacking = [right for right in all_rights if right.who == who and not right.held]
        if not lacking:
            lines.append(Finding("right", "ok", f"{who}: role {role} has all rights"))
        if lacking and who in WRITERS and not enabled.get(who, False):
            problem = f"{who}: {len(lacking)} rights are missing and not needed: it is off, or asks PanDA"
            lines.append(Finding("right", "note", problem))
            continue
        for right in lacking:
            on = f" on {right.table}" if right.table else f" on schema {right.schema}"
            level: Level = "note" if who == TUNING else "problem"
            lines.append(Finding("right", level, f"{who}: {right.privilege}{on} is missing", right.grant(role)))
    return lines


def needed_findings(faults: Iterable[NeededFault]) -> list[Finding]:
    """Return what is needed but missing in PanDA's tables, by table or column, with everything that needs it."""
    who: dict[str, list[str]] = {}
    for needed_fault in faults:
        who.setdefault(str(needed_fault.fault), []).append(needed_fault.who)
    return [
        Finding("needed", "problem", f"{fault}: {', '.join(dict.fromkeys(users))} cannot be read", NEWER)
        for fault, users in who.items()
    ]


def _panda_version(connection: sa.Connection, names: Names) -> list[Finding]:
    now, before = panda_version.current(connection, names), panda_version.recorded(connection)
    if now is None:
        return [Finding("panda_version", "note", f"PanDA does not say its version in {panda_version.TABLE}")]
    if now == before:
        return [Finding("panda_version", "ok", f"PanDA's schema is {now}")]
    was = "was not on record" if before is None else f"was {before}"
    remedy = "look for `needed` and `missing` above; `broker db upgrade` puts it on record"
    return [Finding("panda_version", "note", f"PanDA's schema is {now}, it {was}", remedy)]


def missing_findings(catalogue: TableCatalogue, statistics: JobStatistics) -> list[Finding]:
    """Return what a PanDA database lacks: needed parts as problems, the others as notes."""
    faults = needed_faults(catalogue, statistics)
    needed = {(problem.fault.table, problem.fault.column) for problem in faults}
    lines = needed_findings(faults)
    for table in catalogue.missing.tables:
        if (table, "") not in needed:
            lines.append(Finding("missing", "note", f"table {table}", "it is read as an empty one"))
    for table, columns in catalogue.missing.columns.items():
        if remaining := [column for column in columns if (table, column) not in needed]:
            lines.append(Finding("missing", "note", f"{table}: {', '.join(remaining)}", "read as NULL"))
    return lines


def _ages(newest: list[source_ages.Newest], now: datetime) -> list[Finding]:
    lines = []
    for row in newest:
        if row.at is None:
            lines.append(Finding("age", "note", f"{row.table} has no rows", "see what fills it"))
            continue
        age = now - row.at
        level: Level = "note" if age > STALE else "ok"
        remedy = "see what fills it, and config/sources.yaml for the limits" if level == "note" else ""
        lines.append(Finding("age", level, f"{row.table}: newest row {age.total_seconds() / 60:.0f} min old", remedy))
    return lines


def _same_work(
    locks: Mapping[str, datetime], enabled: Mapping[str, bool], now: datetime, recording: Collection[str]
) -> list[Finding]:
    lines = []
    for agent, (daemon, remedy) in SAME_WORK.items():
        last = locks.get(daemon)
        activity = "" if last is None else f", last at work {(now - last).total_seconds() / 60:.0f} min ago"
        at_work = last is not None and now - last <= DAEMON_AT_WORK
        writes = agent in WRITERS and agent not in recording and enabled.get(agent, False)
        level: Level = "problem" if writes and (at_work or agent == "production_task") else "note"
        state = ("records only" if agent in recording else "on") if enabled.get(agent, False) else "off"
        lines.append(Finding("same_work", level, f"{agent} ({state}): {daemon} does the same{activity}", remedy))
    return lines
