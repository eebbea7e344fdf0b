"""The first candidates of a chunk: a queue that its task names, queues by a pattern, that of its input, or its cloud.

Source: PanDA JEDI, GenJobBroker and SiteMapper.
"""

from __future__ import annotations

import re

import numpy as np

from broker.domain.arrays import Bools, numbered
from broker.domain.work import WorkTable
from broker.engine.job.initial_list import InitialCandidates, InitialList, RefusedNames
from broker.engine.shared.answer import UNKNOWN_NAME
from broker.rules.contract import Reason
from broker.snapshot.snapshot import Snapshot

BAD_PATTERN = "bad_pattern"
#: More repetitions in a pattern, or a repeated group, could take hours to search for: it is refused.
MOST_REPETITIONS = 4
_REPEATED_GROUP = re.compile(r"\)[*+?{]")
_REPETITION = re.compile(r"[*+?{]")


class CloudQueues(InitialList):
    """The candidates before any rule; a name that no queue has is a pattern over the queues of the cloud."""

    gives = (
        Reason(
            code=BAD_PATTERN,
            title="the site of the task names no queue, and is no pattern that can be searched for",
            no_candidate="has the name that the task gives",
            who="you",
            cure="Name a queue, or a regular expression without repeated groups and with at most four repetitions; "
            "`broker queues` lists the names.",
        ),
    )
    title = "Which queues are candidates before any rule: those that are named, or those of the cloud"

    def everybody(self, snapshot: Snapshot) -> Bools:
        """(Q,): the candidates of a chunk whose task names neither queue nor cloud."""
        return np.asarray(snapshot.unified.runs_production[snapshot.queues.unified])

    def candidates(self, work: WorkTable, snapshot: Snapshot) -> InitialCandidates:
        """The first candidates of the chunks, which have columns (T,)."""
        columns = (work.site, work.master_site, work.cloud)
        asked, kind = numbered(zip(*(column.tolist() for column in columns), strict=True))
        found = [_of_place(snapshot, self.everybody(snapshot), *place) for place in asked]
        masks = np.array([mask for mask, _ in found], dtype=np.bool_).reshape(len(found), len(snapshot.queues))
        named = np.array([bool(site or master) for site, master, _ in asked], dtype=np.bool_)[kind]
        one = masks.sum(axis=1)[kind] <= 1
        refused = [found[at][1] for at in kind.tolist()]
        return InitialCandidates(masks[kind], named & one, named & ~one, refused)


def _of_place(
    snapshot: Snapshot, everybody: Bools, site: str | None, master_site: str | None, cloud: str | None
) -> tuple[Bools, RefusedNames]:
    """(Q,) the candidates of one site, site of the input and cloud, and what stands in them and gives none."""
    queues, unified = snapshot.queues, snapshot.unified
    clouds = unified.cloud
    name = site or master_site
    if name:
        # production needs a cloud; without one a queue is not on the map
        mapped = np.array([bool(one) for one in clouds.tolist()], dtype=np.bool_) | (unified.type == "analysis")
        mask = np.asarray((queues.name == name) & mapped[queues.unified], dtype=np.bool_)
        if mask.any() or not site:
            return mask, () if mask.any() else ((name, UNKNOWN_NAME),)
    of_cloud = everybody & np.asarray(clouds == cloud)[queues.unified] if cloud in set(clouds.tolist()) else everybody
    return _matching(snapshot, of_cloud, site) if site else (np.asarray(of_cloud & (queues.name != "NA")), ())


def _matching(snapshot: Snapshot, of_cloud: Bools, pattern: str) -> tuple[Bools, RefusedNames]:
    """Those of the cloud in whose names the pattern is found."""
    costly = _REPEATED_GROUP.search(pattern) or len(_REPETITION.findall(pattern)) > MOST_REPETITIONS
    try:
        search = re.compile(pattern).search
    except re.error:
        costly = True
    if costly:
        return np.zeros_like(of_cloud), ((pattern, BAD_PATTERN),)
    found = np.array([search(name) is not None for name in snapshot.queues.name.tolist()], dtype=np.bool_) & of_cloud
    return found, () if found.any() else ((pattern, UNKNOWN_NAME),)
