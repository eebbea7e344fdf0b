"""The items of ``jobParameters`` and ``log``: the template of the jobs, and the datasets that they read and write.

Source: panda-server, ``jedirefine/TaskRefinerBase.py`` (``doBasicRefine``), ``RefinerUtils.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from broker.matching.patterns import PatternUnsupportedError, SafePattern
from broker.tasks.model.catalogue import DATASETS_FOR_STREAM
from broker.tasks.model.placeholders import NUMBER_IN_NAME, Placeholder, parse_template
from broker.tasks.model.task import SEQUENCE, InputFile, InputPlan, OutputPlan
from broker.tasks.model.values import BadParameter, flag, text, whole

_ITEM_KEYS: Mapping[str, frozenset[str]] = {
    "common": frozenset({"type", "param_type", "value", "padding", "hidden", "dataset"}),
    "input": frozenset(
        {"ratio", "eventRatio", "nFilesPerJob", "reusable", "offset", "include", "exclude"}
        | {"files", "attributes", "expand", "num_records"}
    ),
    "pseudo_input": frozenset({"offset", "num_records", "nFilesPerJob", "ratio"}),
    "output": frozenset({"container", "destination", "token", "offset", "allowNoOutput", "transient"}),
    "number": frozenset({"offset"}),
    "constant": frozenset(),
}
_ITEM_KEYS = {**_ITEM_KEYS, "log": _ITEM_KEYS["output"]}
_DATASET_NAME = re.compile(r"(?:[A-Za-z0-9._-]{1,30}:)?[A-Za-z0-9$][A-Za-z0-9._$-]*/?")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LONGEST_NAME, LONGEST_FILE_NAME, LONGEST_TEMPLATE = 255, 250, 100_000
_OFFSET = whole(0, 2**62)


@dataclass
class Items:
    """The contents of the items, collected as they are read one after another."""

    words: list[str] = field(default_factory=list)
    inputs: list[InputPlan] = field(default_factory=list)
    outputs: list[OutputPlan] = field(default_factory=list)
    seed_offset: int = 0
    event_offset: int = 0

    @property
    def template(self) -> str:
        """The template of the arguments of each job."""
        return "".join(self.words).strip()


def read_items(given: Mapping[str, Any]) -> Items:
    """The items of ``jobParameters``, ``log`` and ``dsFor...`` of task parameters.

    Raises:
        BadParameter: one of them cannot be used.
    """
    items = Items()
    for position, item in enumerate(_listed("jobParameters", given.get("jobParameters"))):
        _read_item(f"jobParameters[{position}]", item, items)
    for position, item in enumerate(_listed("log", given.get("log"))):
        _read_item(f"log[{position}]", {**item, "param_type": "log", "hidden": True}, items)
    for name in sorted(given):
        match = DATASETS_FOR_STREAM.fullmatch(name)
        if match is not None and given[name] is not None:
            _add_datasets(name, match[1], given[name], items)
    if len(items.template) > LONGEST_TEMPLATE:
        raise BadParameter("jobParameters", None, f"they have more than {LONGEST_TEMPLATE} characters", "shorten them")
    return items


def _listed(field_name: str, value: Any) -> Sequence[Mapping[str, Any]]:
    items = [value] if isinstance(value, Mapping) else value or []
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise BadParameter(field_name, value, "it must be a list of objects", "write one object for each item")
    return items


def _read_item(where: str, item: Mapping[str, Any], items: Items) -> None:
    if item.get("type") not in ("constant", "template", None):
        raise BadParameter(f"{where}.type", item["type"], "it is not known here", "write constant or template")
    is_constant = item.get("type", "constant" if "param_type" not in item else "template") == "constant"
    kind = "constant" if is_constant else str(item.get("param_type"))
    if kind not in _ITEM_KEYS or kind == "common":
        known = "input, pseudo_input, output, log, number"
        raise BadParameter(f"{where}.param_type", item.get("param_type"), "it is not known here", f"known are {known}")
    for key in item:
        if key not in _ITEM_KEYS[kind] | _ITEM_KEYS["common"]:
            raise BadParameter(f"{where}.{key}", item[key], f"an item of {kind} has no such key", "leave it out")
    value = item.get("value", "")
    if not isinstance(value, str) or "\0" in value:
        raise BadParameter(f"{where}.value", value, "it must be a text", "write a text")
    word = value
    if kind in ("input", "pseudo_input"):
        _read_input(where, kind, item, items)
    elif kind in ("output", "log"):
        word = _read_output(where, "log" if kind == "log" else "output", item, value, items)
    elif kind == "number":
        _read_number(where, item, value, items)
    if not item.get("hidden", False):
        items.words += [word, "" if item.get("padding") is False else " "]


def stream_of(where: str, value: str, otherwise: str) -> str:
    """The stream that a template names; ``otherwise`` without one."""
    named = [one.name for one in parse_template(where, value) if isinstance(one, Placeholder)]
    return named[0] if named else otherwise


def _read_input(where: str, kind: str, item: Mapping[str, Any], items: Items) -> None:
    value, dataset = item.get("value", ""), item.get("dataset")
    if kind == "pseudo_input":
        stream = stream_of(f"{where}.value", value, "SEQNUMBER")
        if any(earlier.stream == stream for earlier in items.inputs):
            return
        wanted = None if item.get("num_records") is None else whole(1)(f"{where}.num_records", item["num_records"])
        offset = _OFFSET(f"{where}.offset", item.get("offset") or 0)
        plan = InputPlan(where, SEQUENCE, stream, pseudo=True, offset=offset, wanted=wanted, files_per_job=1)
        items.inputs.append(replace(plan, is_master=not items.inputs))
        return
    stream = stream_of(f"{where}.value", value, "IN")
    if dataset is None:
        if any(earlier.stream == stream for earlier in items.inputs):
            return
        raise BadParameter(f"{where}.dataset", dataset, "it is missing", "name the dataset that is read")
    _add_datasets(f"{where}.dataset", stream, dataset, items, _input_plan(where, stream, item))


def _add_datasets(where: str, stream: str, given: Any, items: Items, plan: InputPlan | None = None) -> None:
    """Add the datasets of one stream, between commas; one that is there already is only text."""
    base = plan or next(
        (existing for existing in items.inputs if existing.stream == stream), InputPlan(where, "", stream)
    )
    is_master = not items.inputs or items.inputs[0].stream == stream
    for name in text(100_000)(where, given).split(","):
        dataset = name.strip()
        _check_dataset(where, dataset)
        if any((existing.name, existing.stream) == (dataset, stream) for existing in items.inputs):
            continue
        if is_master or not any(existing.stream == stream for existing in items.inputs):
            items.inputs.append(replace(base, name=dataset, is_master=is_master))
            continue
        remedy = "name one dataset, or a container"
        raise BadParameter(where, given, f"{stream} is secondary and has several datasets", remedy)


def _check_dataset(where: str, name: str) -> None:
    if not _DATASET_NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        remedy = f"write SCOPE:NAME or NAME, of letters, digits, . _ and -, at most {LONGEST_NAME} characters"
        raise BadParameter(where, name, "it is no name of a dataset", remedy)


def _input_plan(where: str, stream: str, item: Mapping[str, Any]) -> InputPlan:
    attributes = list(_words(f"{where}.attributes", item.get("attributes")))
    if flag(f"{where}.reusable", item.get("reusable") or False) and "reusable" not in attributes:
        attributes.append("reusable")
    per_job = item.get("nFilesPerJob")
    if per_job is not None:
        per_job = whole(1, 1000)(f"{where}.nFilesPerJob", per_job)
        attributes.append(f"np={per_job}")
    ratio = _ratio(f"{where}.ratio", item.get("ratio"))
    event_ratio = _ratio(f"{where}.eventRatio", item.get("eventRatio"))
    if event_ratio is not None:
        attributes.append(f"er={event_ratio:g}")
    if ratio is not None:
        attributes.append(f"ratio={ratio:g}")
    wanted = None if item.get("num_records") is None else whole(1)(f"{where}.num_records", item["num_records"])
    return InputPlan(
        where,
        "",
        stream,
        attributes=tuple(attributes),
        offset=_OFFSET(f"{where}.offset", item.get("offset") or 0),
        files_per_job=per_job,
        ratio=ratio or 1.0,
        wanted=wanted,
        include=_patterns(f"{where}.include", item.get("include")),
        exclude=_patterns(f"{where}.exclude", item.get("exclude")),
        files=None if item.get("files") is None else read_files(f"{where}.files", item["files"]),
        expand=flag(f"{where}.expand", item.get("expand") or False),
    )


def _ratio(where: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1000:
        raise BadParameter(where, value, "it must be a number above 0, at most 1000", "write 2, or 0.5")
    return float(value)


def _words(where: str, value: Any) -> tuple[str, ...]:
    known = ("repeat", "nosplit", "reusable")
    words = [] if value is None else [word.strip() for word in text(100)(where, value).split(",")]
    for word in words:
        if word not in known:
            raise BadParameter(where, word, "it is not known here", f"known are {', '.join(known)}")
    return tuple(words)


def _patterns(where: str, value: Any) -> tuple[SafePattern, ...]:
    listed = value.split(",") if isinstance(value, str) else value or []
    if not isinstance(listed, list) or not all(isinstance(pattern, str) for pattern in listed):
        raise BadParameter(where, value, "it must be patterns between commas", "write a text, or a list of texts")
    try:
        return tuple(SafePattern(pattern.strip(), ignore_case=False) for pattern in listed if pattern.strip())
    except PatternUnsupportedError as error:
        raise BadParameter(where, value, error.why, "write a regular expression without look-around") from error


def read_files(where: str, listed: Any) -> tuple[InputFile, ...]:
    """The listed files: names, or objects with ``lfn``, ``filesize``, ``events``, ``checksum``, ``guid``."""
    if not isinstance(listed, list):
        raise BadParameter(where, listed, "it must be a list", "write names, or objects with lfn and filesize")
    return tuple(read_file(f"{where}[{at}]", one) for at, one in enumerate(listed))


_FILE_KEYS = {"lfn", "filesize", "fsize", "events", "nevents", "checksum", "guid", "scope"}
_SIZE = whole(0, 2**62)


def read_file(where: str, one: Any) -> InputFile:
    """One listed file.

    Raises:
        BadParameter: it has no usable name, or another key.
    """
    values: Mapping[str, Any] = {"lfn": one} if isinstance(one, str) else one
    if not isinstance(values, Mapping) or not isinstance(values.get("lfn"), str):
        raise BadParameter(where, one, "it has no lfn", "write a name, or an object with lfn and filesize")
    for key in values:
        if key not in _FILE_KEYS:
            raise BadParameter(f"{where}.{key}", values[key], "it is not known here", f"known are {sorted(_FILE_KEYS)}")
    scope, _, name = values["lfn"].rpartition(":")
    if not _FILE_NAME.fullmatch(name) or len(name) > LONGEST_FILE_NAME:
        remedy = f"write letters, digits, . _ and -, at most {LONGEST_FILE_NAME} characters"
        raise BadParameter(f"{where}.lfn", values["lfn"], "it is no name of a file", remedy)
    size = values.get("filesize", values.get("fsize"))
    events = values.get("events", values.get("nevents"))
    return InputFile(
        name,
        _optional(f"{where}.scope", values.get("scope") or scope or None, 30),
        None if size is None else _SIZE(f"{where}.filesize", size),
        None if events is None else _SIZE(f"{where}.events", events),
        _optional(f"{where}.checksum", values.get("checksum"), 36),
        _optional(f"{where}.guid", values.get("guid"), 64),
    )


def _optional(where: str, value: Any, width: int) -> str | None:
    return None if value is None else str(text(width)(where, value))


def _read_output(where: str, kind: Literal["output", "log"], item: Mapping[str, Any], value: str, items: Items) -> str:
    """Add the dataset of an output or a log; returns the text for the template, with the placeholder of its name."""
    dataset = text(LONGEST_NAME)(f"{where}.dataset", item.get("dataset")).rstrip("/")
    _check_dataset(f"{where}.dataset", dataset)
    head, equals, last = value.rpartition("=")
    filename = last.strip().strip("'\"")
    _check_filename(f"{where}.value", filename)
    output = next((plan for plan in items.outputs if plan.name == dataset), None)
    if output is not None and output.filename != filename:
        remedy = "give each output a dataset of its own"
        raise BadParameter(f"{where}.dataset", dataset, "two outputs with other names write into it", remedy)
    if output is None:
        output = _output_plan(where, kind, item, dataset, filename, items)
        items.outputs.append(output)
    return f"{head}{equals}{last.replace(filename, f'${{{output.stream}}}')}"


def _output_plan(
    where: str, kind: Literal["output", "log"], item: Mapping[str, Any], dataset: str, filename: str, items: Items
) -> OutputPlan:
    attributes = [word for key, word in (("allowNoOutput", "an"), ("transient", "tr")) if item.get(key)]
    number = sum(output.type == kind for output in items.outputs)
    container = item.get("container")
    destination = item.get("destination")
    token = item.get("token")
    return OutputPlan(
        kind,
        dataset,
        None if container is None else str(text(LONGEST_NAME)(f"{where}.container", container)),
        f"{kind.upper()}{number}",
        filename,
        _OFFSET(f"{where}.offset", item.get("offset") or 0),
        None if not token else str(text(100)(f"{where}.token", token)),
        None if not destination else str(text(60)(f"{where}.destination", destination)),
        tuple(attributes),
    )


def _check_filename(where: str, name: str) -> None:
    bare = NUMBER_IN_NAME.sub("0", name).replace("${JEDITASKID}", "0").replace("$JEDITASKID", "0")
    if "${MIDDLENAME}" in name:
        raise BadParameter(where, name, "names of output have no part of the input here", "write ${SN/P}")
    if "$" in bare:
        raise BadParameter(
            where, name, "it has an unknown placeholder", "known are ${SN}, ${SN/P}, ${SN:06d}, $JEDITASKID"
        )
    if not _FILE_NAME.fullmatch(bare) or len(name) > LONGEST_FILE_NAME:
        raise BadParameter(where, name, "it is no name of a file", "write letters, digits, . _ - and ${SN/P}")
    if not NUMBER_IN_NAME.search(name):
        raise BadParameter(where, name, "all jobs would write the same file", "put ${SN/P} into the name")


def _read_number(where: str, item: Mapping[str, Any], value: str, items: Items) -> None:
    offset = _OFFSET(f"{where}.offset", item.get("offset") or 0)
    stream = stream_of(f"{where}.value", value, "")
    if stream == "RNDMSEED":
        items.seed_offset = offset
    elif stream == "FIRSTEVENT":
        items.event_offset = offset
    else:
        raise BadParameter(
            f"{where}.value", value, "a number is a seed or a first event", "write ${RNDMSEED} or ${FIRSTEVENT}"
        )
