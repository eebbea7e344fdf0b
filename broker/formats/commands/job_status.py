"""``broker job-status``: what a job reports to its machine, and which job a site should vacate."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from broker.cli.context import open_store
from broker.cli.output import print_json, print_table, remark
from broker.errors import WRONG_USAGE, BrokerError, Refused
from broker.formats.model import job_status, job_status_files
from broker.formats.model.feature_keys import BadTextError
from broker.formats.model.job_status import HOLD_OFF_S, JobStatus, Payload, Reckoning
from broker.formats.model.job_status_files import Waiting
from broker.formats.model.vacate import Choice, EndBy, Mode, Need, RankRequest, choose
from broker.formats.statements import status_reports
from broker.pilots.answers.reports import keep_status
from broker.store.connection.tables import TableCatalogue
from broker.wrong_values import value_is_wrong

app = typer.Typer(no_args_is_help=True)
DocumentT = TypeVar("DocumentT")

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024

Json = Annotated[bool, typer.Option("--json", help="One object on stdout.")]
At = Annotated[int | None, typer.Option("--at", metavar="UNIX", help="Seconds since 1970 UTC [now].")]
Folder = Annotated[
    Path | None,
    typer.Argument(metavar="[DIR]", envvar="JOBSTATUS", show_envvar=True, help="The directory of the record."),
]
Cores = Annotated[int | None, typer.Option("--allocated-cpu", min=1, help="Processors of the job.")]
JsonFile = Annotated[Path, typer.Argument(metavar="FILE", help="JSON; - for standard input.")]


class BadStatusDocument(Refused):
    """The JSON document is not what the command needs."""


class NoStatusDirectory(BrokerError):
    """Neither the command nor the environment names the directory of the record."""

    exit_status = WRONG_USAGE


class _PilotModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    allocated_cpu: int = Field(ge=1)
    payloads: list[Payload]
    can_postpone_last_job: bool | None = None
    priority_factor: int | None = None


def _waiting() -> Waiting:
    return Waiting(time.monotonic, time.sleep)


@app.command()
def read(
    directory: Folder = None,
    allocated_cpu: Cores = None,
    at: At = None,
    owner: Annotated[list[int] | None, typer.Option(help="Trust only files of this account; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Show the record of a job and the results of the formulas."""
    now = int(time.time()) if at is None else at
    status = _status(directory, now, None if owner is None else frozenset(owner))
    reckoning = job_status.reckon(status, allocated_cpu, now)
    if as_json:
        print_json(described(status, reckoning))
        return
    print_table(("key", "value"), list(status.by_key().items()), title=f"Record in {directory or '-'}")
    plain = dataclasses.asdict(reckoning.formula_without_limits)
    stats = [(name, value, plain[name]) for name, value in dataclasses.asdict(reckoning.result).items()]
    print_table(("figure", "value", "plain formula"), stats)
    for flag in reckoning.flags:
        remark(f"flag: {flag}")


def _status(directory: Path | None, now: float, owners: frozenset[int] | None) -> JobStatus:
    """The record in a directory; an empty one if no directory is named."""
    if directory is None:
        return JobStatus(flags=("directory:not-set",))
    return job_status_files.read(directory, now, _waiting(), owners)


def described(status: JobStatus, reckoning: Reckoning) -> dict[str, Any]:
    """Record and figures as one object."""
    return {
        "files": status.by_key(),
        **dataclasses.asdict(reckoning.result),
        "formula_without_limits": dataclasses.asdict(reckoning.formula_without_limits),
        "flags": list(reckoning.flags),
    }


@app.command()
def write(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DIR] [KEY=VALUE...]", help="DIR defaults to $JOBSTATUS; keys such as used_CPU=6."),
    ] = None,
    payloads: Annotated[
        Path | None, typer.Option("--payloads", metavar="FILE", help="JSON of what a pilot runs, instead of values.")
    ] = None,
    hold_off_s: Annotated[
        int,
        typer.Option(
            "--hold-off-s",
            min=0,
            envvar="BROKER_JOB_STATUS_HOLD_OFF_S",
            help="How long other values stay after can_postpone_last_job turned from False to True; 0: not at all.",
        ),
    ] = HOLD_OFF_S,
    at: At = None,
    as_json: Json = False,
) -> None:
    """Write the given keys of the record of a job, and no others, under the lock."""
    directory, values = _directory_and_values(words or [])
    record = _record_of_payloads(payloads) if payloads is not None else _record_of_words(values)
    try:
        texts = job_status.texts_of(record)
    except BadTextError as bad:
        raise BadStatusDocument(str(bad), "the record", "correct it; nothing was written") from bad
    now = int(time.time()) if at is None else at
    written = job_status_files.write(directory, texts, _waiting(), now, hold_off_s)
    if written.held:
        remark(f"held off until {written.until}, as more payloads may come again: {', '.join(written.held)}")
    if as_json:
        print_json(job_status.parse({key: text.encode() for key, text in written.texts.items()}).by_key())
        return
    remark(f"wrote {', '.join(key for key in written.texts if key not in written.held)} in {directory}")


def _directory_and_values(words: list[str]) -> tuple[Path, list[str]]:
    """The directory, named by the first word or by the environment, and the words that are values."""
    if words and ("=" not in words[0] or "/" in words[0].partition("=")[0]):
        return Path(words[0]), words[1:]
    named = os.environ.get("JOBSTATUS", "")
    if not named:
        raise NoStatusDirectory("no directory", "DIR or $JOBSTATUS", "name the directory that the site made")
    return Path(named), words


