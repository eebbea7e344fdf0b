"""What chunks of analysis need of software and hardware, judged once for each distinct need.

Source: ATLAS Analysis Job Brokerage, release/cache availability; PanDA analysis brokerage, software and hardware.
"""

from __future__ import annotations

import re

import numpy as np

from broker.domain.arrays import Ints
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.matching.explanation import explain
from broker.matching.need import Need, Release, need_of
from broker.matching.outcomes import Outcome
from broker.rules.analysis.facts import of_analysis
from broker.rules.software_need import judge_of

_TRANSFORMS = re.compile(r"^[^-]+-*")
_NIGHTLY = re.compile(r"-\d{4}-\d\d-\d\dT\d{4}$", re.ASCII)
_RELEASE = re.compile(r"-\d+\.\d+\.\d+$", re.ASCII)
_SERIES = re.compile(r"-\d+\.\d+$", re.ASCII)
BASE_PROJECT = "AtlasOffline"

Written = tuple[str | None, str | None, str | None, str | None, bool]


def analysis_release(transhome: str | None, transuses: str | None) -> Release | None:
    """What the task runs: a cache, a release, a nightly; None for a task of neither.

    The name of the transformation in front is left out, and ``_`` stands for ``-``.
    """
    if transhome is None:
        return None if transuses is None else Release("atlas", BASE_PROJECT, transuses.split("-")[-1])
    what = _TRANSFORMS.sub("", transhome).replace("_", "-")
    project, version = (*what.split("-"), "", "")[:2]
    released = _RELEASE.search(what) is not None
    if what and not released and not _NIGHTLY.search(what):
        return Release("atlas", project, version)
    if transuses is not None and (not what or (released and not _SERIES.search(transuses))):
        return Release("atlas", BASE_PROJECT, transuses.split("-")[-1])
    if released and transuses is None:
        return Release("atlas", project, version)
    return Release("nightlies")


def analysis_need(written: Written) -> Need:
    """The need of a task: architecture, transHome, transUses, container, and whether only tags count for it."""
    architecture, transhome, transuses, container, only_tags = written
    return need_of(architecture, analysis_release(transhome, transuses), container, only_tags)


def _written(tasks: WorkTable, facts: JobFacts) -> list[Written]:
    uses = of_analysis(facts).transuses
    columns = (tasks.architecture, tasks.transhome, uses, tasks.container_name, tasks.only_tags_for_fc)
    return list(zip(*(column.ravel().tolist() for column in columns), strict=True))


def outcomes(tasks: WorkTable, candidates: QueueTable, facts: JobFacts) -> Ints:
    """(T, Q): the :class:`~broker.matching.outcomes.Outcome` of each chunk at each candidate."""
    judge = judge_of(facts)
    position: dict[Written, int] = {}
    codes = np.array([position.setdefault(key, len(position)) for key in _written(tasks, facts)], dtype=np.int64)
    if not position:
        return np.zeros((0, candidates.unified.shape[1]), dtype=np.int64)
    table = np.stack([judge.outcomes(analysis_need(key)) for key in position])
    return np.asarray(table[:, candidates.unified[0]][codes])


def observed(tasks: WorkTable, candidates: QueueTable, facts: JobFacts, keeps: Outcome | None = None) -> Observation:
    """The deciding comparison for one chunk and one candidate; an outcome that the rule ``keeps`` counts as fitting."""
    outcome = Outcome(outcomes(tasks, candidates, facts).item())
    if outcome in (Outcome.FITS, keeps):
        return Observation("fits", "==", "fits", "-", "task.architecture", {"part": Outcome.FITS.code})
    offer = facts.software.queues[int(candidates.unified.item())]
    found = explain(analysis_need(_written(tasks, facts)[0]), offer, outcome)
    return Observation(
        found.value, found.operator, found.limit, found.unit, found.key, {"part": found.part, **found.inputs}
    )
