"""Read a file of sites, and report all its faults at once, each with line, field, value and what to write."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from broker.errors import Refused, did_you_mean
from broker.feeds.model.sites_file.checks import Fault, cross_checks
from broker.feeds.model.sites_file.declared import NAME_RULE, Grid
from broker.feeds.model.sites_file.lines import Lines, repeated_keys, too_large
from broker.wrong_values import value_is_wrong
from broker.yaml_text import compose_yaml, read_yaml

Place = tuple[str | int, ...]
_LONGEST_VALUE = 60


@dataclass(frozen=True)
class Problem:
    """One fault in the file.

    Attributes:
        line: of the file, from 1.
        field: its place, such as ``sites.ALPHA.queues.ALPHA_CE.cores``; empty for the file itself.
        value: found there; empty if there is none.
        what: the finding.
        remedy: what to write.
    """

    line: int
    field: str
    value: str
    what: str
    remedy: str

    @property
    def sentence(self) -> str:
        """The problem in one line."""
        about = f"{self.field}: " if self.field else ""
        return f"line {self.line}: {about}{self.what}; {self.remedy}"


class SitesRefused(Refused):
    """The file of sites has errors; none of it counts."""

    def __init__(self, problems: list[Problem], where: str) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        about = f"{first.field}: " if first.field else ""
        super().__init__(f"line {first.line}: {about}{first.what}{more}", where, first.remedy)
        self.problems = tuple(problems)


def read_sites(data: bytes, where: str) -> Grid:
    """Return the grid that a file declares.

    Args:
        data: its content.
        where: its name, for messages.

    Raises:
        SitesRefused: the file has faults; the error lists all of them.
    """
    try:
        text = data.decode("utf-8-sig")
        root = compose_yaml(text)
        # before values are built: a few lines of references may expand to more than memory holds
        if too_large(root):
            raise SitesRefused([Problem(1, "", "", "it holds too much", "leave out references (&, *)")], where)
        content = read_yaml(text)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SitesRefused([Problem(line, "", "", "no UTF-8", "save the file as UTF-8")], where) from error
    except yaml.YAMLError as error:
        raise SitesRefused([_no_yaml(error)], where) from error
    except (ValueError, RecursionError) as error:
        raise SitesRefused([Problem(1, "", "", f"no YAML: {error}", "correct it")], where) from error
    if not isinstance(content, dict):
        remedy = "write sites: and below it the names of your sites; config/sites.yaml is an example"
        raise SitesRefused([Problem(1, "", "", "it holds no mapping", remedy)], where)
    grid, faults = _validated(content)
    faults += [*repeated_keys(root), *cross_checks(content)]
    if faults or grid is None:
        lines = Lines(root)
        problems = [_problem(lines, fault) for fault in faults]
        raise SitesRefused(sorted(problems, key=lambda fault: (fault.line, fault.field)), where)
    return grid


def _validated(content: dict[str, Any]) -> tuple[Grid | None, list[Fault]]:
    try:
        return Grid.model_validate(content), []
    except ValidationError as error:
        return None, [_fault(details) for details in error.errors()]


def _fault(details: ErrorDetails) -> Fault:
    place = details["loc"]
    if place and place[-1] == "[key]":
        remedy = "put it in quotes" if details["type"] == "string_type" else f"write {NAME_RULE}"
        return Fault(place[:-1], f"{str(place[-2])[:_LONGEST_VALUE]!r} is no name", remedy, of_key=True)
    what = value_is_wrong(details)
    if details["type"] == "extra_forbidden":
        known = _known_fields(place[:-1])
        return Fault(place, what, did_you_mean(str(place[-1]), known, f"known are {', '.join(known)}"), of_key=True)
    if details["type"] == "literal_error":
        accepted = typing.get_args(_annotation(place))
        return Fault(place, what, did_you_mean(str(details["input"]), map(str, accepted), "write one of them"))
    if details["type"] == "missing":
        return Fault(place, what, f"write {_description(place) or 'it'}")
    return Fault(place, what, f"write {_description(place) or 'another value'}")


def _problem(lines: Lines, fault: Fault) -> Problem:
    value = "" if fault.of_key else lines.value_at(fault.place)
    field = ".".join(map(str, fault.place))
    return Problem(lines.line_of(fault.place), field, value[:_LONGEST_VALUE], fault.what, fault.remedy)


def _no_yaml(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    what = " ".join(str(getattr(error, "problem", None) or error).split())
    return Problem(1 if mark is None else mark.line + 1, "", "", f"no YAML: {what}", "see indentation and quotes")


def _known_fields(place: Place) -> list[str]:
    model = _annotation(place)
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def _description(place: Place) -> str:
    """What to write at a place, by the description of the nearest field above it."""
    for length in range(len(place), 0, -1):
        model = _annotation(place[: length - 1])
        if isinstance(model, type) and issubclass(model, BaseModel) and place[length - 1] in model.model_fields:
            return model.model_fields[str(place[length - 1])].description or ""
    return ""


def _annotation(place: Place) -> Any:
    """The declared type at a place."""
    annotation: Any = Grid
    for step in place:
        annotation = _inside(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            field = annotation.model_fields.get(str(step))
            annotation = None if field is None else field.annotation
        else:
            annotation = _element(annotation)
    return _inside(annotation)


def _inside(annotation: Any) -> Any:
    """A type without ``Annotated`` and ``| None``."""
    while True:
        arguments = [one for one in _alternatives(annotation) if one is not type(None)]
        if typing.get_origin(annotation) is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif len(arguments) == 1:
            annotation = arguments[0]
        else:
            return annotation


def _alternatives(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, type(int | None)) or typing.get_origin(annotation) is typing.Union:
        yield from typing.get_args(annotation)


def _element(annotation: Any) -> Any:
    """The type of the elements of a list, or of the values of a mapping."""
    arguments = typing.get_args(annotation)
    return arguments[-1] if typing.get_origin(annotation) in (list, dict, Mapping) else None
