"""The meaning of a job's error codes: class, default fault and text, from ``config/error_classes.yaml``. Pure.

Source: PanDA data model, jobs (eight sources of codes); pilot, Harvester and panda-server, their lists of codes.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from broker.errors import WRONG_USAGE, BrokerError, did_you_mean

SOURCES: Mapping[str, str] = {
    "pilot": "piloterror",
    "exe": "exeerror",
    "ddm": "ddmerror",
    "trans": "transexit",
    "taskBuffer": "taskbuffererror",
    "jobDispatcher": "jobdispatchererror",
    "brokerage": "brokerageerror",
    "sup": "superror",
}
"""Each source with the prefix of its columns, in the order in which PanDA's job retry module checks them."""
FAULTS = ("site", "payload", "data", "system", "user", "request", "none")
NO_CODE, UNKNOWN = "none", "unknown"
LOG_FIELDS = frozenset({"pandaid", "jeditaskid", "attemptnr", "queue", "log", "scope"})
_NAME = re.compile(r"[a-z][a-z_]{1,30}")
_RANGE = re.compile(r"(\d{1,6})-(\d{1,6})")
_KEYS = frozenset({"source", "codes", "class", "faults", "meaning", "see"})


class WrongErrorClasses(BrokerError):
    """The file of error classes cannot be used."""


class WrongErrorFilter(BrokerError):
    """The filter of jobs names no valid error."""

    exit_status = WRONG_USAGE
    http_status = 422


@dataclass(frozen=True)
class ErrorClass:
    """The meaning of some codes of one source.

    Attributes:
        source: a key of ``SOURCES``, or ``none``.
        ranges: ranges of codes, both ends included.
        name: name of the class.
        faults: possible parties at fault, the default first.
        meaning: explanation in words.
        see: source whose code says more, if it has one; else empty.
    """

    source: str
    ranges: tuple[tuple[int, int], ...]
    name: str
    faults: tuple[str, ...]
    meaning: str
    see: str = ""


@dataclass(frozen=True)
class Failure:
    """One error code of a job, decoded.

    Attributes:
        source: pilot, exe, ddm, trans, taskBuffer, jobDispatcher, brokerage or sup; none: there is no code.
        code: error code; null if there is none.
        error: error as used in filters: ``pilot:1099``; ``vanished`` without a code.
        error_class: kind of failure; ``unknown`` for a code that the configuration does not name.
        fault: who is at fault by default: site, payload, data, system, user, request, none.
        faults: who may be at fault.
        meaning: meaning of the code.
        diag: message of the source.
    """

    source: str
    code: int | None
    error: str
    error_class: str
    fault: str
    faults: tuple[str, ...]
    meaning: str
    diag: str = ""


@dataclass(frozen=True)
class ErrorClasses:
    """All error classes, and the address pattern of logs.

    Attributes:
        classes: the classes in the order of the file.
        log_url: address pattern of a job's log; None if not configured.
    """

    classes: tuple[ErrorClass, ...]
    log_url: str | None = None

    def of(self, source: str, code: int | None) -> ErrorClass | None:
        """Return the class of a code; None if no line lists it."""
        for entry in self.classes:
            if entry.source == source and (code is None or any(low <= code <= high for low, high in entry.ranges)):
                return entry
        return None

    def decode(self, job: Mapping[str, Any]) -> tuple[Failure, ...]:
        """Decode the codes of a job's row, most specific first; a failed job without any has vanished."""
        failures = list(self._codes(job))
        if not failures and job.get("jobstatus") == "failed":
            entry = self.of(NO_CODE, None)
            if entry is not None:
                return (Failure(NO_CODE, None, entry.name, entry.name, entry.faults[0], entry.faults, entry.meaning),)
        sources = {failure.source for failure in failures}
        return tuple(sorted(failures, key=lambda failure: self._says_less(failure, sources)))

    def _codes(self, job: Mapping[str, Any]) -> Iterator[Failure]:
        for source, column in SOURCES.items():
            code = _code_of(job.get(f"{column}code"))
            if not code:
                continue
            error = f"{source}:{code}"
            diag = str(job.get(f"{column}diag") or "")
            entry = self.of(source, code)
            if entry is None:
                yield Failure(source, code, error, UNKNOWN, UNKNOWN, (), "no class is known for this code", diag)
            else:
                yield Failure(source, code, error, entry.name, entry.faults[0], entry.faults, entry.meaning, diag)

    def _says_less(self, failure: Failure, sources: set[str]) -> bool:
        entry = self.of(failure.source, failure.code)
        return entry is None or (entry.see != "" and entry.see in sources)

    def ranges_of(self, error: str) -> list[tuple[str, int, int]]:
        """Return the source and code range of an error filter; source ``none`` means no code.

        Args:
            error: ``1099``, ``pilot:1099``, a class (``memory``), or a default fault (``site``).

        Raises:
            WrongErrorFilter: the error is none of these.
        """
        source, colon, code = error.rpartition(":")
        if code.isascii() and code.isdigit() and len(code) <= 6:
            sources_by_name = {source.casefold(): source for source in SOURCES}
            if colon and source.casefold() not in sources_by_name:
                raise WrongErrorFilter(f"no source of codes: {source}", "--error", f"known are {', '.join(SOURCES)}")
            sources = [sources_by_name[source.casefold()]] if colon else list(SOURCES)
            return [(source, int(code), int(code)) for source in sources]
        matches = [entry for entry in self.classes if error in (entry.name, entry.faults[0])]
        if not matches:
            names = sorted({entry.name for entry in self.classes} | {entry.faults[0] for entry in self.classes})
            remedy = did_you_mean(error, names, "write a code, source:code, a class or a fault")
            raise WrongErrorFilter(f"no error, class or fault: {error[:80]}", "--error", remedy)
        return [(entry.source, low, high) for entry in matches for low, high in entry.ranges or ((0, 0),)]

    def log_of(self, fields: Mapping[str, object]) -> str | None:
        """Return the address of a job's log; None without a pattern, or if the job lacks one of its fields."""
        if self.log_url is None:
            return None
        names = {name for _, name, _, _ in string.Formatter().parse(self.log_url) if name}
        return None if any(fields.get(name) in (None, "") for name in names) else self.log_url.format_map(dict(fields))


