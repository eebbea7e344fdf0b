"""The grammar of ``fairsharepolicy``: which tasks a queue rejects.

policy = subpolicy {"," subpolicy}; subpolicy = field {":" field} ":" value. From left to right, the first subpolicy
whose conditions all hold decides: the value 0 or 0% rejects, any other accepts. If none holds, the task is accepted.

A field is ``type=``, ``group=`` or ``gshare=`` with a pattern, or ``priority`` with a comparison; any other is ignored.
In a pattern ``*`` is any text and ``(A|B)`` a choice. It must match the whole text; ``any`` always holds. Policies are
written by many people, so nothing in them is evaluated: patterns run in linear time, and one that cannot be read makes
its subpolicy unknown. Source: ATLAS Production Job Brokerage, Zero Share; PanDA production brokerage, zero share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import Protocol, cast

import numpy as np
import re2  # type: ignore[import-untyped]

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, Texts, distinct, numbered, texts

TEST_GROUP, OTHER_GROUP = "test", "others"
_TEST_TYPES = frozenset({"prod_test", "validation", "ptest", "rc_test", "rc_test2", "rc_alrb"})
_GROUPS = frozenset({"evgen", "simul", "reprocessing", "mcore", "group", "deriv", "pile", "merge"})
_PRIORITY = re.compile(r"priority(>=|<=|==|!=|>|<)(-?[0-9]{1,18})")
_COMPARISONS = {
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_ZERO = frozenset({"0", "0%"})
_ANY = "any"


class Verdict(Enum):
    """The verdict of a policy on a task."""

    ACCEPT = 0
    REJECT = 1
    UNKNOWN = 2


class Attribute(Enum):
    """The task attribute that a pattern is matched against."""

    TYPE = "type="
    GROUP = "group="
    GSHARE = "gshare="


class Pattern(Protocol):
    """A pattern of a policy, compiled once for all chunks."""

    def fullmatch(self, text: str) -> object | None:
        """A match of the whole text, or None."""
        ...

    def __hash__(self) -> int:
        """Hashable, so that each pattern is matched against a text once."""
        ...


@dataclass(frozen=True)
class Match:
    """A condition on a text; ``pattern`` is None if it cannot be read."""

    attribute: Attribute
    pattern: Pattern | None


@dataclass(frozen=True)
class Compare:
    """A condition on the priority."""

    operator: str
    limit: float


@dataclass(frozen=True)
class Subpolicy:
    """One part of a policy: it rejects or accepts the tasks for which all its conditions hold."""

    text: str
    matches: tuple[Match, ...]
    compares: tuple[Compare, ...]
    has_priority: bool
    rejects: bool

    @property
    def readable(self) -> bool:
        """Whether all patterns can be matched."""
        return all(match.pattern is not None for match in self.matches)


@dataclass(frozen=True)
class ShareColumns:
    """The columns that policies read, one element a chunk (1-D)."""

    group: Texts  # process groups
    workinggroup: Texts
    gshare: Texts
    priority: Floats
    merging: Bools

    @cached_property
    def _coded(self) -> dict[Attribute, tuple[list[str | None], Ints]]:
        return {}

    def coded(self, attribute: Attribute) -> tuple[list[str | None], Ints]:
        """The distinct texts that patterns are matched against, and (T,) the position of each chunk's text."""
        if attribute not in self._coded:
            columns = {Attribute.TYPE: self.group, Attribute.GROUP: self.workinggroup, Attribute.GSHARE: self.gshare}
            self._coded[attribute] = distinct(columns[attribute])
        return self._coded[attribute]

    @cached_property
    def matched(self) -> dict[tuple[Attribute, Pattern], Bools]:
        """The chunks that match a pattern, for all patterns evaluated so far."""
        return {}


def process_group(processingtype: str | None) -> str:
    """The process group of a processing type."""
    if processingtype in _TEST_TYPES:
        return TEST_GROUP
    return processingtype if processingtype is not None and processingtype in _GROUPS else OTHER_GROUP


@lru_cache(maxsize=4096)
def parse(policy: str) -> tuple[Subpolicy, ...]:
    """The parts of a policy, in order; none for an empty one."""
    return tuple(_subpolicy(text) for text in policy.split(",")) if policy else ()


def unreadable_parts(policy: str) -> tuple[str, ...]:
    """The subpolicies with a pattern that cannot be read, each cut to 80 characters."""
    return tuple(part.text[:80] for part in parse(policy) if not part.readable)


