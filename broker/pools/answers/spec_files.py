"""Jobs and nodes in files, in the language ``matchspec/1``, and verdicts on them as documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.matching.specs.documents import LARGEST_BYTES, DocumentUnreadable, read_json, read_yaml
from broker.matching.specs.job_reading import read_job
from broker.matching.specs.judge import Miss, Verdict
from broker.matching.specs.node import Node
from broker.matching.specs.node_reading import read_node
from broker.matching.specs.problems import SpecRefused
from broker.matching.specs.spec import JobSpecs, Profile
from broker.pools.answers.pool_files import RefusedInput, read_job_file, refused_in, text_of
from broker.pools.model.description import RequirementRefused
from broker.pools.model.job_specs import KEYWORDS, specs_of_description


def read_document(file: Path) -> Any:
    """The document in a YAML or JSON file, by its suffix.

    Raises:
        RefusedInput: it cannot be read.
    """
    text = text_of(file, LARGEST_BYTES)
    try:
        return read_json(text) if file.suffix.lower() == ".json" else read_yaml(text)
    except DocumentUnreadable as error:
        raise RefusedInput(str(error), str(file), "correct it") from error


def read_job_specs(file: Path, profile: Profile, vo: str = "") -> JobSpecs:
    """The specs of the job in a file.

    Raises:
        RefusedInput: with the field and the value.
    """
    if file.suffix.lower() in (".jdl", ".cfg"):
        return _specs_of_description(file, profile, vo)
    try:
        return read_job(read_document(file), profile, vo)
    except SpecRefused as refused:
        raise spec_refused_in(file, refused) from refused


def _specs_of_description(file: Path, profile: Profile, vo: str) -> JobSpecs:
    job = read_job_file(file)
    try:
        specs = specs_of_description(job.description, vo, profile)
    except RequirementRefused as refused:
        raise refused_in(file, refused) from refused
    if specs is None:
        raise RefusedInput("it asks nothing of a node", str(file), f"write one of {', '.join(KEYWORDS)}")
    return specs


def read_node_file(file: Path, profile: Profile) -> Node:
    """The node in a file.

    Raises:
        RefusedInput: with the field and the value.
    """
    try:
        return read_node(read_document(file), profile)
    except SpecRefused as refused:
        raise spec_refused_in(file, refused) from refused


def spec_refused_in(file: Path, refused: SpecRefused) -> RefusedInput:
    """The error that the command line shows for one wrong field of a file, or for several."""
    if refused.more:
        return RefusedInput(str(refused), str(file), "correct them")
    return RefusedInput(refused.what, f"{file}, {refused.field or 'the document'}", "correct it")


def verdict_document(verdict: Verdict, profile: Profile) -> dict[str, Any]:
    """A verdict as a JSON document: whether the node fits, by which spec, and what each spec misses."""
    missed = [
        {"spec": place, **miss_document(miss, profile)}
        for place, misses in enumerate(verdict.missed)
        for miss in misses
    ]
    return {"match": verdict.fits, "spec": verdict.spec, "missed": missed}


def miss_document(miss: Miss, profile: Profile) -> dict[str, Any]:
    """A failed condition as a JSON document; the field is spelled as in the profile."""
    field = miss.field if profile.v01 else miss.field.replace("-", "_")
    return {"field": field, "kind": miss.kind, "asked": miss.request, "offered": miss.offered}
