"""``broker sss``: jobs as SSS Job Objects, in and out."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from broker.cli.context import open_store
from broker.cli.output import escaped, print_json, print_table, remark
from broker.errors import WRONG_USAGE, BrokerError, Refused
from broker.formats.model.sss import inheritance, job_columns, paths, task_columns
from broker.formats.model.sss.description import COLUMN_UNITS, describe
from broker.formats.model.sss.exported import Naming
from broker.formats.model.sss.job_columns import MappingRules
from broker.formats.model.sss.model import Document
from broker.formats.model.sss.paths import BadPathError
from broker.formats.model.sss.reading import document_of, read_document
from broker.formats.model.sss.writing import write_element
from broker.formats.model.sss.xml_reading import MAX_BYTES, BadDocumentError, read_xml
from broker.formats.statements import sss_exchange

app = typer.Typer(no_args_is_help=True)

XmlFile = Annotated[Path, typer.Argument(metavar="FILE", help="XML; - for standard input.")]
Json = Annotated[bool, typer.Option("--json", help="One object on stdout.")]
Shares = Annotated[
    list[str] | None,
    typer.Option("--share", metavar="QOS=SHARE", help="Local share of a QualityOfService; may be repeated."),
]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queue-name", metavar="NAME=QUEUE", help="Local name of a Queue; may be repeated."),
]


class InvalidDocument(Refused):
    """The document is not a valid job object; each problem was reported."""


class WrongSssUsage(BrokerError):
    """The arguments cannot be used."""

    exit_status = WRONG_USAGE


def read_bytes(file: Path) -> bytes:
    """The content of a file, or of standard input for ``-``; at most one byte more than a document may have.

    Raises:
        BrokerError: it cannot be read.
    """
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise BrokerError(f"cannot read: {error.strerror}", str(file), "name a file that is there") from error


def load_document(file: Path, data: bytes | None = None) -> Document:
    """The document in a file, or in ``data`` that was read from it.

    Raises:
        InvalidDocument: it is not valid; each problem is reported on stderr.
    """
    try:
        document = read_document(read_bytes(file) if data is None else data)
    except BadDocumentError as error:
        for problem in error.problems:
            remark(problem.reported(str(file)))
        raise InvalidDocument(error.kind, str(file), f"{len(error.problems)} problem(s) above") from error
    for warning in document.warnings:
        remark(f"warning: {warning}")
    return document


def mapping_rules(shares: list[str] | None, queues: list[str] | None) -> MappingRules:
    """The tables of names from options of the form ``A=B``.

    Raises:
        WrongSssUsage: one is not of that form.
    """
    return MappingRules(_pairs("--share", shares), _pairs("--queue-name", queues))


def _pairs(option: str, words: list[str] | None) -> dict[str, str]:
    pairs = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise WrongSssUsage(f"not usable: {word[:80]}", option, "write NAME=VALUE")
        pairs[name] = value
    return pairs


@app.command()
def validate(file: XmlFile, as_json: Json = False) -> None:
    """Validate a job object; show each problem as FILE:LINE: what was expected."""
    try:
        document = read_document(read_bytes(file))
    except BadDocumentError as error:
        if as_json:
            print_json(_message(file, error))
        else:
            for problem in error.problems:
                typer.echo(escaped(problem.reported(str(file))))
        raise typer.Exit(1) from error
    if as_json:
        output: dict[str, Any] = {"file": str(file), "kind": "valid", "line": None, "column": None, "problems": []}
        print_json({**output, "warnings": list(document.warnings)})
        return
    for warning in document.warnings:
        remark(f"warning: {warning}")
    remark(f"{file}: valid, {len(document.jobs)} job(s)")


def _message(file: Path, error: BadDocumentError) -> dict[str, Any]:
    first = error.problems[0]
    return {
        "file": str(file),
        "kind": error.kind,
        "detail": str(first),
        "line": first.line,
        "column": first.column,
        "problems": [str(problem) for problem in error.problems],
        "findings": [
            {"line": problem.line, "element": problem.element, "found": problem.found, "expected": problem.expected}
            for problem in error.problems
        ],
        "warnings": [],
    }


@app.command()
def show(
    file: XmlFile,
    get: Annotated[
        str | None,
        typer.Option("--get", metavar="PATH", help="Only these properties, such as /Job/Requested/Memory/@units."),
    ] = None,
    share: Shares = None,
    queue_name: Queues = None,
    as_json: Json = False,
) -> None:
    """Show a document with all that jobs inherit, and their values in PanDA's columns."""
    data = read_bytes(file)
    document = load_document(file, data)
    if get is not None:
        _show_path(data, get, as_json)
        return
    output = describe(document, mapping_rules(share, queue_name))
    if as_json:
        print_json(output)
        return
    if "group" in output:
        _show_level(output["group"], "Job group", [output["group"]["panda_task"]])
    for job in output["jobs"]:
        _show_level(job, f"Job {job['JobId']}", job.get("panda_jobs") or [job["panda_job"]])


