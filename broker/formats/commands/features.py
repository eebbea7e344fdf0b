"""``broker features``: Machine/Job Features, for jobs that read them and for resource providers that publish them."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from broker.cli.context import open_store, settings_of
from broker.cli.output import print_json, print_table, remark
from broker.errors import WRONG_USAGE, BrokerError
from broker.formats.model import cloud_metadata, feature_http, feature_publish, machine_job_features
from broker.formats.model.cloud_metadata import Discovered
from broker.formats.model.feature_http import KeyResponse
from broker.formats.model.feature_keys import JOB, KEYS, MACHINE, Directory
from broker.formats.model.feature_reader import FeatureReader, ReaderSettings, web_fetch
from broker.formats.model.machine_job_features import Derived, Features, QueueStats, fit_of
from broker.pilots.answers.reports import features_to_keep, keep_features

app = typer.Typer(no_args_is_help=True)

MachineDir = Annotated[
    str | None, typer.Option("--machinefeatures", metavar="DIR|URL", envvar="MACHINEFEATURES", show_envvar=True)
]
JobDir = Annotated[str | None, typer.Option("--jobfeatures", metavar="DIR|URL", envvar="JOBFEATURES")]
At = Annotated[int | None, typer.Option("--at", metavar="UNIX", help="Seconds since 1970 UTC [now].")]
CloudMetadata = Annotated[
    str | None,
    typer.Option(
        "--cloud-metadata",
        metavar="URL",
        help="Cloud metadata for variables that are not set: a folder with the keys, or a JSON document.",
    ),
]
MetadataFile = Annotated[
    Path | None,
    typer.Option("--metadata-kept", metavar="FILE", help="Stores the cloud metadata, once in the life of a machine."),
]
MAX_NAME_CHARACTERS = 128

Json = Annotated[bool, typer.Option("--json", help="One object on stdout.")]
OfJob = Annotated[bool, typer.Option("--job", help="The job's directory and keys; else the machine's.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the keys.")]


class WrongFeatureUsage(BrokerError):
    """The arguments cannot be used."""

    exit_status = WRONG_USAGE


@app.command()
def read(
    context: typer.Context,
    machinefeatures: MachineDir = None,
    jobfeatures: JobDir = None,
    cloud: CloudMetadata = None,
    metadata_kept: MetadataFile = None,
    at: At = None,
    as_json: Json = False,
    corepower: Annotated[
        float | None, typer.Option(help="HS06 per core of the queue, if the site publishes none.")
    ] = None,
    corecount: Annotated[int | None, typer.Option(help="Cores of a job of the queue, likewise.")] = None,
    process_start: Annotated[int | None, typer.Option(help="UNIX s when this pilot started, likewise.")] = None,
    owner: Annotated[list[int] | None, typer.Option(help="Trust only files of this account; may be repeated.")] = None,
    hs06sec: Annotated[
        float | None, typer.Option(min=0, help="Work in HS06 s, to show whether it ends in the guaranteed time.")
    ] = None,
    efficiency: Annotated[float, typer.Option(min=1, max=100, help="CPU efficiency of that work in percent.")] = 100.0,
    base_walltime: Annotated[int, typer.Option(min=0, help="Seconds of it that do not scale with cores.")] = 0,
) -> None:
    """Show the keys that a site published for this job, and what follows from them."""
    now = int(time.time()) if at is None else at
    bases = _bases(context, (machinefeatures, jobfeatures), cloud, metadata_kept)
    features = _features(bases, now, owner)
    derived = machine_job_features.derive(features, now, QueueStats(corepower, corecount), process_start)
    package = None if hs06sec is None else fit_of(derived, hs06sec, efficiency, base_walltime)
    if as_json:
        print_json({**described(features, derived), **({} if package is None else dataclasses.asdict(package))})
        return
    _show(features, derived)
    if package is not None:
        print_table(("work", "value"), [(name, shown(value)) for name, value in dataclasses.asdict(package).items()])


def described(features: Features, derived: Derived) -> dict[str, Any]:
    """Keys and derived values as one object."""
    return {
        "machinefeatures": features.known(MACHINE),
        "jobfeatures": features.known(JOB),
        **dataclasses.asdict(derived),
    }


def shown(value: object) -> object:
    """A value as a cell of a table: a dash if it is not known."""
    return "-" if value is None else value


def _bases(
    context: typer.Context, variables: tuple[str | None, str | None], metadata: str | None, cache_file: Path | None
) -> Discovered:
    """The two variables: as they are set, else as the cloud publishes them."""
    machine, job = variables
    if metadata is None or (machine and job):
        return Discovered(machine, job)
    cache_file = cache_file or settings_of(context).home / "cloud-metadata.json"
    discovered = cloud_metadata.discover(metadata, cache_file, cloud_metadata.machine_id(), _ask_cloud)
    return Discovered(machine or discovered.machinefeatures, job or discovered.jobfeatures, discovered.problems)


def _ask_cloud(addresses: Sequence[str]) -> dict[str, KeyResponse]:
    return feature_http.fetch_all(addresses, time.monotonic, max_bytes=cloud_metadata.MAX_DOCUMENT_BYTES)


def _features(bases: Discovered, now: int, owner: list[int] | None) -> Features:
    settings = ReaderSettings(owners=None if owner is None else frozenset(owner))
    reader = FeatureReader(bases.machinefeatures, bases.jobfeatures, web_fetch(time.monotonic), settings)
    features = reader.read(now)
    return dataclasses.replace(features, problems=tuple(sorted((*features.problems, *bases.problems))))


def _show(features: Features, derived: Derived) -> None:
    known = {**features.known(MACHINE), **features.known(JOB)}
    rows = [(key.directory, key.name, known[key.name], key.unit) for key in KEYS if key.name in known]
    print_table(("directory", "key", "value", "unit"), rows, title="What the site says")
    values = dataclasses.asdict(derived)
    values.pop("problems")
    print_table(("derived", "value"), [(name, shown(value)) for name, value in values.items()])
    for problem in derived.problems:
        remark(f"problem: {problem}")


@app.command()
def publish(
    directory: Folder,
    values: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="Such as hs06=400.")],
    job: OfJob = False,
) -> None:
    """Write keys for jobs to read, each in one step."""
    texts: dict[str, str] = {}
    for word in values:
        name, equals, text = word.partition("=")
        if not equals or not name or name in texts:
            raise WrongFeatureUsage(f"not usable: {word[:80]}", "broker features publish", "write KEY=VALUE, each once")
        texts[name] = text
    feature_publish.publish(directory, _which(job), texts)
    remark(f"published {', '.join(texts)} in {directory}")


@app.command("announce-shutdown")
def announce_shutdown(
    directory: Folder,
    job: OfJob = False,
    shutdown: Annotated[
        int | None,
        typer.Option("--shutdown", metavar="UNIX", help="Time of the shutdown [the earliest that the grace allows]."),
    ] = None,
    at: At = None,
    no_jobs: Annotated[bool, typer.Option("--no-jobs", help="No job runs here: no grace was promised.")] = False,
    as_json: Json = False,
) -> None:
    """Announce a shutdown, no sooner than the promised grace."""
    now = int(time.time()) if at is None else at
    announcement = feature_publish.announce_shutdown(directory, _which(job), shutdown, now, jobs_run=not no_jobs)
    if as_json:
        print_json(dataclasses.asdict(announcement))
        return
    remark(f"{announcement.outcome}: {feature_publish.SHUTDOWN_KEYS[_which(job)][0]} {announcement.shutdown}")


@app.command()
def withdraw(directory: Folder, job: OfJob = False, as_json: Json = False) -> None:
    """Withdraw the announcement of a shutdown."""
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
    cloud: CloudMetadata = None,
    metadata_kept: MetadataFile = None,
    pilot: Annotated[str | None, typer.Option(help="Name of this pilot [host and job].")] = None,
    scratch_shared: Annotated[
        bool, typer.Option("--scratch-shared", help="The scratch limit is a whole disk that all jobs share.")
    ] = False,
    at: At = None,
    as_json: Json = False,
) -> None:
    """Report what this pilot reads; the agent `features` sums up the reports of a queue."""
    if not queue.strip() or len(queue) > MAX_NAME_CHARACTERS or "\0" in queue:
        raise WrongFeatureUsage("not a queue name", "--queue", f"give 1 to {MAX_NAME_CHARACTERS} characters")
    now = int(time.time()) if at is None else at
    bases = _bases(context, (machinefeatures, jobfeatures), cloud, metadata_kept)
    features = _features(bases, now, None)
    reporter = (pilot or reporter_name(features))[:MAX_NAME_CHARACTERS]
    to_keep = features_to_keep(queue, reporter, features, scratch_shared, now)
    with open_store(context) as database:
        kept = keep_features(database, to_keep)
    if as_json:
        print_json(kept)
    elif kept.kept:
        remark(f"{reporter} at {queue}: {len(to_keep.keys)} keys, {len(to_keep.problems)} problems")
    if not kept.kept:
        remark(f"{reporter} at {queue}: a newer report is there, this one was left out")


def _which(job: bool) -> Directory:
    return JOB if job else MACHINE


def reporter_name(features: Features) -> str:
    """The name under which this pilot reports: its host, and the job that the site knows it by."""
    return f"{os.uname().nodename}:{features.job_id or os.getppid()}"