def verdicts(policy: str | None, tasks: ShareColumns, *, merging_meets_priority: bool = False) -> AnyArray:
    """For each task, the value of its :class:`Verdict` (int8).

    Tasks of the process group ``test`` are never rejected. For merging, parts with a priority field are skipped, as the
    priority of the task is not that of its merge jobs; with ``merging_meets_priority`` their condition on the priority
    counts as met.
    """
    result = np.full(len(tasks.group), -1, dtype=np.int8)
    result[tasks.group == TEST_GROUP] = Verdict.ACCEPT.value
    for part in parse(policy or ""):
        open_rows = result < 0
        if not open_rows.any():
            break
        passed_over = part.has_priority and not merging_meets_priority
        holds = open_rows & ~tasks.merging if passed_over else open_rows
        for match in part.matches:
            if match.pattern is not None:
                holds = holds & _matches(match.attribute, match.pattern, tasks)
        for compare in part.compares:
            met = _compares(compare, tasks.priority)
            holds = holds & (met | tasks.merging if merging_meets_priority else met)
        outcome = Verdict.REJECT if part.rejects else Verdict.ACCEPT
        result[holds] = (outcome if part.readable else Verdict.UNKNOWN).value
    result[result < 0] = Verdict.ACCEPT.value
    return result


def deciding_part(policy: str | None, task: ShareColumns, *, merging_meets_priority: bool = False) -> str | None:
    """The text of the subpolicy that decides about the first task; None if none does."""
    parts = parse(policy or "")
    if not parts or task.group[0] == TEST_GROUP:
        return None
    met = merging_meets_priority
    return next((part.text[:200] for part in parts if _holds_for_first(part, task, met)), None)


def _holds_for_first(part: Subpolicy, task: ShareColumns, merging_meets_priority: bool) -> bool:
    merging = bool(task.merging[0])
    if part.has_priority and merging and not merging_meets_priority:
        return False
    matched = all(
        bool(_matches(match.attribute, match.pattern, task)[0]) for match in part.matches if match.pattern is not None
    )
    if merging:
        return matched
    return matched and all(bool(_compares(compare, task.priority)[0]) for compare in part.compares)


def _subpolicy(text: str) -> Subpolicy:
    fields = text.split(":")
    matches: list[Match] = []
    compares: list[Compare] = []
    has_priority = False
    for field in fields:
        attribute = next((one for one in Attribute if field.startswith(one.value)), None)
        if attribute is not None:
            wanted = field[len(attribute.value) :]
            if wanted != _ANY:
                matches.append(Match(attribute, _pattern(wanted)))
        elif field.startswith("priority"):
            has_priority = True
            comparison = _PRIORITY.fullmatch(field)
            if comparison is not None:  # a malformed comparison holds for every task
                compares.append(Compare(comparison.group(1), float(comparison.group(2))))
    return Subpolicy(text, tuple(matches), tuple(compares), has_priority, fields[-1] in _ZERO)


@lru_cache(maxsize=65536)
def _pattern(wanted: str) -> Pattern | None:
    options = re2.Options()
    options.log_errors = False
    try:
        return cast(Pattern, re2.compile(wanted.replace("*", ".*"), options))
    except (re2.error, UnicodeEncodeError):
        return None


def _matches(attribute: Attribute, pattern: Pattern, tasks: ShareColumns) -> Bools:
    """Match a pattern once for each distinct text. A NULL share satisfies every pattern; a NULL group is empty."""
    matching = tasks.matched.get((attribute, pattern))
    if matching is None:
        names, codes = tasks.coded(attribute)
        answers = np.array([_match_one(attribute, pattern, name) for name in names], dtype=np.bool_)
        matching = tasks.matched[attribute, pattern] = answers[codes]
    return matching


@lru_cache(maxsize=65536)
def _match_one(attribute: Attribute, pattern: Pattern, name: str | None) -> bool:
    if name is None and attribute is Attribute.GSHARE:
        return True
    # a text that is not valid Unicode must not stop the brokerage
    return pattern.fullmatch((name or "").encode("utf-8", "replace").decode()) is not None


def _compares(compare: Compare, priority: Floats) -> Bools:
    # an unknown priority satisfies no comparison, not even "!="
    return np.asarray(_COMPARISONS[compare.operator](priority, compare.limit) & ~np.isnan(priority))


def texts_of_groups(processingtypes: Sequence[str | None]) -> Texts:
    """The process groups of processing types, as a column."""
    known, code = numbered(processingtypes)
    return texts(map(process_group, known))[code]
