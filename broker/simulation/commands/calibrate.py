"""``broker calibrate``: fit a grid to recorded jobs, and compare a fit with other figures."""

from __future__ import annotations

import dataclasses
import json as json_module
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from broker.cli.context import duration, moment_of, open_store, require
from broker.cli.output import print_json, print_table, remark
from broker.domain.instants import aware
from broker.errors import FAILED
from broker.simulation.answers.week_checks import CheckRequest
from broker.simulation.commands.checking import check_own, check_policy
from broker.simulation.model.calibration.calibration_file import write_calibration
from broker.simulation.model.calibration.check import Measure, check_profiles, check_transfers
from broker.simulation.model.calibration.fit import Calibration, calibrate as fitted
from broker.simulation.model.calibration.links import fit_links, is_transfers, transfer_figures
from broker.simulation.model.calibration.profiles import read_profiles
from broker.simulation.model.calibration.records import profiles_of, read_records
from broker.simulation.model.calibration.site_fit import SiteFit, anonymous, fit_site, speeds_of
from broker.simulation.model.calibration.trace import Trace, trace_of, without_names, write_trace
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.intervals import FEWEST_SEEDS
from broker.simulation.model.scenario_file import calibration_in, read_packed
from broker.simulation.statements.job_profiles import job_profiles
from broker.simulation.statements.site_history import site_history
from broker.store.connection.database import Database
from broker.store.scenarios.scenario_file import write_text

TraceFile = Annotated[
    Path | None, typer.Option("--trace", metavar="FILE", help="Write the tasks that arrived, for simulate --trace.")
]
Share = Annotated[
    bool, typer.Option("--share", help="Omit names of queues, tasks and shares; at least five users per kind.")
]
SitePolicy = Annotated[str, typer.Option("--policy", help="Policy that placed the jobs of the compared span.")]
Seeds = Annotated[int, typer.Option("--seeds", min=2, help="Number of simulations of the compared span.")]
Records = Annotated[
    Path | None,
    typer.Option("--records", metavar="FILE", help="Records of jobs as CSV (.gz)."),
]
ProfileFiles = Annotated[
    list[Path] | None,
    typer.Option("--profiles", metavar="FILE", help="Profiles of jobs, or transfers, as JSON (.gz); repeat."),
]
CheckedGrid = Annotated[
    Path | None, typer.Option("--grid", metavar="FILE", help="The calibrated grid that is compared.")
]


def calibrate(
    context: typer.Context,
    since: Annotated[
        str | None, typer.Option("--since", metavar="LENGTH", help="Own jobs of this time, such as 30d.")
    ] = None,
    first: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Own jobs that ended since then.")] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Own jobs that ended before then.")] = None,
    profiles: ProfileFiles = None,
    records: Records = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the calibrated grid.")] = None,
    trace: TraceFile = None,
    share: Share = False,
    check: Annotated[bool, typer.Option("--check", help="Compare a calibrated grid with other figures.")] = False,
    grid: CheckedGrid = None,
    policy: SitePolicy = "panda",
    seeds: Seeds = FEWEST_SEEDS,
    json: Annotated[bool, typer.Option("--json", help="One object per measure, or one of the calibration.")] = False,
) -> None:
    """Fit a grid to what really ran, for simulate --grid; --check compares a fit with figures it has not seen."""
    require("simulate")
    span = Span(since, first, last)
    _refuse_contradictions(span, check, grid, trace, share)
    if grid is not None:
        calibration = calibration_in(read_packed(grid), str(grid))
        if span.given and calibration.site is not None and not profiles and records is None:
            check_policy(policy)
            with open_store(context) as database:
                check_own(database, calibration, CheckRequest(*span.instants(database), policy, seeds), out, json)
            return
        _check(calibration, *_documents(context, profiles or [], records, span)[:2], json)
        return
    jobs, transfers, own = _documents(context, profiles or [], records, span, share)
    if jobs is None:
        raise SimulationError("no jobs to fit", "broker calibrate", "give --since, --records or --profiles with jobs")
    fit = fitted(read_profiles(*jobs), None if transfers is None else fit_links(*transfers))
    if own is not None:
        fit = dataclasses.replace(fit, site=anonymous(own[0]) if share else own[0])
    text = write_calibration(fit)
    if out is not None:
        write_text(out, text)
        remark(f"written: {out}; simulate it with: broker simulate --grid {out}")
    elif not json:
        typer.echo(text)
    if trace is not None and own is not None:
        _write_trace(trace, own[1], share)
    for one in (*(f"left out: {one}" for one in fit.left_out), *_switched(fit.site)):
        remark(f"note: {one}")
    if json:
        print_json(_document(fit))


def _switched(site: SiteFit | None) -> list[str]:
    """Notes on the parts of a site's grid that are enabled, and why others are disabled."""
    if site is None:
        return []
    tape = f"tape is off: {site.without_tape}" if site.tape is None else "tape is on, as it was staged"
    none = "fewer than 30 were seen to wait in a batch system"
    workers = f"workers are off: {none}" if site.lost_workers is None else "workers are on, as they were seen"
    return [tape, f"{workers}; to change either: changes: in the file"]


def _refuse_contradictions(span: Span, check: bool, grid: Path | None, trace: Path | None, share: bool) -> None:
    where = "broker calibrate"
    if span.since is not None and span.first is not None:
        raise SimulationError("--since and --from are two beginnings", where, "give one of them")
    if span.last is not None and span.since is None and span.first is None:
        raise SimulationError("--to without a beginning", where, "give --from as well")
    if check != (grid is not None):
        raise SimulationError("--check and --grid go together", where, "give both, or neither")
    if (trace is not None or share) and (check or not span.given):
        raise SimulationError("--trace and --share are of own jobs", where, "give --since, or --from and --to")


