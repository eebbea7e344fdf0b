"""What the error codes of a job say: class, default fault and meaning, from ``config/error_classes.yaml``. Pure.

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
"""Source to the beginning of its columns, in the order in which PanDA's job retry module looks at them."""
FAULTS = ("site", "payload", "data", "system", "user", "request", "none")
NO_CODE, UNKNOWN = "none", "unknown"
LOG_FIELDS = frozenset({"pandaid", "jeditaskid", "attemptnr", "queue", "log", "scope"})
_NAME = re.compile(r"[a-z][a-z_]{1,30}")
_RANGE = re.compile(r"(\d{1,6})-(\d{1,6})")
_KEYS = frozenset({"source", "codes", "class", "faults", "meaning", "see"})


class WrongErrorClasses(BrokerError):
    """A file of error classes that cannot be used."""


class WrongErrorFilter(BrokerError):
    """An error that jobs are asked for by, and that is none."""

    exit_status = WRONG_USAGE
    http_status = 422


@dataclass(frozen=True)
class ErrorClass:
    """What some codes of one source say.

    Attributes:
        source: a key of ``SOURCES``, or ``none``.
        ranges: of codes, both ends included.
        name: of the class.
        faults: whose fault it may be, the default first.
        meaning: in words.
        see: source whose code says more, where it has one; empty without.
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
        source: pilot, exe, ddm, trans, taskBuffer, jobDispatcher, brokerage or sup; none: there is no code at all.
        code: None where there is none.
        error: as one asks for it: ``pilot:1099``; ``vanished`` without a code.
        error_class: the kind of failure; ``unknown`` for a code that no line of the configuration names.
        fault: whose fault it is where nothing else is known: site, payload, data, system, user, request, none.
        faults: whose it may be.
        meaning: of the code.
        diag: what the source says itself.
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
    """All classes, and where logs are.

    Attributes:
        classes: in the order of the file.
        log_url: pattern of the address of a job's log; None without.
    """

    classes: tuple[ErrorClass, ...]
    log_url: str | None = None

    def of(self, source: str, code: int | None) -> ErrorClass | None:
        """The class of a code; None for one that no line names."""
        for one in self.classes:
            if one.source == source and (code is None or any(low <= code <= high for low, high in one.ranges)):
                return one
        return None

    def decode(self, job: Mapping[str, Any]) -> tuple[Failure, ...]:
        """The codes of a job's row, the one that says most first; of a failed job without any, that it vanished."""
        found = list(self._codes(job))
        if not found and job.get("jobstatus") == "failed":
            known = self.of(NO_CODE, None)
            if known is not None:
                return (Failure(NO_CODE, None, known.name, known.name, known.faults[0], known.faults, known.meaning),)
        sources = {one.source for one in found}
        return tuple(sorted(found, key=lambda one: self._says_less(one, sources)))

    def _codes(self, job: Mapping[str, Any]) -> Iterator[Failure]:
        for source, column in SOURCES.items():
            code = _code_of(job.get(f"{column}code"))
            if not code:
                continue
            error = f"{source}:{code}"
            diag = str(job.get(f"{column}diag") or "")
            known = self.of(source, code)
            if known is None:
                yield Failure(source, code, error, UNKNOWN, UNKNOWN, (), "no class is known for this code", diag)
            else:
                yield Failure(source, code, error, known.name, known.faults[0], known.faults, known.meaning, diag)

    def _says_less(self, failure: Failure, sources: set[str]) -> bool:
        known = self.of(failure.source, failure.code)
        return known is None or (known.see != "" and known.see in sources)

    def ranges_of(self, error: str) -> list[tuple[str, int, int]]:
        """What is meant by an error that jobs are asked for by: source and range of codes; source ``none``: no code.

        Args:
            error: ``1099``, ``pilot:1099``, a class (``memory``), or a default fault (``site``).

        Raises:
            WrongErrorFilter: it is none of these.
        """
        source, colon, code = error.rpartition(":")
        if code.isascii() and code.isdigit() and len(code) <= 6:
            known = {one.casefold(): one for one in SOURCES}
            if colon and source.casefold() not in known:
                raise WrongErrorFilter(f"no source of codes: {source}", "--error", f"known are {', '.join(SOURCES)}")
            sources = [known[source.casefold()]] if colon else list(SOURCES)
            return [(one, int(code), int(code)) for one in sources]
        chosen = [one for one in self.classes if error in (one.name, one.faults[0])]
        if not chosen:
            names = sorted({one.name for one in self.classes} | {one.faults[0] for one in self.classes})
            remedy = did_you_mean(error, names, "write a code, source:code, a class or a fault")
            raise WrongErrorFilter(f"no error, class or fault: {error[:80]}", "--error", remedy)
        return [(one.source, low, high) for one in chosen for low, high in one.ranges or ((0, 0),)]

    def log_of(self, fields: Mapping[str, object]) -> str | None:
        """The address of a job's log; None where no pattern is configured, or it names what the job lacks."""
        if self.log_url is None:
            return None
        wanted = {name for _, name, _, _ in string.Formatter().parse(self.log_url) if name}
        return None if any(fields.get(name) in (None, "") for name in wanted) else self.log_url.format_map(dict(fields))


