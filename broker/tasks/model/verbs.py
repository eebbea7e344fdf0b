"""What people may do to a task in each of its states, and the state that results. Pure.

The table of states and verbs is defined only here; ``docs/reference/task-verbs.md`` is made from it. Source:
panda-server, ``taskbuffer/JediTaskSpec.py`` (statuses that take commands), ``task_complex_module``; PanDA data model,
tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from broker.errors import WRONG_USAGE, BrokerError, Refused, did_you_mean
from broker.tasks.model.catalogue import HONOURED
from broker.tasks.model.values import BadParameter

Verb = Literal["kill", "finish", "retry", "pause", "resume", "reassign", "priority", "try-now"]
VERBS: tuple[Verb, ...] = get_args(Verb)
ANALYSIS_LABELS = ("user", "panda")
MOST_PRIORITY = 100_000

MEANINGS: Mapping[Verb, str] = {
    "kill": "jobs that wait end at once, pilots of running ones are told to stop; the task ends as aborted",
    "finish": "no new jobs; the task ends with what is finished (with soft: when its jobs have ended by themselves)",
    "retry": "files without an attempt left get new attempts, and the task runs again",
    "pause": "no new jobs until it is resumed; jobs that are there go on",
    "resume": "goes on in the state in which it was paused",
    "reassign": "jobs that wait are taken back, and made anew for another queue or nucleus",
    "priority": "the task and its jobs that wait get another priority",
    "try-now": "what waits for its time is looked at in the next cycle",
}
"""What each verb does."""

_WORKS = "kill finish retry pause reassign priority try-now"
_ALLOWED: Mapping[str, tuple[str, str]] = {
    # state: verbs that make sense, and why the others do not
    "registered": ("kill reassign priority try-now", "it waits for its input and has no jobs"),
    "defined": ("kill reassign priority try-now", "it waits for its input and has no jobs"),
    "assigning": ("kill pause reassign priority try-now", "it waits for a nucleus and has no jobs to be made"),
    "ready": (_WORKS, "it is at work"),
    "pending": (_WORKS, "it waits for a queue"),
    "scouting": (_WORKS, "it is at work"),
    "scouted": (_WORKS, "it is at work"),
    "running": (_WORKS, "it is at work"),
    "topreprocess": (_WORKS, "it is at work"),
    "preprocessing": (_WORKS, "it is at work"),
    "merging": ("kill finish priority", "its output is being merged"),
    "staging": ("kill finish resume priority", "its input is staged"),
    "throttled": ("kill finish resume priority try-now", "it is throttled"),
    "paused": ("kill finish resume priority", "it is paused; resume it first"),
    "exhausted": ("kill finish retry reassign priority", "it is given up"),
    "rerefine": ("kill priority", "its parameters are read again"),
    "toretry": ("kill priority", "it is about to run again"),
    "toincexec": ("kill priority", "it is about to run again"),
    "toreassign": ("kill priority", "it is being reassigned"),
    "reassigning": ("kill priority", "it is being reassigned"),
    "finishing": ("kill", "it ends with what is finished"),
    "prepared": ("", "it is about to end"),
    "passed": ("", "it is about to end"),
    "toabort": ("", "it is being killed already"),
    "aborting": ("", "it is being killed already"),
    "tobroken": ("", "it cannot go on: submit it anew"),
    "aborted": ("retry", "it has ended"),
    "failed": ("retry", "it has ended"),
    "finished": ("retry", "it has ended"),
    "done": ("", "it has ended, with all of its input finished"),
    "broken": ("", "it could not begin: submit it anew"),
}
STATES: tuple[str, ...] = tuple(_ALLOWED)
ALLOWED: Mapping[str, frozenset[Verb]] = {
    state: frozenset(one for one in VERBS if one in words.split()) for state, (words, _) in _ALLOWED.items()
}
"""The verbs that each state of a task takes."""

ENDED = ("done", "finished", "failed", "broken", "aborted")
"""States in which a task no longer changes by itself."""
WORKING = ("ready", "scouting", "scouted", "running", "topreprocess", "preprocessing")
"""States in which jobs are made in every cycle."""

RETRY_PARAMETERS = (
    "ramCount", "ramUnit", "baseRamCount", "coreCount", "maxAttempt", "maxFailure", "nFilesPerJob", "nMaxFilesPerJob",
    "nGBPerJob", "nEventsPerJob", "maxWalltime", "cpuTime", "cpuTimeUnit", "baseWalltime", "workDiskCount",
    "workDiskUnit", "outDiskCount", "outDiskUnit", "site",
)  # fmt: skip
"""Task parameters that a retry may change: what the jobs request, how they are cut, and where they may run."""


class WrongState(Refused):
    """The verb is not possible in the state of the task."""

    http_status = 409


class WrongVerb(BrokerError):
    """The request for a change of a task cannot be read."""

    exit_status = WRONG_USAGE
    http_status = 422


class NotYours(Refused):
    """The task belongs to another user, or the change is for operators."""

    http_status = 403


@dataclass(frozen=True)
class Target:
    """Where a task is sent: to queues, to a nucleus, or (``anew``) to whichever nucleus is chosen."""

    site: str | None = None
    nucleus: str | None = None
    anew: bool = False

    def checked(self) -> Target:
        """Return the target itself, once checked.

        Raises:
            WrongVerb: it names no place, or more than one.
        """
        if (self.site is not None) + (self.nucleus is not None) + self.anew != 1:
            raise WrongVerb("one place is needed", "reassign", "name a site (queues), a nucleus, or anew")
        return self


def check_state(verb: Verb, task: int, status: str) -> None:
    """Refuse a verb in a state where it makes no sense.

    Raises:
        WrongState: with the state, and what can be done in it.
    """
    if verb in ALLOWED.get(status, frozenset()):
        return
    words, why = _ALLOWED.get(status, ("", "this state is not known here"))
    possible = f"possible now: {', '.join(words.split())}" if words else "nothing can be done to it any more"
    raise WrongState(f"task {task} is {status}: {why}; it does not take {verb}", "jedi_tasks.status", possible)


def check_priority(priority: int, taskpriority: int, *, is_operator: bool) -> None:
    """Refuse a priority out of range and, to owners, one above that with which the task was submitted.

    Raises:
        WrongVerb: the priority is out of range.
        NotYours: only an operator may set it.
    """
    if not 0 <= priority <= MOST_PRIORITY:
        raise WrongVerb(f"priority {priority}", "priority", f"write a whole number from 0 to {MOST_PRIORITY}")
    if priority > taskpriority and not is_operator:
        what = f"the task was submitted with priority {taskpriority}; its owner may not set {priority}"
        raise NotYours(what, "priority", f"write at most {taskpriority}, or ask an operator")


def read_new_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """The task parameters that a retry changes, checked like those of a submission.

    Raises:
        BadParameter: one cannot be changed, or its value cannot be used.
    """
    parameters = {}
    for name, value in given.items():
        if name not in RETRY_PARAMETERS:
            why = "it cannot be changed by a retry" if name in HONOURED else "no such task parameter is known"
            known = f"can be: {', '.join(RETRY_PARAMETERS)}"
            raise BadParameter(name, value, why, did_you_mean(name, RETRY_PARAMETERS, known))
        parameters[name] = HONOURED[name].read(name, value)
    return parameters


def new_split_rule(rule: str | None, given: Mapping[str, Any], *, is_pseudo: bool) -> str | None:
    """The split rule with the tokens of new parameters; tokens that cut by another unit are dropped.

    >>> new_split_rule("NG=20,MF=50", {"nFilesPerJob": 2}, is_pseudo=False)
    'MF=50,NF=2'

    Raises:
        BadParameter: the task has no files (``is_pseudo``) that could be cut like this.
    """
    for name in ("nGBPerJob", "nEventsPerJob") if is_pseudo else ():
        if name in given:
            raise BadParameter(name, given[name], "the task has no input files", "write nFilesPerJob")
    tokens = dict(token.split("=", 1) for token in (rule or "").split(",") if "=" in token)
    new = {HONOURED[name].target: value for name, value in given.items() if HONOURED[name].kind == "token"}
    if new.get("NF"):
        tokens = {key: value for key, value in tokens.items() if key not in ("NE", "NG")}
    elif {"NE", "NG"} & set(new):
        tokens = {key: value for key, value in tokens.items() if key not in ("NE", "NG", "NF")}
    tokens |= {key: str(value) for key, value in new.items()}
    return ",".join(f"{key}={value}" for key, value in tokens.items()) or None


def new_columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the task that new parameters set, with their values."""
    columns = {HONOURED[name].target: value for name, value in given.items() if HONOURED[name].kind == "column"}
    if {"ramcount", "ramunit", "baseramcount", "corecount"} & set(columns):
        columns["resource_type"] = None  # it is recomputed where the jobs are brokered
    return columns
