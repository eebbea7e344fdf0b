"""What the engine answers about one chunk, and how it is written into JEDI's own object."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.domain.decisions import Decision


@dataclass(frozen=True)
class CandidateAnswer:
    """A queue that may take jobs of the chunk.

    Attributes:
        name: the pseudo-queue, as PanDA's site mapper knows it.
        unified: its unified queue.
        weight: chance of being drawn; 0 for a queue to be bootstrapped.
        queued: jobs of the share that wait there; None: the weight does not fall with the jobs that are placed.
        assigned: the assigned ones of these; None likewise.
        running: jobs of the share that run there; None: not reported.
        cap: number of waiting jobs from which on the queue takes no more; None: no cap.
        maxwdir_mb: work directory of a job; None: that of the queue.
        platform: platform of the jobs; None: that of the task.
        disk: ids of the chunk's files on disk of the queue.
        tape: ids of the chunk's files on tape of the queue.
        remote: whether all files may be read over the network.
        jumbo: whether the queue takes jumbo jobs.
    """

    name: str
    unified: str
    weight: float
    queued: int | None
    assigned: int | None
    running: int | None
    cap: int | None = None
    maxwdir_mb: float | None = None
    platform: str | None = None
    disk: frozenset[int] = frozenset()
    tape: frozenset[int] = frozenset()
    remote: bool = False
    jumbo: bool = False


@dataclass(frozen=True)
class Answer:
    """The decision on a chunk, with what JEDI needs to place its jobs.

    Attributes:
        decision: with the reasons.
        candidates: best first; none for a chunk that has to wait.
        distributed: ids of the datasets that no rule keeps together and no place has completely.
        cloud: the one that the task belongs to, if the task did not say so itself; None: not reported.
    """

    decision: Decision
    candidates: tuple[CandidateAnswer, ...]
    distributed: frozenset[int] = field(default=frozenset())
    cloud: str | None = None


class UnusableAnswerError(Exception):
    """An answer that JEDI could not work with; the message says why."""


def check(answer: Answer, knows: Callable[[str], bool], file_ids: frozenset[int]) -> None:
    """Refuse an answer that would break JEDI's splitter.

    Raises:
        UnusableAnswerError: a queue that the site mapper does not know, an invalid weight, or foreign files.
    """
    for one in answer.candidates:
        if not knows(one.name):
            raise UnusableAnswerError(f"unknown_queue: {one.name} is not in PanDA's site map")
        if not (math.isfinite(one.weight) and one.weight >= 0):
            raise UnusableAnswerError(f"bad_weight: {one.weight} for {one.name}")
        if not (one.disk | one.tape) <= file_ids:
            raise UnusableAnswerError(f"foreign_files: {one.name} has files that the chunk does not have")


def fill(answer: Answer, chunk: Any, task_spec: Any) -> None:
    """Add the candidates to JEDI's chunk.

    Args:
        answer: with candidates.
        chunk: ``InputChunk``.
        task_spec: ``JediTaskSpec``.
    """
    from pandajedi.jedicore.SiteCandidate import SiteCandidate

    if answer.cloud and not task_spec.cloud:
        task_spec.cloud = answer.cloud
    specs = chunk.getDatasets()
    # files that no candidate holds are read from afar, wherever they are
    held = frozenset[int]().union(*(one.disk | one.tape for one in answer.candidates))
    distributed = [
        spec
        for spec in specs
        if spec.datasetID in answer.distributed and any(file.fileID in held for file in spec.Files)
    ]
    for spec in distributed:
        spec.setDistributed()
    takes_jumbo = task_spec.getNumJumboJobs() is not None
    for one in answer.candidates:
        candidate = SiteCandidate(one.name, one.unified)
        candidate.weight, candidate.nRunningJobsCap = one.weight, one.cap
        candidate.nQueuedJobs, candidate.nAssignedJobs, candidate.nRunningJobs = one.queued, one.assigned, one.running
        if one.maxwdir_mb is not None:
            candidate.override_attribute("maxwdir", int(one.maxwdir_mb))
        if one.platform:
            candidate.override_attribute("platforms", one.platform)
        _add_files(candidate, one, specs, bool(distributed))
        if takes_jumbo and one.jumbo:
            chunk.addSiteCandidateForJumbo(candidate)
            if chunk.useJumbo not in ("fake", "only"):
                continue
        chunk.addSiteCandidate(candidate)


def _add_files(candidate: Any, one: CandidateAnswer, specs: Any, distributed: bool) -> None:
    for spec in specs:
        on_disk = [file for file in spec.Files if file.fileID in one.disk]
        on_tape = [file for file in spec.Files if file.fileID in one.tape]
        candidate.add_local_disk_files(on_disk)
        candidate.add_local_tape_files(on_tape)
        if one.remote:
            candidate.remoteProtocol = "direct"
            candidate.add_remote_files(spec.Files)
        if distributed:
            candidate.addAvailableFiles([*on_disk, *on_tape])


def dialog(decision: Decision, link: str | None) -> str:
    """The text of the task's error dialog (510 characters): the reason, and why most queues were rejected."""
    by_code: dict[str, int] = {}
    for code in decision.rejected.values():
        by_code[code] = by_code.get(code, 0) + 1
    most = sorted(by_code.items(), key=lambda item: (-item[1], item[0]))[:6]
    reasons = ", ".join(f"-{code} {count}" for code, count in most)
    text = f"gridbroker: {decision.outcome}: {decision.reason or 'no_candidates'}"
    text += f" (queues by reason: {reasons})" if reasons else ""
    if link is not None:
        url = link.format(jeditaskid=decision.jeditaskid)
        return f'<a href="{url}">explanation</a> : {text}'[:510]
    return f"{text}; broker explain {decision.jeditaskid}"[:510]


def live_jobs(names: Mapping[str, str], count: Callable[[str], int]) -> dict[str, int]:
    """Jobs that this cycle of JEDI's has placed so far, by unified queue.

    Args:
        names: pseudo-queue to unified queue.
        count: JEDI's live counter.
    """
    placed: dict[str, int] = {}
    for name, unified in names.items():
        jobs = int(count(name) or 0)
        if jobs:
            placed[unified] = placed.get(unified, 0) + jobs
    return placed