def _code_of(value: object) -> int:
    """The code in a column; transexitcode is a text."""
    text = str(value or "").strip()
    return int(text) if text.lstrip("-").isdigit() and len(text) < 10 else 0


def read_error_classes(text: str, where: str) -> ErrorClasses:
    """The classes in a YAML text; ``where`` names it in errors.

    Raises:
        WrongErrorClasses: with the line, what is wrong in it, and what to do.
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
    read = [
        _read_class(item, f"{where} line {node.start_mark.line + 1}")
        for item, node in zip(value["classes"], nodes, strict=True)
    ]
    for number, (one, node) in enumerate(zip(read, nodes, strict=True)):
        _check_new(one, read[:number], f"{where} line {node.start_mark.line + 1}")
    return ErrorClasses(tuple(read), _log_url(value.get("log_url"), f"{where} line {lines.get('log_url', 1)}"))


def _read_class(item: Any, where: str) -> ErrorClass:
    if not isinstance(item, dict) or set(item) - _KEYS:
        raise WrongErrorClasses("not a class of codes", where, f"known keys are {', '.join(sorted(_KEYS))}")
    source = str(item.get("source"))
    if source not in (*SOURCES, NO_CODE):
        known = did_you_mean(source, SOURCES, f"known are {', '.join(SOURCES)}, {NO_CODE}")
        raise WrongErrorClasses(f"source is {source}: there is none of that name", where, known)
    name, meaning = item.get("class"), item.get("meaning")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise WrongErrorClasses(f"class is {name}", where, "write words in small letters, joined by _")
    if not isinstance(meaning, str) or not meaning.strip():
        raise WrongErrorClasses("meaning is missing", where, "say in words what the code means")
    faults = item.get("faults")
    if not isinstance(faults, list) or not faults or any(one not in FAULTS for one in faults):
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
    found = []
    for one in codes:
        match = _RANGE.fullmatch(one) if isinstance(one, str) else None
        low, high = map(int, match.groups()) if match else (one, one)
        if isinstance(low, bool) or not isinstance(low, int) or not 0 < low <= high:
            raise WrongErrorClasses(f"codes has {one}", where, "write a number above 0, or a range such as 64-83")
        found.append((low, high))
    return tuple(found)


def _check_new(one: ErrorClass, before: list[ErrorClass], where: str) -> None:
    """Refuse a code that an earlier line names."""
    for other in before:
        if other.source != one.source:
            continue
        if one.source == NO_CODE or any(a <= d and c <= b for a, b in one.ranges for c, d in other.ranges):
            raise WrongErrorClasses(f"a code of {one.source} stands twice", where, f"it is of class {other.name} above")


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
