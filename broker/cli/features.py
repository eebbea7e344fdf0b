"""``broker features``: Machine/Job Features, for jobs that read them and for resource providers that publish them."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from broker.cli.context import open_store
from broker.cli.output import print_json, print_table, remark
from broker.errors import WRONG_USAGE, BrokerError
from broker.formats import feature_publish, machine_job_features
from broker.formats.feature_keys import JOB, KEYS, MACHINE, Directory
from broker.formats.feature_reader import FeatureReader, ReaderSettings, web_fetch
from broker.formats.feature_summary import Report
from broker.formats.machine_job_features import Derived, Features, QueueFigures
from broker.store import feature_rows

app = typer.Typer(no_args_is_help=True)

MachineDir = Annotated[
    str | None, typer.Option("--machinefeatures", metavar="DIR|URL", envvar="MACHINEFEATURES", show_envvar=True)
]
JobDir = Annotated[str | None, typer.Option("--jobfeatures", metavar="DIR|URL", envvar="JOBFEATURES")]
At = Annotated[int | None, typer.Option("--at", metavar="UNIX", help="Seconds since 1970 UTC [now].")]
MAX_NAME_CHARACTERS = 128

Json = Annotated[bool, typer.Option("--json", help="One object on stdout.")]
OfJob = Annotated[bool, typer.Option("--job", help="The job's directory and keys; else the machine's.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the keys.")]


class WrongFeatureUsage(BrokerError):
    """Arguments that cannot be used."""

    exit_status = WRONG_USAGE


@app.command()
def read(
    machinefeatures: MachineDir = None,
    jobfeatures: JobDir = None,
    at: At = None,
    as_json: Json = False,
    corepower: Annotated[float | None, typer.Option(help="HS06 per core of the queue, if the site says none.")] = None,
    corecount: Annotated[int | None, typer.Option(help="Cores of a job of the queue, likewise.")] = None,
    process_start: Annotated[int | None, typer.Option(help="UNIX s when this pilot started, likewise.")] = None,
    owner: Annotated[
        list[int] | None, typer.Option(help="Believe files of this account only; may be repeated.")
    ] = None,
) -> None:
    """The keys that a site published for this job, and what follows from them."""
    now = int(time.time()) if at is None else at
    features = _features(machinefeatures, jobfeatures, now, owner)
    derived = machine_job_features.derive(features, now, QueueFigures(corepower, corecount), process_start)
    if as_json:
        print_json(described(features, derived))
        return
    _show(features, derived)


def described(features: Features, derived: Derived) -> dict[str, Any]:
    """Keys and derived values as one object."""
    return {
        "machinefeatures": features.known(MACHINE),
        "jobfeatures": features.known(JOB),
        **dataclasses.asdict(derived),
    }


def _features(machine: str | None, job: str | None, now: int, owner: list[int] | None) -> Features:
    settings = ReaderSettings(owners=None if owner is None else frozenset(owner))
    return FeatureReader(machine, job, web_fetch(time.monotonic), settings).read(now)


def _show(features: Features, derived: Derived) -> None:
    known = {**features.known(MACHINE), **features.known(JOB)}
    rows = [(key.directory, key.name, known[key.name], key.unit) for key in KEYS if key.name in known]
    print_table(("directory", "key", "value", "unit"), rows, title="What the site says")
    values = dataclasses.asdict(derived)
    values.pop("problems")
    print_table(("derived", "value"), [(name, "-" if value is None else value) for name, value in values.items()])
    for problem in derived.problems:
        remark(f"problem: {problem}")


@app.command()
def publish(
    directory: Folder,
    values: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="Such as hs06=400.")],
    job: OfJob = False,
) -> None:
    """Write keys for jobs to read, each in one step."""
    given: dict[str, str] = {}
    for word in values:
        name, equals, text = word.partition("=")
        if not equals or not name or name in given:
            raise WrongFeatureUsage(f"not usable: {word[:80]}", "broker features publish", "write KEY=VALUE, each once")
        given[name] = text
    feature_publish.publish(directory, _which(job), given)
    remark(f"published {', '.join(given)} in {directory}")


@app.command("announce-shutdown")
def announce_shutdown(
    directory: Folder,
    job: OfJob = False,
    shutdown: Annotated[
        int | None, typer.Option("--shutdown", metavar="UNIX", help="When [the earliest that the grace allows].")
    ] = None,
    at: At = None,
    no_jobs: Annotated[bool, typer.Option("--no-jobs", help="No job runs here: nobody was promised a grace.")] = False,
    as_json: Json = False,
) -> None:
    """Announce a shutdown, not sooner than the grace that was promised."""
    now = int(time.time()) if at is None else at
    done = feature_publish.announce_shutdown(directory, _which(job), shutdown, now, jobs_run=not no_jobs)
    if as_json:
        print_json(dataclasses.asdict(done))
        return
    remark(f"{done.outcome}: {feature_publish.SHUTDOWN_KEYS[_which(job)][0]} {done.shutdown}")


@app.command()
def withdraw(directory: Folder, job: OfJob = False, as_json: Json = False) -> None:
    """Take the announcement of a shutdown back."""
    before = feature_publish.withdraw_shutdown(directory, _which(job))
    if as_json:
        print_json({"withdrawn": before})
        return
    remark("nothing had been announced" if before is None else f"withdrawn: shutdown at {before}")


@app.command()
def report(
    context: typer.Context,
    queue: Annotated[str, typer.Option("--queue", help="The queue that this pilot runs at.")],
    machinefeatures: MachineDir = None,
    jobfeatures: JobDir = None,
    pilot: Annotated[str | None, typer.Option(help="Name of this pilot [host and job].")] = None,
    scratch_shared: Annotated[
        bool, typer.Option("--scratch-shared", help="The scratch limit is a whole disk that all jobs share.")
    ] = False,
    at: At = None,
    as_json: Json = False,
) -> None:
    """Report what this pilot reads; the agent `features` adds the reports of a queue up."""
    if not queue.strip() or len(queue) > MAX_NAME_CHARACTERS or "\0" in queue:
        raise WrongFeatureUsage("not a queue name", "--queue", f"give 1 to {MAX_NAME_CHARACTERS} characters")
    now = int(time.time()) if at is None else at
    features = _features(machinefeatures, jobfeatures, now, None)
    derived = machine_job_features.derive(features, now)
    told = Report(
        queue=queue,
        reporter=(pilot or reporter_name(features))[:MAX_NAME_CHARACTERS],
        reported_s=now,
        cores=derived.cores,
        corepower=derived.corepower,
        wall_limit_s=derived.wall_limit_s,
        max_rss_bytes=features.max_rss_bytes,
        scratch_limit_bytes=features.scratch_limit_bytes,
        scratch_is_shared=scratch_shared,
        total_cpu=features.total_cpu,
        shutdown_s=machine_job_features.announced(features, now),
    )
    keys = {**features.known(MACHINE), **features.known(JOB)}
    with open_store(context) as database, database.begin() as connection:
        kept = feature_rows.save_report(connection, told, keys, derived.problems, features.jobstart_secs)
    if as_json:
        print_json({**dataclasses.asdict(told), "problems": list(derived.problems), "kept": kept})
    elif kept:
        remark(f"{told.reporter} at {queue}: {len(keys)} keys, {len(derived.problems)} problems")
    if not kept:
        remark(f"{told.reporter} at {queue}: a newer report is there, this one was left out")


def _which(job: bool) -> Directory:
    return JOB if job else MACHINE


def reporter_name(features: Features) -> str:
    """The name under which this pilot reports: its host, and the job that the site knows it by."""
    return f"{os.uname().nodename}:{features.job_id or os.getppid()}"
