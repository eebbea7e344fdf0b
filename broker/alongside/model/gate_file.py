"""The gate: what must hold before work is handed over from PanDA's brokers; ``gate.yaml`` as typed values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from broker.errors import WRONG_USAGE, BrokerError, nearest
from broker.wrong_values import value_is_wrong
from broker.yaml_text import read_yaml

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
LONGEST_DAYS = 90


class GateFileError(BrokerError):
    """The file is not a valid gate; the message names the line and the fault of the value."""

    exit_status = WRONG_USAGE


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limits(_Section):
    """``limits``.

    Attributes:
        chunks: minimum number of compared chunks.
        agreement: minimum of the lower end of the interval of agreed jobs.
        queue_share: maximum share of the jobs by which a queue may get more or fewer than from PanDA, beyond chance.
        rule_share: maximum share of the jobs or waits that one rule may account for.
        fall_backs: maximum share of fall-backs among the plug-in's calls.
    """

    chunks: Annotated[int, Field(ge=1)] = 500
    agreement: Share = 0.95
    queue_share: Share = 0.05
    rule_share: Share = 0.02
    fall_backs: Share = 0.01


class GatedBrokerage(_Section):
    """An entry of ``brokerages``. ``labels``: labels of the jobs or tasks; empty: all that PanDA placed or let wait.

    ``limits``: omitted limits are those for all brokerages.
    """

    labels: tuple[str, ...] = ()
    limits: Limits = Limits()


class Explained(_Section):
    """An explained difference of a ``rule`` or a ``queue``, for all brokerages or for one, and its reason."""

    rule: str | None = None
    queue: str | None = None
    brokerage: str | None = None
    because: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _names_one(self) -> Explained:
        if (self.rule is None) == (self.queue is None):
            raise ValueError("names either a rule or a queue")
        return self


class GateFile(_Section):
    """The gate file: criteria, their limits, and explained differences."""

    days: Annotated[int, Field(ge=1, le=LONGEST_DAYS)] = 7
    profile: str | None = None
    confidence: Annotated[float, Field(ge=0.5, lt=1, allow_inf_nan=False)] = 0.95
    max_age_h: Annotated[float, Field(gt=0, le=24 * LONGEST_DAYS, allow_inf_nan=False)] = 2.0
    doctor: Literal["clean", "ignored"] = "clean"
    limits: Limits = Limits()
    brokerages: Annotated[dict[str, GatedBrokerage], Field(min_length=1)]
    explained: tuple[Explained, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _with_limits_of_all(cls, data: Any) -> Any:
        """Limits that an entry of ``brokerages`` leaves out are those of the file."""
        match data:
            case {"brokerages": dict() as entries}:
                common = _good_limits(data.get("limits"))
                return {**data, "brokerages": {name: _completed(entry, common) for name, entry in entries.items()}}
            case _:
                return data

    def explains_rule(self, brokerage: str, code: str) -> bool:
        """Whether the difference that a rule makes is explained."""
        return any(one.rule == code and one.brokerage in (None, brokerage) for one in self.explained)

    def explains_queue(self, brokerage: str, queue: str) -> bool:
        """Whether the difference at a queue is explained."""
        return any(one.queue == queue and one.brokerage in (None, brokerage) for one in self.explained)


def _good_limits(limits: Any) -> dict[str, Any]:
    """The limits of the file; none if they are wrong, which is reported once and not for each brokerage."""
    try:
        return Limits.model_validate({} if limits is None else limits).model_dump()
    except ValidationError:
        return {}


def _completed(entry: Any, common: dict[str, Any]) -> Any:
    match entry:
        case {"limits": dict() as own}:
            return {**entry, "limits": {**common, **own}}
        case dict() if "limits" not in entry:
            return {**entry, "limits": common}
        case _:
            return entry


def read_gate(text: str, where: str, known: Mapping[str, Sequence[str]]) -> GateFile:
    """Read the gate from a text.

    Args:
        text: YAML.
        where: name of the file.
        known: the existing names of ``brokerage`` and ``profile``.

    Raises:
        GateFileError: it cannot be used; each fault is reported with line, field, value, and the nearest name.
    """
    try:
        content = read_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        raise GateFileError(f"no YAML: {getattr(error, 'problem', None) or error}", f"{where}{line}") from error
    try:
        gate = GateFile.model_validate({} if content is None else content)
    except ValidationError as error:
        root = _nodes(text)
        faults = [_fault(one, root) for one in error.errors()]
        raise GateFileError("; ".join(faults), where, "config/gate.yaml is an example of each field") from error
    faults = _unknown_names(gate, text, known)
    if faults:
        raise GateFileError("; ".join(faults), where)
    return gate


def _nodes(text: str) -> Any:
    """The nodes of a text, for the lines of faults; reading them takes long, and is not needed for good files."""
    return yaml.compose(text, yaml.SafeLoader)


def _fault(details: ErrorDetails, root: Any) -> str:
    path = [part for part in details["loc"] if not str(part).startswith("function-")]
    words = f"line {_line(root, path)}, {'.'.join(map(str, path)) or 'the whole file'}: {value_is_wrong(details)}"
    if details["type"] != "extra_forbidden":
        return words
    close = nearest(str(path[-1]), _fields(path[:-1]))
    return words + (f"; did you mean {' or '.join(close)}?" if close else "")


def _fields(path: Sequence[object]) -> list[str]:
    """The fields that exist at a place of the file."""
    section: type[_Section] = GateFile
    if path and path[0] == "brokerages":
        section = Limits if "limits" in path else GatedBrokerage
    elif path:
        section = Limits if path[0] == "limits" else Explained
    return list(section.model_fields)


def _unknown_names(gate: GateFile, text: str, known: Mapping[str, Sequence[str]]) -> list[str]:
    names: list[tuple[str, str, list[object]]] = [("brokerage", one, ["brokerages", one]) for one in gate.brokerages]
    names += [
        ("brokerage", one.brokerage, ["explained", index, "brokerage"])
        for index, one in enumerate(gate.explained)
        if one.brokerage is not None
    ]
    if gate.profile is not None:
        names.append(("profile", gate.profile, ["profile"]))
    unknown = [(kind, name, path) for kind, name, path in names if name not in known[kind]]
    root = _nodes(text) if unknown else None
    return [
        f"line {_line(root, path)}, {'.'.join(map(str, path))}: there is no {kind} {name!r}; {_hint(name, known[kind])}"
        for kind, name, path in unknown
    ]


def _hint(name: str, known: Sequence[str]) -> str:
    close = nearest(name, known)
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(known)}"


def _line(root: Any, path: Sequence[object]) -> int:
    """The line of a place, or of the nearest existing place."""
    node, line = root, 1 if root is None else root.start_mark.line + 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == str(part)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return int(line)