def _write_trace(path: Path, trace: Trace, share: bool) -> None:
    shown = without_names(trace) if share else trace
    write_text(path, write_trace(shown))
    left = f"; {trace.left_out} tasks without a finished job are not in it" if trace.left_out else ""
    remark(f"written: {path}: {len(trace.tasks)} tasks{left}")


def _document(calibration: Calibration) -> dict[str, Any]:
    """The summary of the calibration for ``--json``."""
    site = calibration.site
    return {
        "kind": "calibration", "origin": calibration.origin, "kinds": len(calibration.kinds),
        "jobs": sum(kind.jobs for kind in calibration.kinds), "classes": len(calibration.classes),
        "links": None if calibration.links is None else calibration.links.n, "left_out": list(calibration.left_out),
        "between": {name: vars(one) for name, one in calibration.between.items()},
        "site": None if site is None else {
            "queues": len(site.queues), "cores": sum(queue.cores for queue in site.queues), "tasks": site.tasks,
            "days": site.days, "use": site.use, "pooled": list(site.pooled),
        },
    }  # fmt: skip


@dataclass(frozen=True)
class Span:
    """A span of own jobs as given on the command line: a length or a beginning, and an end that defaults to now."""

    since: str | None
    first: str | None
    last: str | None

    @property
    def given(self) -> bool:
        """Whether any of the options was given."""
        return any((self.since, self.first, self.last))

    def instants(self, database: Database) -> tuple[datetime, datetime]:
        """Beginning and end as aware datetimes.

        Raises:
            SimulationError: the end is not after the beginning.
        """
        until = moment_of(self.last, database, option="--to")
        begin = (
            until - duration(self.since, "--since") if self.since else moment_of(self.first, database, option="--from")
        )
        if begin >= until:
            where = "--from, --to"
            raise SimulationError(f"it begins at {begin} and ends at {until}", where, "end after the beginning")
        return aware(begin), aware(until)


Named = tuple[Any, str]


Own = tuple[SiteFit, Trace]


def _documents(
    context: typer.Context, paths: Sequence[Path], records: Path | None, span: Span, share: bool = False
) -> tuple[Named | None, Named | None, Own | None]:
    """The documents of jobs and of transfers, each with its origin, and the site's own queues and tasks."""
    documents: list[Named] = [(_json(path), str(path)) for path in paths]
    transfers = [named for named in documents if is_transfers(named[0])]
    jobs = [named for named in documents if not is_transfers(named[0])]
    own: Own | None = None
    if records is not None:
        text = read_packed(records)
        jobs.append((profiles_of(read_records(text, str(records)), records.name), str(records)))
    if span.given:
        document, site, tasks = _own(context, span, share)
        own = (site, tasks)
        jobs.append((document, "jobsarchived4"))
    if len(jobs) > 1 or len(transfers) > 1:
        raise SimulationError(
            "two sources of the same figures", "broker calibrate", "give one of --since, --from, --records, --profiles"
        )
    return (jobs[0] if jobs else None), (transfers[0] if transfers else None), own


def _own(context: typer.Context, span: Span, share: bool) -> tuple[Mapping[str, Any], SiteFit, Trace]:
    """The profiles of the jobs in the database, the queues that they ran at, and the tasks that arrived."""
    with open_store(context) as database:
        begin, until = span.instants(database)
        with database.read_snapshot() as connection:
            document = job_profiles(connection, database.names, begin, until, share=share)
            site = fit_site(site_history(connection, database.names, begin, until))
            history = site_history(connection, database.names, begin, until, speeds_of(site))
            return document, site, trace_of(history, site)


def _check(calibration: Calibration, jobs: Named | None, transfers: Named | None, json: bool) -> None:
    """Print each measure, and exit with status 1 if any does not hold."""
    if jobs is None and transfers is None:
        raise SimulationError("nothing to compare with", "broker calibrate --check", "give --profiles or --records")
    measures = [] if jobs is None else check_profiles(calibration, read_profiles(*jobs))
    measures += [] if transfers is None else check_transfers(calibration, transfer_figures(*transfers))
    if json:
        for measure in measures:
            print_json(measure.document())
    else:
        rows = [
            (measure.quantity, measure.measure, _short(measure.value), f"{measure.limit:g}", _word(measure),
             "" if measure.floor is None else _short(measure.floor), measure.cells, measure.note)
            for measure in measures
        ]  # fmt: skip
        print_table(("quantity", "measure", "value", "limit", "", "true halves", "cells", "note"), rows)
        below = [measure for measure in measures if measure.below_floor]
        if below:
            remark(
                f"note: {len(below)} limits are below what two true halves of these cells differ by (true halves): "
                "a fit to other cells keeps them by luck alone"
            )
    if any(measure.passes is False for measure in measures):
        raise typer.Exit(FAILED)


def _short(value: float | None) -> str:
    return "not known" if value is None else f"{value:.3f}"


def _word(measure: Measure) -> str:
    return {True: "holds", False: "does not hold", None: ""}[measure.passes]


def _json(path: Path) -> Any:
    try:
        return json_module.loads(read_packed(path))
    except (ValueError, RecursionError) as error:
        raise SimulationError(f"not JSON: {error}", str(path), "give a JSON document") from error