def _show_level(output: dict[str, Any], title: str, rows: list[dict[str, Any] | None]) -> None:
    """Show every value with its unit, the columns that it becomes, and what was decided on the way."""
    print_table(
        ("value of", "is", "unit", "attributes"), [tuple(one.values()) for one in output["values"]], title=title
    )
    for columns in rows:
        known = columns or {"refused": output.get("refused")}
        print_table(("column", "value", "unit"), [(name, known[name], COLUMN_UNITS.get(name, "")) for name in known])
    sections = [
        ("inherited", "inherited"),
        ("unmapped", "has no column, kept"),
        ("alternatives", "may also be run"),
        ("notes", "note"),
    ]
    remarks = [(words, one) for name, words in sections for one in output.get(name) or ()]
    if remarks:
        print_table(("about it", "what"), remarks)


def _show_path(data: bytes, path: str, as_json: bool) -> None:
    try:
        texts = paths.get(read_xml(data), path)
    except BadPathError as error:
        raise WrongSssUsage(str(error), f"--get {path[:80]}", "write names, such as /Job/Requested/Memory") from error
    if as_json:
        print_json({"get": path, "values": texts})
        return
    for text in texts:
        typer.echo(escaped(text))


@app.command("import")
def import_file(
    context: typer.Context,
    file: XmlFile,
    share: Shares = None,
    queue_name: Queues = None,
    same_instance: Annotated[
        bool, typer.Option("--same-instance", help="Our own export: jobs keep the ids that they name.")
    ] = False,
    at: Annotated[int | None, typer.Option("--at", metavar="UNIX", help="Time of the import [now].")] = None,
    as_json: Json = False,
) -> None:
    """Import the jobs of a document, and its group as a task, into PanDA's tables; show what has no place there."""
    document = load_document(file)
    rules = mapping_rules(share, queue_name)
    wholes = inheritance.whole_jobs(document)
    mapped = [job_columns.map_job(one, rules) for one in wholes]
    task = task_columns.map_task(document, mapped, rules)
    with open_store(context) as database:
        imported = sss_exchange.import_document(
            database,
            task,
            list(zip(wholes, mapped, strict=True)),
            instant(at),
            group=document.group,
            same_instance=same_instance,
        )
    if as_json:
        for job in imported.jobs:
            print_json(
                {
                    "jeditaskid": imported.jeditaskid,
                    "pandaid": job.pandaid,
                    "JobId": job.job_id,
                    "table": job.table,
                    "unmapped": list(job.unmapped),
                    "notes": list(job.notes),
                }
            )
        return
    rows = [(job.job_id, job.pandaid, job.table, ", ".join(job.unmapped)) for job in imported.jobs]
    print_table(("JobId", "pandaid", "table", "kept beside it"), rows)
    if imported.jeditaskid is not None:
        remark(f"task {imported.jeditaskid}; kept beside it: {', '.join(imported.unmapped) or 'nothing'}")


def instant(at: int | None) -> datetime:
    """A time given in UNIX seconds; now if none is given."""
    return datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)


@app.command()
def export(
    context: typer.Context,
    job: Annotated[int | None, typer.Option("--job", metavar="PANDAID")] = None,
    task: Annotated[int | None, typer.Option("--task", metavar="JEDITASKID")] = None,
    instance: Annotated[str, typer.Option(help="Name of this installation, for GlobalJobId.")] = "",
    original_ids: Annotated[
        bool,
        typer.Option("--original-ids", help="Keep names and states as imported, for the system of origin."),
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Write here [stdout].")] = None,
    as_json: Json = False,
) -> None:
    """Export a job, or a task with its jobs, as an SSS Job Object."""
    if (job is None) == (task is None):
        raise WrongSssUsage("one of the two is needed", "--job or --task", "name one job or one task")
    naming = Naming(instance, original_ids)
    with open_store(context) as database:
        try:
            element = (
                sss_exchange.export_job(database, job, naming)
                if job is not None
                else sss_exchange.export_task(database, task or 0, naming)
            )
            document = document_of(element)
        except BadDocumentError as error:
            raise Refused(
                f"the row is no valid job object: {error}", f"job {job} task {task}", "fix the row"
            ) from error
    if as_json:
        print_json(describe(document))
        return
    data = write_element(element)
    if output is None:
        sys.stdout.write(data.decode("utf-8"))
        return
    try:
        output.write_bytes(data)
    except OSError as error:
        raise BrokerError(f"cannot write: {error.strerror}", str(output), "choose another file") from error
