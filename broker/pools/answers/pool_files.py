"""Files about SubmitPools: jobs with requirements, resources, and the declarations that ship with the broker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from broker import resources as shipped
from broker.errors import WRONG_USAGE, BrokerError
from broker.matching.specs.spec import JobSpecs
from broker.pools.model.cfg import RESOURCE_LIMITS
from broker.pools.model.declarations import Declarations
from broker.pools.model.description import LARGEST_BYTES, RequirementRefused
from broker.pools.model.job_specs import specs_of_description
from broker.pools.model.job_text import JobText, kind_of, read_job
from broker.pools.model.requirement import SubmitPool, vo_name
from broker.pools.model.resource_text import (
    ResourceFile,
    WrongResources,
    job_description_of,
    read_resources,
    unusable_numbers,
)
from broker.pools.model.resources import Resources
from broker.pools.model.tables import yaml_tables

DECLARATIONS = "config/pools.yaml"


class RefusedInput(BrokerError):
    """The file is not understood; the message names the fault and its place."""

    exit_status = WRONG_USAGE


@dataclass(frozen=True)
class ReadResources:
    """Resources from a file, their declarations, and warnings for the operator."""

    resources: Resources | None
    declarations: Declarations
    warnings: tuple[str, ...] = ()


def read_job_file(file: Path) -> JobText:
    """The job in a file; its suffix gives the kind, else its content does.

    Raises:
        RefusedInput: it cannot be read or understood.
    """
    text = text_of(file, LARGEST_BYTES)
    try:
        return read_job(text, kind_of(text, file.suffix))
    except RequirementRefused as refused:
        raise refused_in(file, refused) from refused


def pool_in(file: Path, job: JobText, vo: str, declarations: Declarations) -> SubmitPool | None:
    """The pool that the job's requirements define.

    Raises:
        RefusedInput: its requirements have no meaning.
    """
    try:
        return job.pool(vo, declarations)
    except RequirementRefused as refused:
        raise refused_in(file, refused) from refused


def specs_in(file: Path, job: JobText, vo: str) -> JobSpecs | None:
    """What the job requires of a node; None: nothing.

    Raises:
        RefusedInput: the requirements have no meaning.
    """
    try:
        return specs_of_description(job.description, vo_name(vo))
    except RequirementRefused as refused:
        raise refused_in(file, refused) from refused


def refused_in(file: Path, refused: RequirementRefused) -> RefusedInput:
    """The error that the command line shows for a refused requirement in a file."""
    where = [str(file), refused.name, None if refused.place is None else str(refused.place)]
    return RefusedInput(f"{refused.code}: {refused.detail}", ", ".join(part for part in where if part), "correct it")


def read_resource_file(file: Path | None) -> ReadResources:
    """The resources in a file with its declarations, else those that ship with the broker.

    Raises:
        RefusedInput: it cannot be read or understood.
    """
    if file is None:
        return ReadResources(None, shipped_declarations())
    text = text_of(file, RESOURCE_LIMITS.largest_bytes)
    try:
        content = read_resources(text, file.suffix)
    except RequirementRefused as refused:
        raise refused_in(file, refused) from refused
    except WrongResources as error:
        raise RefusedInput(str(error), str(file), "correct it") from error
    declarations = content.declarations or shipped_declarations()
    return ReadResources(content.resources, declarations, _warnings(content, declarations))


def shipped_declarations() -> Declarations:
    """The declarations of ``config/pools.yaml``."""
    text = shipped.path(DECLARATIONS).read_text(encoding="utf-8")
    return job_description_of(yaml_tables(text)["JobDescription"])


def _warnings(content: ResourceFile, declarations: Declarations) -> tuple[str, ...]:
    findings = (*content.findings, *unusable_numbers(content.resources, declarations.numbers))
    empty = () if content.resources.queues else ("there is no queue in them",)
    return tuple(f"resources: {finding}" for finding in (*findings, *empty))


def text_of(file: Path, largest_bytes: int) -> str:
    """The text of a file.

    Raises:
        RefusedInput: it cannot be read, is too large, or is not UTF-8.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(largest_bytes + 1)
    except OSError as error:
        raise RefusedInput(f"cannot read: {error.strerror}", str(file), "name a file that is there") from error
    if len(data) > largest_bytes:
        raise RefusedInput(f"text-too-large: more than {largest_bytes:,} bytes", str(file), "make it smaller")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = data.count(b"\n", 0, error.start) + 1, error.start - data.rfind(b"\n", 0, error.start)
        where = f"{file}, line {line}, column {column}"
        raise RefusedInput("not-utf-8: a byte that is no text", where, "write it in UTF-8") from error
