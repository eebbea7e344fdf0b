"""Software and hardware needs of analysis chunks, judged once for each distinct need.

Source: ATLAS Analysis Job Brokerage, release/cache availability; PanDA analysis brokerage, software and hardware.
"""

from __future__ import annotations

import re
from typing import Any

from broker.domain.analysis import what_is_run
from broker.matching.need import Need, Release, need_of
from broker.matching.panda_dialect import PandaNeed, panda_need
from broker.rules.contract import AnalysisPairs
from broker.rules.shared.software_need import NeedReading

_NIGHTLY = re.compile(r"-\d{4}-\d\d-\d\dT\d{4}$", re.ASCII)
_NUMBERED = re.compile(r"rel_\d+$", re.ASCII)
_RELEASE = re.compile(r"-\d+\.\d+\.\d+$", re.ASCII)
_SERIES = re.compile(r"-\d+\.\d+$", re.ASCII)
BASE_PROJECT = "AtlasOffline"


def analysis_release(transhome: str | None, transuses: str | None, *, by_number: bool = True) -> Release | None:
    """The cache, release or nightly that the task runs; None without one.

    The leading name of the transformation is dropped, and ``_`` stands for ``-``. A release without ``transUses`` must
    be a project and a version and nothing else. ``by_number``: a name that ends with ``rel_`` and a number is a nightly
    too, not only one that ends with an instant.
    """
    if transhome is None:
        return None if transuses is None else Release("atlas", BASE_PROJECT, transuses.split("-")[-1])
    what = what_is_run(transhome)
    project, version = (*what.split("-"), "", "")[:2]
    released = _RELEASE.search(what) is not None
    nightly = _NIGHTLY.search(what) or (by_number and _NUMBERED.search(transhome))
    if what and not released and not nightly:
        return Release("atlas", project, version)
    if transuses is not None and (not what or (released and not _SERIES.search(transuses))):
        return Release("atlas", BASE_PROJECT, transuses.split("-")[-1])
    if released and transuses is None:
        return Release("atlas", project, version, readable=what.count("-") == 1)
    return Release("nightlies")


def analysis_need(written: tuple[Any, ...], *, by_number: bool = True) -> Need:
    """The need of a task: architecture, transHome, transUses, container, and whether only tags count for it."""
    architecture, transhome, transuses, container, only_tags = written
    release = analysis_release(transhome, transuses, by_number=by_number)
    return need_of(architecture, release, container, only_tags)


def _as_panda(written: tuple[Any, ...]) -> PandaNeed:
    # PanDA has replaced the underscores before it looks for nightlies of a number
    need = analysis_need(written, by_number=False)
    nightly = need.release is not None and need.release.cvmfs_tag == "nightlies"
    return panda_need(need, written[0], containers_for_base=False, cvmfs_only=nightly)


def _written(pairs: AnalysisPairs) -> list[tuple[Any, ...]]:
    tasks, uses = pairs.chunks, pairs.facts.transuses
    columns = (tasks.architecture, tasks.transhome, uses, tasks.container_name, tasks.only_tags_for_fc)
    return list(zip(*(column.ravel().tolist() for column in columns), strict=True))


ANALYSIS_NEED: NeedReading[AnalysisPairs] = NeedReading(_written, analysis_need, _as_panda)
