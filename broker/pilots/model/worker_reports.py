"""What Harvester and pilots report of workers and nodes, checked. Source: PanDA server, API v1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from broker.domain.instants import naive
from broker.pilots.model.values import Reader, decimal, given, not_negative, text, whole

MOST_WORKERS = 10_000
"""Most workers of one report."""
_INTEGER = 2**31 - 1
_TIME_FORMATS = ("%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S", "%d-%b-%y %H:%M:%S")


class WorkerRefused(ValueError):
    """A report of a worker or node that cannot be used; its text says why."""


def moment(value: Any) -> datetime:
    """A time as naive UTC: ISO 8601, or as PanDA's databases write it.

    Raises:
        ValueError: it is no time.
    """
    if not isinstance(value, str) or len(value) > 40:
        raise ValueError("no time")
    plain = value.removeprefix("datetime/").strip()
    for form in _TIME_FORMATS:
        try:
            return datetime.strptime(plain, form)  # noqa: DTZ007 - times of these forms are UTC
        except ValueError:
            continue
    return naive(datetime.fromisoformat(plain))


def _integer(value: Any) -> int:
    number = int(whole(value))
    if abs(number) > _INTEGER:
        raise ValueError("out of range")
    return number


#: Keys of a worker and their columns.
WORKER_FIELDS: Mapping[str, tuple[str, Reader]] = {
    "batchID": ("batchid", text(80)),
    "nodeID": ("nodeid", text(80)),
    "queueName": ("queuename", text(80)),
    "status": ("status", text(80)),
    "computingSite": ("computingsite", text(128)),
    "computingElement": ("computingelement", text(128)),
    "nCore": ("ncore", _integer),
    "nJobs": ("njobs", _integer),
    "submitTime": ("submittime", moment),
    "startTime": ("starttime", moment),
    "endTime": ("endtime", moment),
    "resourceType": ("resourcetype", text(56)),
    "jobType": ("jobtype", text(10)),
    "minRamCount": ("minramcount", not_negative),
    "errorCode": ("errorcode", _integer),
    "diagMessage": ("diagmessage", text(500)),
    "nativeStatus": ("nativestatus", text(80)),
    "nativeExitCode": ("nativeexitcode", _integer),
}


@dataclass(frozen=True)
class WorkerReport:
    """A worker as Harvester knows it: its number and columns; None in a column is its value."""

    worker: int
    columns: Mapping[str, Any]


def read_worker(values: Any) -> WorkerReport:
    """One element of ``workers``.

    Raises:
        WorkerRefused: it is no object, without a number, or a value cannot be read.
    """
    if not isinstance(values, dict):
        raise WorkerRefused("a worker is an object")
    try:
        number = not_negative(values.get("workerID"))
    except ValueError as error:
        raise WorkerRefused("workerID is missing or no number") from error
    columns = {}
    for key, (column, reader) in WORKER_FIELDS.items():
        if key not in values:
            continue
        try:
            columns[column] = None if given(values[key]) is None else reader(values[key])
        except ValueError as error:
            raise WorkerRefused(f"{key}: {error}") from error
    return WorkerReport(number, columns)


@dataclass(frozen=True)
class NodeReport:
    """A row about a node: the columns of its key, and the other columns."""

    key: Mapping[str, str]
    columns: Mapping[str, Any]
    queue: str | None = None


def read_node(values: Mapping[str, Any]) -> NodeReport:
    """The arguments of ``update_worker_node``, whose types were checked.

    Raises:
        WorkerRefused: a name of the key is empty, or a number cannot be kept.
    """
    key = {**_host(values), "cpu_model": _named(values, "cpu_model")}
    columns = {
        **_read(values, _integer, "n_logical_cpus", "n_sockets", "cores_per_socket", "threads_per_core"),
        **_read(values, text(20), "cpu_architecture", "cpu_architecture_level"),
        **_read(values, _clock_mhz, "clock_speed"),
        **_read(values, not_negative, "total_memory", "total_local_disk"),
        "cpu_model_normalized": normalized_cpu_model(key["cpu_model"]),
    }
    queue = given(values.get("panda_queue"))
    return NodeReport(key, columns, None if queue is None else text(128)(queue))


def read_gpus(values: Mapping[str, Any]) -> NodeReport:
    """The arguments of ``update_worker_node_gpu``, whose types were checked.

    Raises:
        WorkerRefused: a name of the key is empty, or a number cannot be kept.
    """
    key = {**_host(values), "vendor": _named(values, "vendor"), "model": _named(values, "model")}
    columns = {
        **_read(values, _integer, "count"),
        **_read(values, not_negative, "vram"),
        **_read(values, text(128), "architecture", "framework"),
        **_read(values, text(20), "framework_version", "driver_version"),
    }
    return NodeReport(key, columns)


def normalized_cpu_model(model: str) -> str:
    """A CPU model without marks, clock speed and size of the cache, so that the same models are equal."""
    words = model.replace("(R)", " ").replace("(TM)", " ").replace("@", " ").split()
    model_words = [word for word in words if not word.upper().endswith(("GHZ", "KB", "MHZ")) and word.upper() != "CPU"]
    return " ".join(model_words)[:128]


def _host(values: Mapping[str, Any]) -> dict[str, str]:
    """Site and host; a slot before the host (``slot1@host``) is omitted."""
    host = _named(values, "host_name").rpartition("@")[2]
    if not host:
        raise WorkerRefused("host_name is empty")
    return {"site": _named(values, "site"), "host_name": host}


def _named(values: Mapping[str, Any], name: str) -> str:
    stripped = str(text(128)(values[name])).strip()
    if not stripped:
        raise WorkerRefused(f"{name} is empty")
    return stripped


def _clock_mhz(value: Any) -> float:
    number = decimal(value)
    if not 0 <= number <= 9_999_999:
        raise ValueError("out of range")
    return number


def _read(values: Mapping[str, Any], reader: Reader, *names: str) -> dict[str, Any]:
    columns = {}
    for name in names:
        value = given(values.get(name))
        try:
            columns[name] = None if value is None else reader(value)
        except ValueError as error:
            raise WorkerRefused(f"{name}: {error}") from error
    return columns
