"""The content of a job description besides its requirements: the JDL keywords that have a meaning here, checked.

A keyword that restricts where a job may run or states what it needs is refused if the broker would not honour it. A
keyword that concerns only the job is kept. Source: DIRAC RFC 7, standard keywords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from broker.pools.model.description import (
    REQUIREMENTS,
    Attribute,
    NumberLiteral,
    RequirementRefused,
    Section,
    checked_text,
    decimal_text,
)
from broker.pools.model.job_specs import KEYWORDS as SPEC_KEYWORDS

ANY = "any"
MOST_SECONDS = 2**31 - 1
MOST_CORES = 999
HIGHEST_PRIORITY = 10
#: Keywords with a single text, and their maximum number of characters.
_TEXTS = {"JobName": 256, "Executable": 128, "JobType": 64, "Owner": 60, "OwnerGroup": 20}
_LISTS = ("Site", "BannedSite", "BannedSites", "Platform")
_NUMBERS = {"CPUTime": (1, MOST_SECONDS), "NumberOfProcessors": (1, MOST_CORES), "Priority": (0, HIGHEST_PRIORITY)}
_VOS = ("VirtualOrganization", "VO")
#: Keywords that the broker does not honour; without them a job might be sent where it cannot run.
_NOT_HONOURED = {
    "RequiredTag": "write what the job needs as Tags",
    "GridCE": "write what the CE must have as a requirement",
    "MaxRAM": "write it as the requirement Memory, or as cpu.ram_mb in a MatchingSpec",
    "MinRAM": "write it as the requirement Memory, or as cpu.ram_mb in a MatchingSpec",
    "WholeNode": "write it as a requirement that resources declare",
    "MinNumberOfProcessors": "write NumberOfProcessors, or cpu.num_cores in a MatchingSpec",
    "MaxNumberOfProcessors": "write NumberOfProcessors, or cpu.num_cores in a MatchingSpec",
    "InputData": "a job that reads data is submitted as a task with an input dataset",
    "Parameters": "submit each of the jobs",
    "SubmitPool": "it is worked out from the requirements",
}
_OUTPUT, _SANDBOX = "OutputData", "OutputSandbox"
#: Pilots get lists of files separated by commas.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
KNOWN = (
    *_TEXTS,
    *_LISTS,
    *_NUMBERS,
    *_VOS,
    *_NOT_HONOURED,
    "Arguments",
    _OUTPUT,
    _SANDBOX,
    REQUIREMENTS,
    *SPEC_KEYWORDS,
)
_BY_LOWER = {name.lower(): name for name in KNOWN}


@dataclass(frozen=True)
class JobRequest:
    """One job.

    Attributes:
        executable: what it runs.
        name: name of the job; None if it has none.
        arguments: arguments of the executable, as they were written.
        sites: sites of which it needs one, sorted; empty: any.
        banned_sites: sites that it must not use, sorted.
        platforms: platforms of which it needs one, sorted; empty: any.
        cpu_time_s: normalised CPU seconds (HS06 s) that it needs.
        cores: processors that it needs.
        priority: from 0 to 10.
        job_type: kind of work.
        owner: who it is for.
        owner_group: the group of the owner.
        vo: virtual organisation that the description is written for, lower case.
        other_keywords: all other keywords, by name; they have no effect on placement.
        outputs: names of the files that it writes, in the order of the description.
        keeps_log: whether to keep its printed output in a log file.
    """

    executable: str
    name: str | None = None
    arguments: str | None = None
    sites: tuple[str, ...] = ()
    banned_sites: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    cpu_time_s: int | None = None
    cores: int | None = None
    priority: int | None = None
    job_type: str | None = None
    owner: str | None = None
    owner_group: str | None = None
    vo: str | None = None
    other_keywords: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    keeps_log: bool = False


def job_request(description: Section) -> JobRequest:
    """The job in a description.

    Raises:
        RequirementRefused: ``keyword-case``, ``not-honoured``, ``bad-value``, ``impossible-site`` or
            ``no-executable``, with name and place.
    """
    for attribute in description:
        _check_keyword(attribute)
    attributes = description.attributes
    texts = {name: _text(attributes[name], width) for name, width in _TEXTS.items() if name in attributes}
    lists = {name: _list(attributes[name]) for name in _LISTS if name in attributes}
    numbers = {name: _whole(attributes[name], *limits) for name, limits in _NUMBERS.items() if name in attributes}
    banned = tuple(sorted({*lists.get("BannedSite", ()), *lists.get("BannedSites", ())}))
    sites = lists.get("Site", ())
    if sites and not set(sites) - set(banned):
        raise RequirementRefused("impossible-site", "every site of Site is banned", "Site", attributes["Site"].place)
    if not texts.get("Executable"):
        raise RequirementRefused("no-executable", "a job to be run names its Executable", "Executable")
    return JobRequest(
        texts["Executable"],
        texts.get("JobName"),
        _arguments(attributes.get("Arguments")),
        sites,
        banned,
        lists.get("Platform", ()),
        numbers.get("CPUTime"),
        numbers.get("NumberOfProcessors"),
        numbers.get("Priority"),
        texts.get("JobType"),
        texts.get("Owner"),
        texts.get("OwnerGroup"),
        _vo(attributes),
        {one.name: plain_value(one.value) for one in description if one.name not in KNOWN},
        _file_names(attributes[_OUTPUT]) if _OUTPUT in attributes else (),
        _SANDBOX in attributes and bool(_file_names(attributes[_SANDBOX])),
    )


def plain_value(value: object) -> Any:
    """A value in JSON form; numbers stay the text that was written."""
    if isinstance(value, Section):
        return {one.name: plain_value(one.value) for one in value}
    if isinstance(value, NumberLiteral):
        return value.text
    if isinstance(value, list | tuple):
        return [plain_value(one) for one in value]
    return str(value)


def _check_keyword(attribute: Attribute) -> None:
    known = _BY_LOWER.get(attribute.name.lower())
    if known is not None and known != attribute.name:
        raise RequirementRefused("keyword-case", f"write it {known}", attribute.name, attribute.place)
    if attribute.name in _NOT_HONOURED:
        hint = _NOT_HONOURED[attribute.name]
        raise RequirementRefused("not-honoured", f"nobody here looks at it; {hint}", attribute.name, attribute.place)


def _text(attribute: Attribute, width: int) -> str:
    if not isinstance(attribute.value, str):
        raise _bad(attribute, "one text is wanted")
    try:
        text = checked_text(attribute.value)
    except RequirementRefused as refused:
        raise RequirementRefused(refused.code, refused.detail, attribute.name, attribute.place) from refused
    if len(text) > width:
        raise _bad(attribute, f"{len(text)} characters; {width} are allowed")
    return text


def _list(attribute: Attribute) -> tuple[str, ...]:
    """The texts of a list, or of one text separated by commas; empty if one of them is ANY."""
    value = attribute.value
    if isinstance(value, Section | NumberLiteral):
        raise _bad(attribute, "a text or a list of texts is wanted")
    texts = set()
    for member in value.split(",") if isinstance(value, str) else value:
        if not isinstance(member, str):
            raise _bad(attribute, "a list of texts is wanted")
        if member.strip():
            texts.add(_text(Attribute(attribute.name, member, attribute.place), 255))
    allows_all = any(text.lower() == ANY for text in texts)
    if allows_all and attribute.name.startswith("Banned"):
        raise _bad(attribute, "ANY would ban every site")
    return () if allows_all else tuple(sorted(texts))


def _file_names(attribute: Attribute) -> tuple[str, ...]:
    """File names in a list, or in one text separated by commas, each once; of an LFN with folders the last part."""
    value = attribute.value
    if isinstance(value, Section | NumberLiteral):
        raise _bad(attribute, "the name of a file, or a list of names, is wanted")
    members = value.split(",") if isinstance(value, str) else value
    names = [str(member).strip().removeprefix("LFN:").rpartition("/")[2] for member in members if str(member).strip()]
    for name in names:
        if not _FILE_NAME.fullmatch(name):
            raise _bad(attribute, "names of files are letters, digits, dot, underscore, plus and hyphen")
    return tuple(dict.fromkeys(names))


def _whole(attribute: Attribute, least: int, most: int) -> int:
    value = attribute.value
    text = value.text if isinstance(value, NumberLiteral) else value
    try:
        number = Decimal(decimal_text(text)) if isinstance(text, str) else None
    except RequirementRefused:
        number = None
    if number is None or number != int(number) or not least <= number <= most:
        raise _bad(attribute, f"a whole number from {least} to {most} is wanted")
    return int(number)


def _arguments(attribute: Attribute | None) -> str | None:
    if attribute is None:
        return None
    value = plain_value(attribute.value)
    if isinstance(value, dict):
        raise _bad(attribute, "a text is wanted")
    return value if isinstance(value, str) else " ".join(value)


def _vo(attributes: Mapping[str, Attribute]) -> str | None:
    names = {_text(attributes[name], 64).lower() for name in _VOS if name in attributes}
    if len(names) > 1:
        raise _bad(attributes[_VOS[0]], f"{' and '.join(_VOS)} name different ones")
    return next(iter(names), None)


def _bad(attribute: Attribute, wanted: str) -> RequirementRefused:
    return RequirementRefused("bad-value", wanted, attribute.name, attribute.place)