def _code_of(value: object) -> int:
    """Return the code in a column; transexitcode is a text."""
    text = str(value or "").strip()
    return int(text) if text.lstrip("-").isdigit() and len(text) < 10 else 0


def read_error_classes(text: str, where: str) -> ErrorClasses:
    """Read the classes in a YAML text; ``where`` names it in errors.

    Raises:
        WrongErrorClasses: the text is wrong; the error says where, what is wrong, and what to do.
    """
    try:
        document = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise WrongErrorClasses(" ".join(str(error).split()), where, "correct the file") from error
    if not isinstance(value, dict) or not isinstance(value.get("classes"), list) or document is None:
        raise WrongErrorClasses("it has no list of classes", where, "write classes: [...]")
    unknown = set(value) - {"classes", "log_url"}
    if unknown:
        raise WrongErrorClasses(f"unknown key {min(unknown)}", where, "known are classes and log_url")
    lines = {key.value: key.start_mark.line + 1 for key, _ in document.value}
    nodes = next(node for key, node in document.value if key.value == "classes").value
    classes = [
        _read_class(item, f"{where} line {node.start_mark.line + 1}")
        for item, node in zip(value["classes"], nodes, strict=True)
    ]
    for number, (entry, node) in enumerate(zip(classes, nodes, strict=True)):
        _check_new(entry, classes[:number], f"{where} line {node.start_mark.line + 1}")
    return ErrorClasses(tuple(classes), _log_url(value.get("log_url"), f"{where} line {lines.get('log_url', 1)}"))


def _read_class(item: Any, where: str) -> ErrorClass:
    if not isinstance(item, dict) or set(item) - _KEYS:
        raise WrongErrorClasses("not a class of codes", where, f"known keys are {', '.join(sorted(_KEYS))}")
    source = str(item.get("source"))
    if source not in (*SOURCES, NO_CODE):
        hint = did_you_mean(source, SOURCES, f"known are {', '.join(SOURCES)}, {NO_CODE}")
        raise WrongErrorClasses(f"source is {source}: there is none of that name", where, hint)
    name, meaning = item.get("class"), item.get("meaning")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise WrongErrorClasses(f"class is {name}", where, "write words in small letters, joined by _")
    if not isinstance(meaning, str) or not meaning.strip():
        raise WrongErrorClasses("meaning is missing", where, "say in words what the code means")
    faults = item.get("faults")
    if not isinstance(faults, list) or not faults or any(fault not in FAULTS for fault in faults):
        raise WrongErrorClasses(f"faults is {faults}", where, f"write a list of {', '.join(FAULTS)}, the default first")
    see = item.get("see", "")
    if see and see not in SOURCES:
        raise WrongErrorClasses(f"see is {see}: there is no such source", where, f"known are {', '.join(SOURCES)}")
    return ErrorClass(source, _read_codes(item.get("codes"), source, where), name, tuple(faults), meaning, see)


def _read_codes(codes: Any, source: str, where: str) -> tuple[tuple[int, int], ...]:
    if source == NO_CODE:
        if codes is not None:
            raise WrongErrorClasses("codes of source none", where, "leave out codes")
        return ()
    if not isinstance(codes, list) or not codes:
        raise WrongErrorClasses(f"codes is {codes}", where, "write a list of codes and ranges: [137, 64-83]")
    ranges = []
    for code in codes:
        match = _RANGE.fullmatch(code) if isinstance(code, str) else None
        low, high = map(int, match.groups()) if match else (code, code)
        if isinstance(low, bool) or not isinstance(low, int) or not 0 < low <= high:
            raise WrongErrorClasses(f"codes has {code}", where, "write a number above 0, or a range such as 64-83")
        ranges.append((low, high))
    return tuple(ranges)


def _check_new(added: ErrorClass, before: list[ErrorClass], where: str) -> None:
    """Refuse a code that an earlier line lists."""
    for earlier in before:
        if earlier.source != added.source:
            continue
        if added.source == NO_CODE or any(a <= d and c <= b for a, b in added.ranges for c, d in earlier.ranges):
            raise WrongErrorClasses(
                f"a code of {added.source} stands twice", where, f"it is of class {earlier.name} above"
            )


def _log_url(value: Any, where: str) -> str | None:
    if value is None:
        return None
    try:
        names = {name for _, name, _, _ in string.Formatter().parse(value) if name is not None}
    except (TypeError, ValueError) as error:
        raise WrongErrorClasses(f"log_url is {value}", where, "write an address with fields in braces") from error
    if names - LOG_FIELDS or not value.startswith(("https://", "http://")):
        raise WrongErrorClasses(
            f"log_url is {value}", where, f"write http(s)://... with fields {', '.join(sorted(LOG_FIELDS))}"
        )
    return str(value)
