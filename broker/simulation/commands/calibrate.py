"""``broker calibrate``: a grid fitted to what really ran, and how near a fit comes to other figures."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from broker.cli.context import duration, moment_of, open_store
from broker.cli.extras import require
from broker.cli.output import print_json, print_table, remark
from broker.errors import FAILED
from broker.simulation.model.calibration.calibration_file import write_calibration
from broker.simulation.model.calibration.check import Measure, check_profiles, check_transfers
from broker.simulation.model.calibration.fit import calibrate as fitted
from broker.simulation.model.calibration.links import fit_links, is_transfers, transfer_figures
from broker.simulation.model.calibration.profiles import read_profiles
from broker.simulation.model.calibration.records import profiles_of, read_records
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.scenario_file import calibration_in, read_packed
from broker.simulation.statements.job_profiles import job_profiles
from broker.store.scenarios.scenario_file import write_text


def calibrate(
    context: typer.Context,
    since: Annotated[str | None, typer.Option("--since", metavar="LENGTH", help="Own jobs of the last 30d.")] = None,
    first: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Own jobs that ended since then.")] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Own jobs that ended before then.")] = None,
    profiles: Annotated[
        list[Path] | None,
        typer.Option("--profiles", metavar="FILE", help="Profiles of jobs, or transfers, as JSON (.gz); repeat."),
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option("--records", metavar="FILE", help="Records of jobs as CSV (.gz)."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the calibrated grid.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare a calibrated grid with other figures.")] = False,
    grid: Annotated[
        Path | None, typer.Option("--grid", metavar="FILE", help="The calibrated grid that is compared.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One object a measure, or one of the calibration.")] = False,
) -> None:
    """Fit a grid to what really ran, for simulate --grid; --check compares a fit with figures it has not seen."""
    require("simulate")
    if check != (grid is not None):
        raise SimulationError("--check and --grid go together", "broker calibrate", "give both, or neither")
    jobs, transfers = _documents(context, profiles or [], records, (since, first, last))
    if grid is not None:
        _check(grid, jobs, transfers, json)
        return
    if jobs is None:
        raise SimulationError("no jobs to fit", "broker calibrate", "give --since, --records or --profiles with jobs")
    found = fitted(read_profiles(*jobs), None if transfers is None else fit_links(*transfers))
    text = write_calibration(found)
    if out is not None:
        write_text(out, text)
        remark(f"written: {out}; simulate it with: broker simulate --grid {out}")
    elif not json:
        typer.echo(text)
    for one in found.left_out:
        remark(f"note: left out: {one}")
    if json:
        print_json(
            {
                "kind": "calibration", "origin": found.origin, "kinds": len(found.kinds),
                "jobs": sum(kind.jobs for kind in found.kinds), "classes": len(found.classes),
                "links": None if found.links is None else found.links.n, "left_out": list(found.left_out),
                "between": {name: vars(one) for name, one in found.between.items()},
            }
        )  # fmt: skip


Named = tuple[Any, str]


def _documents(
    context: typer.Context, paths: Sequence[Path], records: Path | None, span: tuple[str | None, str | None, str | None]
) -> tuple[Named | None, Named | None]:
    """The document of jobs and that of transfers, each with where it is from."""
    found: list[Named] = [(_json(path), str(path)) for path in paths]
    transfers = [one for one in found if is_transfers(one[0])]
    jobs = [one for one in found if not is_transfers(one[0])]
    if records is not None:
        text = read_packed(records)
        jobs.append((profiles_of(read_records(text, str(records)), records.name), str(records)))
    if any(span):
        jobs.append((_own(context, *span), "jobsarchived4"))
    if len(jobs) > 1 or len(transfers) > 1:
        raise SimulationError(
            "two sources of the same figures", "broker calibrate", "give one of --since, --from, --records, --profiles"
        )
    return (jobs[0] if jobs else None), (transfers[0] if transfers else None)


def _own(context: typer.Context, since: str | None, first: str | None, last: str | None) -> Mapping[str, Any]:
    """The profiles of the jobs in the database."""
    if since is not None and first is not None:
        raise SimulationError("--since and --from are two beginnings", "broker calibrate", "give one of them")
    if since is None and first is None:
        raise SimulationError("--to without a beginning", "broker calibrate", "give --from as well")
    with open_store(context) as database:
        until = moment_of(last, database, option="--to")
        begin = until - duration(since, "--since") if since else moment_of(first, database, option="--from")
        if begin >= until:
            raise SimulationError(
                f"it begins at {begin} and ends at {until}", "--from, --to", "end after the beginning"
            )
        with database.read_snapshot() as connection:
            return job_profiles(connection, database.names, _aware(begin), _aware(until))


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _check(grid: Path, jobs: Named | None, transfers: Named | None, json: bool) -> None:
    """Print each measure, and end with status 1 where one does not hold."""
    if jobs is None and transfers is None:
        raise SimulationError("nothing to compare with", "broker calibrate --check", "give --profiles or --records")
    calibration = calibration_in(read_packed(grid), str(grid))
    measures = [] if jobs is None else check_profiles(calibration, read_profiles(*jobs))
    measures += [] if transfers is None else check_transfers(calibration, transfer_figures(*transfers))
    if json:
        for one in measures:
            print_json(one.document())
    else:
        rows = [
            (one.quantity, one.measure, _short(one.value), f"{one.limit:g}", _word(one),
             "" if one.floor is None else _short(one.floor), one.cells, one.note)
            for one in measures
        ]  # fmt: skip
        print_table(("quantity", "measure", "value", "limit", "", "true halves", "cells", "note"), rows)
        below = [one for one in measures if one.below_floor]
        if below:
            remark(
                f"note: {len(below)} limits are below what two true halves of these cells differ by (true halves): "
                "a fit to other cells keeps them by luck alone"
            )
    if any(one.passes is False for one in measures):
        raise typer.Exit(FAILED)


def _short(value: float | None) -> str:
    return "not known" if value is None else f"{value:.3f}"


def _word(one: Measure) -> str:
    return {True: "holds", False: "does not hold", None: ""}[one.passes]


def _json(path: Path) -> Any:
    try:
        return json_module.loads(read_packed(path))
    except (ValueError, RecursionError) as error:
        raise SimulationError(f"not JSON: {error}", str(path), "give a JSON document") from error
