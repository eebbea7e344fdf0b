"""How jobs with a final report end, and when a task has ended.

Source: PanDA server, adder of output; PanDA JEDI, ends of tasks: done when all of the input was processed, finished
when some of it was, failed when none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from broker.pilots.model.output_report import BadOutputReport, WrittenFile, read_output_report

FileStatus = Literal["finished", "failed", "nooutput"]
TaskStatus = Literal["done", "finished", "failed"]

OUTPUT_MISSING = 200
"""ddmerrorcode of a job whose report of its output does not fit its files."""


@dataclass(frozen=True)
class OutputFile:
    """A file that a job was to write: its name, output or log, and whether the job may do without."""

    lfn: str
    type: str
    may_be_missing: bool = False


@dataclass(frozen=True)
class FinalReport:
    """The final report of a job: the state that its pilot reported, the report of its output, and its errors."""

    state: str
    output_report: str
    pilot_error: int = 0
    exe_error: int = 0
    exit_code: str | None = None


@dataclass(frozen=True)
class FileEnd:
    """What becomes of a file."""

    lfn: str
    status: FileStatus
    written: WrittenFile | None = None


@dataclass(frozen=True)
class JobEnd:
    """How a job ends.

    Attributes:
        status: finished or failed.
        reason: ``reported``, or why a job that was reported finished failed.
        code: the most telling error code; 0 for none.
        files: ends of its output and log files.
        ddm_error: OUTPUT_MISSING, or 0.
        ddm_diag: what is wrong with the report of the output.
    """

    status: Literal["finished", "failed"]
    reason: str
    code: int
    files: tuple[FileEnd, ...]
    ddm_error: int = 0
    ddm_diag: str = ""


def job_end(report: FinalReport, files: Sequence[OutputFile]) -> JobEnd:
    """How a job ends: finished only if its pilot reports so and every file that it was to write is reported."""
    try:
        written, fault = read_output_report(report.output_report), ""
    except BadOutputReport as bad:
        written, fault = {}, bad.code
    missing = sorted(one.lfn for one in files if one.lfn not in written and not one.may_be_missing)
    if report.state == "finished" and (not fault or not files) and not missing:
        return JobEnd("finished", "reported", 0, tuple(_ends(files, written, is_failed=False)))
    ends = tuple(_ends(files, written, is_failed=True))
    if report.state == "failed":
        return JobEnd("failed", "reported", _code(report), ends)
    diag = f"report of the output: {fault}" if fault else f"not in the report of the output: {', '.join(missing)}"
    reason = "bad_output_report" if fault else "output_missing"
    return JobEnd("failed", reason, OUTPUT_MISSING, ends, OUTPUT_MISSING, diag[:500])


def _ends(files: Sequence[OutputFile], written: Mapping[str, WrittenFile], *, is_failed: bool) -> Iterator[FileEnd]:
    """Of a failed job only the log is kept."""
    for one in files:
        written_file = written.get(one.lfn)
        if is_failed and (one.type != "log" or written_file is None):
            yield FileEnd(one.lfn, "failed", written_file)
        else:
            yield FileEnd(one.lfn, "nooutput" if written_file is None else "finished", written_file)


def _code(report: FinalReport) -> int:
    exit_code = report.exit_code or ""
    number = int(exit_code) if exit_code.lstrip("-").isdigit() and len(exit_code) < 10 else 0
    return report.pilot_error or report.exe_error or number


def task_end(to_be_used: int, finished: int, failed: int) -> TaskStatus | None:
    """The status of a task whose input was used up; None while some of it is left, or there is none.

    Args:
        to_be_used: files of its primary input.
        finished: finished files of these.
        failed: failed files of these, without an attempt left.
    """
    if to_be_used <= 0 or finished + failed < to_be_used:
        return None
    if finished >= to_be_used:
        return "done"
    return "finished" if finished else "failed"


def stopped_end(status: str, to_be_used: int, finished: int) -> str:
    """The final status of a task that somebody killed (``aborting``) or finished by hand (``finishing``).

    >>> [stopped_end("finishing", 10, finished) for finished in (0, 1, 10)], stopped_end("aborting", 10, 10)
    (['failed', 'finished', 'done'], 'aborted')
    """
    if status == "aborting":
        return "aborted"
    if not finished:
        return "failed"
    return "done" if finished >= to_be_used else "finished"
