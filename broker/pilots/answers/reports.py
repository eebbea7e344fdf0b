"""What pilots report: features of machines, and status of jobs, from texts of keys as files hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from broker.formats.model import job_status as status_format, machine_job_features
from broker.formats.model.feature_keys import JOB, MACHINE
from broker.formats.model.feature_summary import Report
from broker.formats.model.job_status import JobStatus
from broker.formats.model.machine_job_features import Features
from broker.formats.statements import feature_rows, status_reports
from broker.store.connection.database import Database


class Kept(BaseModel):
    """Whether a report was stored; false if a newer one exists. ``problems``: keys that could not be read."""

    kept: bool
    problems: list[str] = Field(default_factory=list)


@dataclass(frozen=True)
class FeaturesToKeep:
    """A report with the keys that it was made from."""

    report: Report
    keys: Mapping[str, Any]
    problems: tuple[str, ...]
    jobstart_s: int | None


def feature_report(
    queue: str,
    reporter: str,
    texts: tuple[Mapping[str, str], Mapping[str, str]],
    scratch_shared: bool,
    now: datetime,
) -> FeaturesToKeep:
    """What a pilot reports of its machine and job.

    Args:
        queue: queue that it runs at.
        reporter: its name.
        texts: texts of the keys in ``$MACHINEFEATURES`` and in ``$JOBFEATURES``.
        scratch_shared: the scratch limit is a whole disk that all jobs share.
        now: the time of the report (aware).
    """
    machine, job = ({name: text.encode() for name, text in keys.items()} for keys in texts)
    features = machine_job_features.parse(machine, job)
    now_s = int(now.timestamp())
    return features_to_keep(queue, reporter, features, scratch_shared, now_s)


def features_to_keep(queue: str, reporter: str, features: Features, scratch_shared: bool, now_s: int) -> FeaturesToKeep:
    """The report of a pilot that read these features at ``now_s`` (Unix time); else as :func:`feature_report`."""
    derived = machine_job_features.derive(features, now_s)
    report = Report(
        queue=queue,
        reporter=reporter,
        reported_s=now_s,
        cores=derived.cores,
        corepower=derived.corepower,
        wall_limit_s=derived.wall_limit_s,
        max_rss_bytes=features.max_rss_bytes,
        scratch_limit_bytes=features.scratch_limit_bytes,
        scratch_is_shared=scratch_shared,
        total_cpu=features.total_cpu,
        shutdown_s=machine_job_features.announced(features, now_s),
    )
    keys = {**features.known(MACHINE), **features.known(JOB)}
    return FeaturesToKeep(report, keys, tuple(derived.problems), features.jobstart_secs)


def keep_features(database: Database, one: FeaturesToKeep) -> Kept:
    """Keep a report, unless a newer one of the same pilot is there."""
    with database.begin() as connection:
        is_stored = feature_rows.save_report(connection, one.report, one.keys, one.problems, one.jobstart_s)
    return Kept(kept=is_stored, problems=list(one.problems))


def job_status(texts: Mapping[str, str]) -> JobStatus:
    """The status that a job reports, from the texts of the keys of its record."""
    return status_format.parse({name: text.encode() for name, text in texts.items()})


def keep_status(database: Database, pandaid: int, status: JobStatus, allocated_cpu: int | None, now: datetime) -> Kept:
    """Keep the record of a job, unless a newer one is there."""
    with database.begin() as connection:
        is_stored = status_reports.save(connection, pandaid, status, allocated_cpu, now)
    return Kept(kept=is_stored, problems=list(status.flags))


def queue_of_job(database: Database, pandaid: int) -> str | None:
    """The queue of a job that is not ended; None when there is no such job."""
    with database.begin() as connection:
        return status_reports.queue_of(connection, database.names, pandaid)
