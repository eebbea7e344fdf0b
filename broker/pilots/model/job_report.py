"""What a pilot reports about its job, read from a form or from JSON: one table of fields for both.

Source: PanDA server, dispatcher (updateJob) and API of pilots (update_job): names, units, and where texts are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.pilots.model.codes import REPORTABLE
from broker.pilots.model.values import Reader, decimal, given, not_negative, optional, text, whole

MOST_OUTPUT_REPORT_CHARACTERS = 4_000_000
MOST_METADATA_CHARACTERS = 1_000_000
STDOUT_CHARACTERS = 2048
PILOT_LOG_CHARACTERS = 1024
_LARGEST_VOLUME_KB = 10**10 - 1
_SHORT_INTEGER, _INTEGER = 2**15 - 1, 2**31 - 1


class ReportRefused(ValueError):
    """A report that cannot be used at all; its text says why."""


def _up_to(most: int, reader: Reader = not_negative) -> Reader:
    def read(value: Any) -> int:
        number = int(reader(value))
        if not -most <= number <= most:
            raise ValueError("out of range")
        return number

    return read


def _positive_code(value: Any) -> int:
    """The absolute value: pilots report recoverable errors as negative codes."""
    return abs(int(_up_to(_INTEGER, whole)(value)))


def _volume_kb(value: Any) -> int:
    """Bytes in kB, at most ten digits."""
    return min(not_negative(value) // 1024, _LARGEST_VOLUME_KB)


def _conversion(value: Any) -> float:
    number = decimal(value)
    if abs(number) > 99_999:
        raise ValueError("out of range")
    return number


def _mean_cores(value: Any) -> float:
    number = decimal(value)
    if not 0 <= number <= 999_999:
        raise ValueError("out of range")
    return number


@dataclass(frozen=True)
class ReportField:
    """A field of a report: its name in a form, its argument in JSON, the column, and how it is read.

    ``json_reader``: where JSON has another unit than the form.
    """

    form: str
    argument: str
    column: str
    reader: Reader
    json_reader: Reader | None = None


FIELDS = (
    ReportField("node", "node", "modificationhost", text(128)),
    ReportField("schedulerID", "scheduler_id", "schedulerid", text(128)),
    ReportField("batchID", "batch_id", "batchid", text(80)),
    ReportField("pilotID", "pilot_id", "pilotid", text(200)),
    ReportField("coreCount", "core_count", "actualcorecount", _up_to(_INTEGER)),
    ReportField("meanCoreCount", "mean_core_count", "meancorecount", _mean_cores),
    ReportField("cpuConsumptionTime", "cpu_consumption_time", "cpuconsumptiontime", not_negative),
    ReportField("cpuConsumptionUnit", "cpu_consumption_unit", "cpuconsumptionunit", text(128)),
    ReportField("cpuConversionFactor", "cpu_conversion_factor", "cpuconversion", _conversion),
    ReportField("cpu_architecture_level", "cpu_architecture_level", "cpu_architecture_level", text(20)),
    *(
        ReportField(f"{kind}{what}", f"{kind}_{what.lower()}", f"{kind}{what.lower()}", not_negative)
        for kind in ("max", "avg")
        for what in ("RSS", "VMEM", "SWAP", "PSS")
    ),
    *(
        ReportField(f"tot{what}", f"tot_{what.lower()}", f"tot{what.lower()}", _volume_kb)
        for what in ("RCHAR", "WCHAR", "RBYTES", "WBYTES")
    ),
    *(
        ReportField(f"rate{what}", f"rate_{what.lower()}", f"rate{what.lower()}", not_negative, _volume_kb)
        for what in ("RCHAR", "WCHAR", "RBYTES", "WBYTES")
    ),
    ReportField("jobMetrics", "job_metrics", "jobmetrics", text(500)),
    ReportField("nEvents", "n_events", "nevents", not_negative),
    ReportField("jobSubStatus", "job_sub_status", "jobsubstatus", text(80)),
    ReportField("pilotTiming", "pilot_timing", "pilottiming", text(100)),
    ReportField("pilotErrorCode", "pilot_error_code", "piloterrorcode", _positive_code),
    ReportField("pilotErrorDiag", "pilot_error_diag", "piloterrordiag", text(500)),
    ReportField("transExitCode", "trans_exit_code", "transexitcode", text(128)),
    ReportField("exeErrorCode", "exe_error_code", "exeerrorcode", _up_to(_INTEGER, whole)),
    ReportField("exeErrorDiag", "exe_error_diag", "exeerrordiag", text(500)),
    ReportField("grid", "grid", "grid", text(50)),
    ReportField("sourceSite", "source_site", "sourcesite", text(36)),
    ReportField("destinationSite", "destination_site", "destinationsite", text(36)),
)
"""What becomes a column of the job."""

_LEAK = re.compile(r"(?:^|\s)leak=(-?[0-9.]+)")
_LEAK_X2 = re.compile(r"(?:^|\s)chi2=(-?[0-9.]+)")


@dataclass(frozen=True)
class JobReport:
    """One report of a job.

    Attributes:
        pandaid: the job.
        state: state that its pilot reports.
        attemptnr: attempt of the job, as its pilot knows it; None: not reported.
        queue: where the pilot runs.
        columns: new values by column of the job.
        output_report: what became of the files, as the pilot wrote it; empty: none.
        metadata: metadata of the job; empty: none.
        stdout: the end of its output, in debug mode.
        pilot_log: the end of the pilot's log.
        dropped: fields that could not be read.
    """

    pandaid: int
    state: str
    attemptnr: int | None = None
    queue: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    output_report: str = ""
    metadata: str = ""
    stdout: str = ""
    pilot_log: str = ""
    dropped: tuple[str, ...] = ()


def read_form(form: Mapping[str, Any]) -> JobReport:
    """The report in the fields of ``updateJob``.

    Raises:
        ReportRefused: ``jobId`` or ``state`` is missing, or ``jobId`` is no number.
    """
    pandaid = optional(form.get("jobId"), not_negative)
    state = optional(form.get("state"), text(15))
    if pandaid is None or state is None:
        raise ReportRefused(f"{'jobId' if pandaid is None else 'state'} is missing or no value")
    columns, dropped = _columns(form, in_form=True)
    return JobReport(
        pandaid,
        state,
        optional(form.get("attemptNr"), _up_to(_SHORT_INTEGER, whole)),
        optional(form.get("siteName"), text(128)),
        columns,
        _long(form.get("xml"), MOST_OUTPUT_REPORT_CHARACTERS),
        _long(form.get("metaData"), MOST_METADATA_CHARACTERS),
        _long(form.get("stdout"), STDOUT_CHARACTERS, last=True),
        _long(form.get("pilotLog"), PILOT_LOG_CHARACTERS),
        dropped,
    )


def read_arguments(values: Mapping[str, Any]) -> JobReport:
    """The report in the arguments of ``update_job``, whose types were checked."""
    columns, dropped = _columns(values, in_form=False)
    return JobReport(
        int(values["job_id"]),
        text(15)(values["job_status"]),
        optional(values.get("attempt_nr"), _up_to(_SHORT_INTEGER, whole)),
        optional(values.get("site_name"), text(128)),
        columns,
        _long(values.get("job_output_report"), MOST_OUTPUT_REPORT_CHARACTERS),
        _long(values.get("meta_data"), MOST_METADATA_CHARACTERS),
        _long(values.get("stdout"), STDOUT_CHARACTERS, last=True),
        _long(values.get("pilot_log"), PILOT_LOG_CHARACTERS),
        dropped,
    )


def is_known(state: str) -> bool:
    """Whether pilots may report a state."""
    return state in REPORTABLE


def _columns(values: Mapping[str, Any], *, in_form: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    columns: dict[str, Any] = {}
    dropped = []
    for one in FIELDS:
        name = one.form if in_form else one.argument
        value = given(values.get(name))
        if value is None:
            continue
        try:
            columns[one.column] = (one.reader if in_form else one.json_reader or one.reader)(value)
        except ValueError:
            dropped.append(name)
    return {**columns, **dict(_leaks(columns.get("jobmetrics", "")))}, tuple(dropped)


def _leaks(metrics: str) -> Iterator[tuple[str, Any]]:
    """The memory leak (kB/s) and its chi-square, which job metrics carry."""
    for column, pattern, reader in (("memory_leak", _LEAK, whole), ("memory_leak_x2", _LEAK_X2, _conversion)):
        match = pattern.search(metrics)
        value = None if match is None else optional(match[1], reader)
        if value is not None:
            yield column, value


def _long(value: Any, most: int, *, last: bool = False) -> str:
    """The first or the last characters of a text, at most ``most``; empty where there is none."""
    if given(value) is None:
        return ""
    plain = text(len(str(value)))(value) if not isinstance(value, dict | list | bool) else ""
    return plain[-most:] if last else plain[:most]