def _record_of_words(words: list[str]) -> dict[str, int | bool]:
    texts: dict[str, bytes] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or key in texts or key not in job_status.KEYS:
            known = ", ".join(job_status.KEYS)
            raise BadStatusDocument(
                f"not usable: {word[:80]}", "the record", f"write KEY=VALUE, each once; keys: {known}"
            )
        texts[key] = text.encode()
    status = job_status.parse(texts)
    if status.flags or job_status.LOCK_FILE not in texts:
        what = ", ".join(status.flags) or f"{job_status.LOCK_FILE} is missing"
        raise BadStatusDocument(what, "the record", "correct it; nothing was written")
    return status.by_key()


def _record_of_payloads(file: Path) -> dict[str, int | bool]:
    model = _validated(_PilotModel, file)
    payloads: list[Payload] = model.payloads
    record: dict[str, int | bool] = dict(job_status.record_of(payloads, model.allocated_cpu))
    if payloads and model.can_postpone_last_job is not None:
        record["can_postpone_last_job"] = model.can_postpone_last_job
    if payloads and model.priority_factor is not None:
        record["priority_factor"] = model.priority_factor
    return record


@app.command()
def report(
    context: typer.Context,
    directory: Folder = None,
    *,
    pandaid: Annotated[int, typer.Option("--pandaid", min=1, help="The job that the record is about.")],
    allocated_cpu: Cores = None,
    at: At = None,
    as_json: Json = False,
) -> None:
    """Report the record of a job to the broker: jobs that report little waste are moved first."""
    now = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
    status = _status(directory, now.timestamp(), None)
    if not status.by_key():
        raise BadStatusDocument(", ".join(status.flags) or "no record", str(directory), "nothing was reported")
    with open_store(context) as database:
        kept = keep_status(database, pandaid, status, allocated_cpu, now)
    if as_json:
        print_json(kept)
        return
    remark(f"job {pandaid}: {'reported' if kept.kept else 'a newer record is there, this one was left out'}")


@app.command()
def rank(file: JsonFile, at: At = None, as_json: Json = False) -> None:
    """List the jobs to vacate for the cores that a site needs, and why."""
    request = _validated(RankRequest, file)
    need = request if at is None else dataclasses.replace(request, now=at)
    if need.now is None:
        remark("no instant given: losses are taken as reported; give --at, or now in the file, to bound them")
    choice = choose(need.jobs, need)
    if as_json:
        print_json(_plain(choice))
    else:
        _show(choice)


@app.command()
def drain(
    context: typer.Context,
    queue: Annotated[str, typer.Argument(help="A queue, as jobs name it.", show_default=False)],
    cores: Annotated[int, typer.Option("--cores", min=1, help="Number of cores needed.")],
    mode: Annotated[
        Mode, typer.Option("--mode", help="Kill jobs now, or drain those that end within the window.")
    ] = "kill",
    window_s: Annotated[int, typer.Option("--window-s", min=0, help="Maximum seconds to wait.")] = 0,
    ends_by: Annotated[EndBy, typer.Option("--ends-by", help="Trust the enforced end, or the estimate.")] = "limit",
    at: At = None,
    as_json: Json = False,
) -> None:
    """Like rank, for the jobs that run at a queue now, by their last reports."""
    now = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
    with open_store(context) as database, database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        jobs = status_reports.running_jobs(connection, catalogue, queue, now)
    choice = choose(jobs, Need(cores, mode, window_s, ends_by, int(now.timestamp())))
    if as_json:
        print_json(_plain(choice))
    else:
        _show(choice)


def _plain(choice: Choice) -> dict[str, Any]:
    """The choice as one object, without the copies that `dataclasses.asdict` makes of the values of every reason."""
    return {**vars(choice), "reasons": [vars(reason) for reason in choice.reasons]}


def _show(choice: Choice) -> None:
    rows = [(reason.id, reason.action, reason.cost, reason.cost_per_core, reason.why) for reason in choice.reasons]
    print_table(("job", "what to do", "loss (CPU s)", "for each core", "why"), rows)
    enough = "enough" if choice.enough else "not enough"
    remark(f"{choice.cores_freed} cores come free: {enough}")


def _validated(kind: type[DocumentT], file: Path) -> DocumentT:
    try:
        return TypeAdapter(kind).validate_python(_document(file))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise BadStatusDocument(f"{where}: {value_is_wrong(first)}", str(file), "correct the document") from error


def _document(file: Path) -> Mapping[str, Any]:
    try:
        with os.fdopen(os.dup(0), "rb") if str(file) == "-" else file.open("rb") as stream:
            data = stream.read(MAX_DOCUMENT_BYTES + 1)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise BadStatusDocument(f"larger than {MAX_DOCUMENT_BYTES} bytes", str(file), "split it")
        document = json.loads(data)
    except OSError as error:
        raise BrokerError(f"cannot read: {error.strerror}", str(file), "name a file that is there") from error
    except (ValueError, RecursionError) as error:
        raise BadStatusDocument(f"not JSON: {str(error)[:200]}", str(file), "correct the document") from error
    if not isinstance(document, dict):
        raise BadStatusDocument("not a JSON object", str(file), "write one object")
    return document
